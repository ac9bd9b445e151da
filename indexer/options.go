package indexer

import (
	"math"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/schemas"
)

// The values of Options.Modality and Query.Modality.
const (
	Image = "image"
	Text  = "text"
)

// The values of Options.SameImage and Options.NearImage. A mark without one keeps them.
const (
	KeepImages  = ""
	CountImages = "count"
	DropImages  = "drop"
)

// Options define a group and the computations on it. The defaults are those of GPN-S.
type Options struct {
	GroupSize     int     `env:"GROUP_SIZE" envDefault:"5000000" desc:"distinct pairs of a lane that are indexed and clustered together"`
	K             int     `env:"NEIGHBORS_K" envDefault:"10" desc:"k: texts nearest to each image, V2T"`
	K1            int     `env:"NEIGHBORS_K1" envDefault:"5" desc:"k1: images nearest to each image, V2V, from which its positives come (GPN-S eq. 9)"`
	K2            int     `env:"NEIGHBORS_K2" envDefault:"500" desc:"k2: images nearest to each text, T2V, among which positives must be"`
	KeepSameImage bool    `envDefault:"false"` // let an image's other captions count among its V2V neighbours
	Clusters      int     `env:"CLUSTERS" envDefault:"1000" desc:"K of k-means; no more than the group has pairs"`
	Iterations    int     `envDefault:"20"`    // most iterations of k-means
	Modality      string  `envDefault:"image"` // vectors that are clustered: Image or Text
	P             float64 `env:"OBJECT_SHARE" envDefault:"0.3" desc:"p: a noun in more than this share of the neighbour texts is an object of the image (GPN-S eq. 7)"`
	MinCount      int     `env:"NOUN_MIN_COUNT" envDefault:"10" desc:"a noun counts when more captions of the group than this have it"`
	Window        int     `env:"-"` // embeddings back from each within which a pair counts once, whatever its group; 0: within its group only
	SameImage     string  `json:",omitempty" env:"DEDUPE_IMAGES" envDefault:"keep" desc:"pairs whose image one of the lane's latest 1,048,576 embeddings has with another caption: keep, count or drop"`
	NearImage     string  `json:",omitempty" env:"DEDUPE_NEAR" envDefault:"keep" desc:"pairs whose image resembles that of an earlier pair in its cluster of the group: keep, count or drop (SemDeDup); drop:0.9 sets the cosine of two vectors above which images resemble one another, 0.95 without"`
	NearCosine    float64 `json:",omitempty" envDefault:"0.95"` // above which two images resemble one another, where NearImage is count or drop
	Seed          uint64  `env:"-"`
	Repack        string  `json:",omitempty" env:"-"` // URL of the folder that gets smaller copies of the members' images; empty: there are none
	RepackSide    int     `json:",omitempty" env:"-"` // most pixels of a copy's shorter side; 0 unless Repack is set
	Scope         string  `json:",omitempty" env:"NEIGHBORS_SCOPE" envDefault:"group" desc:"where neighbours are looked for besides the group: group (nowhere), lane (earlier groups of the lane) or crawl (closed groups of all lanes); lane:4 asks the latest 4 closed groups, 8 without; needs SEGMENTS_ROOT"`
	Asked         int     `json:",omitempty" envDefault:"8"` // most closed groups that a group asks, the latest, where Scope is lane or crawl
	Segments      bool    `json:"-" env:"-"`                 // a closed group has a segment, which later ones ask; changes no record
	Threads       int     `envDefault:"0"`                   // of neighbour search and k-means; 0: all processors; changes no record
}

// DefaultOptions returns the settings of the GPN-S paper.
func DefaultOptions() Options {
	return Options{
		GroupSize: 5_000_000, K: 10, K1: 5, K2: 500, Clusters: 1000, Iterations: 20, Modality: Image, P: 0.3, MinCount: 10,
		Window: 1 << 20,
	}
}

// Bounds of Options.RepackSide.
const (
	LeastRepackSide = 16
	MostRepackSide  = 4096
)

// maxGroupSize keeps positions in int32 columns, and the reservation for vectors within the address space.
const maxGroupSize = 100_000_000

// Normal returns the options as marks hold them: words and their numbers apart, values that change nothing empty.
func (o Options) Normal() Options {
	if word, number, ok := invalid.Numbered(o.NearImage, CountImages, DropImages); ok {
		o.NearImage, o.NearCosine = word, number
	}
	if word, number, ok := invalid.Numbered(o.Scope, schemas.ScopeLane, schemas.ScopeCrawl); ok && number == math.Trunc(number) {
		o.Scope, o.Asked = word, int(number)
	}
	if o.Scope == "group" {
		o.Scope, o.Asked = "", 0
	}
	if o.SameImage == "keep" {
		o.SameImage = KeepImages
	}
	if o.NearImage == "keep" {
		o.NearImage, o.NearCosine = KeepImages, 0
	}
	return o
}

// Validate returns every option that is out of range, joined.
func (o Options) Validate() error {
	o = o.Normal()
	var l invalid.List
	invalid.Within(&l, "GroupSize", o.GroupSize, 1, maxGroupSize)
	invalid.Within(&l, "K", o.K, 1, 1000)
	invalid.Within(&l, "K1", o.K1, 1, 1000)
	invalid.Within(&l, "K2", o.K2, 1, maxGroupSize)
	invalid.Within(&l, "Clusters", o.Clusters, 1, 1_000_000)
	invalid.Within(&l, "Iterations", o.Iterations, 1, 10_000)
	invalid.Within(&l, "MinCount", o.MinCount, 0, math.MaxInt32)
	invalid.Within(&l, "Window", o.Window, 0, maxGroupSize)
	invalid.Within(&l, "Threads", o.Threads, 0, 4096)
	for _, policy := range []struct{ field, value string }{{"SameImage", o.SameImage}, {"NearImage", o.NearImage}} {
		l.Want(policy.value == KeepImages || policy.value == CountImages || policy.value == DropImages, "%s is %q, want %q or %q",
			invalid.Field(policy.field), policy.value, CountImages, DropImages)
	}
	if o.NearImage != KeepImages {
		l.Want(o.NearCosine > 0 && o.NearCosine < 1, "%s is %s:%g, want a cosine above 0 and below 1", invalid.Field("NearImage"), o.NearImage, o.NearCosine)
	}
	if o.Repack != "" {
		invalid.Within(&l, "RepackSide", o.RepackSide, LeastRepackSide, MostRepackSide)
	}
	if o.Scope != "" {
		l.Want(o.Scope == schemas.ScopeLane || o.Scope == schemas.ScopeCrawl, "%s is %q, want %q or %q", invalid.Field("Scope"), o.Scope, schemas.ScopeLane, schemas.ScopeCrawl)
		l.Want(o.Asked >= 1 && o.Asked <= schemas.MaxAsked, "%s is %s:%d, want 1 to %d groups", invalid.Field("Scope"), o.Scope, o.Asked, schemas.MaxAsked)
	}
	l.Want(o.Modality == Image || o.Modality == Text, "%s is %q, want %q or %q", invalid.Field("Modality"), o.Modality, Image, Text)
	invalid.Within(&l, "P", o.P, 0, 1)
	return l.Err()
}

// LargestRecord returns how many bytes the largest record of a group can have: a chunk, or a manifest.
func (o Options) LargestRecord() int64 {
	const (
		record  = 4 << 10 // fixed overhead
		member  = 16 + 4 + 4 + 4*maxObjects
		near    = 16 + 4 + 4
		copied  = 16 + 4 + 4
		outside = 16 + 16
	)
	chunk := int64(schemas.ChunkMembers) * (member + 4*int64(o.K) + 4*int64(o.K1))
	if o.NearImage != KeepImages {
		chunk += schemas.MaxNear * schemas.ChunkMembers * near
	}
	if o.Repack != "" {
		chunk += schemas.MaxURIBytes + schemas.ChunkMembers*copied
	}
	if o.Scope != "" {
		chunk += maxOutsideBytes + schemas.ChunkMembers*(4+int64(o.K1)*outside)
		if o.NearImage != KeepImages {
			chunk += schemas.MaxNear * schemas.ChunkMembers * (16 + 16 + 4 - near)
		}
	}
	return record + max(chunk, maxVocabularyBytes)
}

// NounFinder tells the distinct nouns of a caption, lower-cased; internal/content/nouns does. It must always answer the
// same.
type NounFinder interface {
	Nouns(caption string) []string
}

// Reason says what closed a group.
type Reason string

// The reasons to close a group, as the manifest names them.
const (
	ByCount Reason = "count"
	BySeal  Reason = "seal"
	ByModel Reason = "model"
)

// Group is a closed group: its chunks in order, and the manifest that follows them.
type Group struct {
	Chunks   []*schemas.NeighborChunk
	Manifest *schemas.Group
	// Image returns the id and the reference of the image of the member at a position; nil without [Options.Repack].
	Image func(position int) (schemas.ImageID, schemas.ImageRef)
	// Segment answers later groups; nil without [Options.Segments]. The caller closes it.
	Segment *segment.Segment
}
