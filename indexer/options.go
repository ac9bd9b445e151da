package indexer

import (
	"errors"
	"fmt"
	"math"

	"github.com/pairstream/pairstream/schemas"
)

// The values of Options.Modality, and what a search looks for.
const (
	Image = "image"
	Text  = "text"
)

// Options decide what a group is and what is computed for it. The defaults are those of GPN-S.
type Options struct {
	GroupSize     int     `env:"GROUP_SIZE" envDefault:"5000000" desc:"distinct pairs of a lane that are indexed and clustered together"`
	K             int     `env:"NEIGHBORS_K" envDefault:"10" desc:"k: texts nearest to each image, V2T"`
	K1            int     `env:"NEIGHBORS_K1" envDefault:"5" desc:"k1: images nearest to each image, V2V, from which its positives come (GPN-S eq. 9)"`
	K2            int     `env:"NEIGHBORS_K2" envDefault:"500" desc:"k2: images nearest to each text, T2V, among which positives must be"`
	KeepSameImage bool    `env:"NEIGHBORS_SAME_IMAGE" envDefault:"false" desc:"let an image's other captions count among its V2V neighbours"`
	Clusters      int     `env:"CLUSTERS" envDefault:"1000" desc:"K of k-means; no more than the group has pairs"`
	Iterations    int     `env:"CLUSTER_ITERATIONS" envDefault:"20" desc:"most iterations of k-means"`
	Modality      string  `env:"CLUSTER_MODALITY" envDefault:"image" desc:"vectors that are clustered: image or text"`
	P             float64 `env:"OBJECT_SHARE" envDefault:"0.3" desc:"p: a noun in more than this share of the neighbour texts is an object of the image (GPN-S eq. 7)"`
	MinCount      int     `env:"NOUN_MIN_COUNT" envDefault:"10" desc:"a noun counts when more captions of the group than this have it"`
	Seed          uint64  `env:"SEED" envDefault:"0" desc:"seed of the run: keys every shuffle, mask, augmentation and initial weight"`
	Threads       int     `env:"INDEXER_THREADS" envDefault:"0" desc:"threads of neighbour search and k-means; 0: all processors; changes no record"`
}

// DefaultOptions are the settings of the GPN-S paper.
func DefaultOptions() Options {
	return Options{
		GroupSize: 5_000_000, K: 10, K1: 5, K2: 500, Clusters: 1000, Iterations: 20, Modality: Image, P: 0.3, MinCount: 10,
	}
}

// maxGroupSize keeps positions in int32 columns, and the reservation for vectors within the address space.
const maxGroupSize = 100_000_000

// Validate names every option that is out of range.
func (o Options) Validate() error {
	var problems []error
	within := func(name string, value, low, high int) {
		if value < low || value > high {
			problems = append(problems, fmt.Errorf("%s is %d, want %d..%d", name, value, low, high))
		}
	}
	within("GROUP_SIZE", o.GroupSize, 1, maxGroupSize)
	within("NEIGHBORS_K", o.K, 1, 1000)
	within("NEIGHBORS_K1", o.K1, 1, 1000)
	within("NEIGHBORS_K2", o.K2, 1, maxGroupSize)
	within("CLUSTERS", o.Clusters, 1, 1_000_000)
	within("CLUSTER_ITERATIONS", o.Iterations, 1, 10_000)
	within("NOUN_MIN_COUNT", o.MinCount, 0, math.MaxInt32)
	within("INDEXER_THREADS", o.Threads, 0, 4096)
	if o.Modality != Image && o.Modality != Text {
		problems = append(problems, fmt.Errorf("CLUSTER_MODALITY is %q, want %q or %q", o.Modality, Image, Text))
	}
	if !(o.P >= 0 && o.P <= 1) {
		problems = append(problems, fmt.Errorf("OBJECT_SHARE is %g, want 0..1", o.P))
	}
	return errors.Join(problems...)
}

// NounFinder tells the distinct nouns of a caption, lower-cased; internal/nouns does. It must always answer the same.
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
}
