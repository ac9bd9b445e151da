package schemas

import (
	"fmt"
	"math"
)

// ChunkMembers is the number of group members in every [NeighborChunk] but a group's last.
const ChunkMembers = 1024

// NeighborChunk holds the indexer's results for consecutive members of a group, as columns. A member's position is its
// index among the group's distinct pairs in offset order; every reference to another member is a position.
type NeighborChunk struct {
	Group   GroupID `msgpack:"group"`         // the members' group
	Start   int32   `msgpack:"start"`         // position of the first member
	IDs     []byte  `msgpack:"ids"`           // 16 bytes a member: pair ids
	K       int32   `msgpack:"k"`             // columns of V2T
	V2T     Int32s  `msgpack:"v2t,omitempty"` // members x K: texts nearest to the image, best first; -1: no such neighbour
	K1      int32   `msgpack:"k1"`            // columns of SE
	SE      Int32s  `msgpack:"se,omitempty"`  // members x K1: semantic-equivalent images (GPN-S eq. 9), best first, padded with -1
	Cluster Int32s  `msgpack:"cluster"`       // a member's k-means cluster
	ObjEnd  Int32s  `msgpack:"obj_end"`       // a member's nouns are Obj[ObjEnd[i-1]:ObjEnd[i]]
	Obj     Int32s  `msgpack:"obj,omitempty"` // obj(v), GPN-S eq. 7, as indices into the manifest's Nouns, ascending

	// The group's near-duplicates, where they are looked for, are spread over its chunks in the order of their seqs.
	Near       []byte   `msgpack:"near,omitempty"`        // 16 bytes a near-duplicate: its pair id
	NearTo     Int32s   `msgpack:"near_to,omitempty"`     // position of the member whose image it resembles
	NearCosine Floats32 `msgpack:"near_cosine,omitempty"` // cosine of the two images' vectors v

	// These hold images of other groups, if the indexer looks at other groups (NEIGHBORS_SCOPE). The nearest images of
	// all groups are split: SE has the members, Outside the others. Near-duplicates of outside images are spread over
	// the chunks like those of members.
	OutEnd        Int32s   `msgpack:"out_end,omitempty"`         // a member's equivalent images of other groups are those from OutEnd[i-1] to OutEnd[i]; absent: there are none
	OutImages     []byte   `msgpack:"out_images,omitempty"`      // 16 bytes an equivalent image of another group, best first: its id
	OutPlace      Int32s   `msgpack:"out_place,omitempty"`       // 4 values an image: number of its object in OutURIs, low and high half of the offset in the object, size
	OutURIs       []byte   `msgpack:"out_uris,omitempty"`        // URIs of the objects, each with a line feed behind it
	OutNear       []byte   `msgpack:"out_near,omitempty"`        // 16 bytes a near-duplicate: its pair id
	OutNearTo     []byte   `msgpack:"out_near_to,omitempty"`     // 16 bytes a near-duplicate: id of the image that its own resembles
	OutNearCosine Floats32 `msgpack:"out_near_cosine,omitempty"` // about the cosine of the two images' vectors v

	// Smaller copies of the members' images, where the indexer makes them. They are in one tar.
	CopyURI   string `msgpack:"copy_uri,omitempty"`   // the tar, e.g. s3://bucket/copies/group/00000.tar; absent: there are no copies
	CopyIDs   []byte `msgpack:"copy_ids,omitempty"`   // 16 bytes a member: hash of the copy's bytes; zeros: the member has no copy
	CopyBlock Int32s `msgpack:"copy_block,omitempty"` // block of 512 bytes of the tar at which a member's copy begins
	CopySize  Int32s `msgpack:"copy_size,omitempty"`  // bytes of a member's copy; 0: it has none
}

// CopyBlockBytes is the unit in which positions of copies count, because entries of a tar begin at multiples of it.
const CopyBlockBytes = 512

// SetCopy notes where the copy of the chunk's i-th member is. All copies of a chunk are in one object.
func (c *NeighborChunk) SetCopy(i int, ref ImageRef) {
	if c.CopyURI == "" {
		n := c.Members()
		c.CopyURI, c.CopyIDs, c.CopyBlock, c.CopySize = ref.URI, make([]byte, 16*n), make(Int32s, n), make(Int32s, n)
	}
	copy(c.CopyIDs[16*i:], ref.Copy[:])
	c.CopyBlock[i], c.CopySize[i] = int32(ref.Offset/CopyBlockBytes), int32(ref.Size)
}

// Copy returns the reference to the copy of the chunk's i-th member, if it has one.
func (c *NeighborChunk) Copy(i int) (ImageRef, bool) {
	if c.CopyURI == "" || c.CopySize[i] == 0 {
		return ImageRef{}, false
	}
	return ImageRef{
		URI: c.CopyURI, Offset: CopyBlockBytes * int64(c.CopyBlock[i]), Size: int64(c.CopySize[i]), Copy: ImageID(c.CopyIDs[16*i : 16*i+16]),
	}, true
}

// MaxNear is the most near-duplicates that a chunk has for each of its members' places.
const MaxNear = 64

// Schema implements [Record].
func (*NeighborChunk) Schema() string { return SchemaNeighborChunk }

// Members returns the number of group members in the chunk.
func (c *NeighborChunk) Members() int { return len(c.IDs) / 16 }

// ID returns the pair id of the chunk's i-th member.
func (c *NeighborChunk) ID(i int) PairID { return PairID(c.IDs[16*i : 16*i+16]) }

// Objects returns obj(v) of the chunk's i-th member, as indices into the manifest's Nouns.
func (c *NeighborChunk) Objects(i int) []int32 {
	from := int32(0)
	if i > 0 {
		from = c.ObjEnd[i-1]
	}
	return c.Obj[from:c.ObjEnd[i]]
}

// Validate implements [Record].
func (c *NeighborChunk) Validate() error {
	if err := c.Group.validate(); err != nil {
		return err
	}
	n := c.Members()
	switch {
	case len(c.IDs)%16 != 0 || n == 0 || n > ChunkMembers:
		return invalid("%d bytes of ids, want 16 for each of 1..%d members", len(c.IDs), ChunkMembers)
	case c.Start < 0 || c.Start%ChunkMembers != 0 || int64(c.Start)+int64(n) > math.MaxInt32:
		return invalid("%d members start at position %d, want a multiple of %d", n, c.Start, ChunkMembers)
	case len(c.Cluster) != n:
		return invalid("cluster has %d values, want %d", len(c.Cluster), n)
	}
	for i := range n {
		switch {
		case c.ID(i) == PairID{}:
			return invalid("pair id of member %d is missing", i)
		case c.Cluster[i] < 0:
			return invalid("cluster of member %d is %d", i, c.Cluster[i])
		}
	}
	if err := validateNeighbors("v2t", c.V2T, n, c.K); err != nil {
		return err
	}
	if err := validateNeighbors("se", c.SE, n, c.K1); err != nil {
		return err
	}
	if err := c.validateNear(); err != nil {
		return err
	}
	if err := c.validateOutside(); err != nil {
		return err
	}
	if err := c.validateCopies(); err != nil {
		return err
	}
	return c.validateObjects()
}

func (c *NeighborChunk) validateNear() error {
	n := len(c.Near) / 16
	if len(c.Near)%16 != 0 || n > MaxNear*ChunkMembers || len(c.NearTo) != n || len(c.NearCosine) != n {
		return invalid("%d bytes of near-duplicates, with %d positions and %d cosines", len(c.Near), len(c.NearTo), len(c.NearCosine))
	}
	for i := range n {
		cosine := float64(c.NearCosine[i])
		if PairID(c.Near[16*i:16*i+16]) == (PairID{}) || c.NearTo[i] < 0 || !(math.Abs(cosine) <= 1) {
			return invalid("near-duplicate %d of %d is close to member %d by %g", i, n, c.NearTo[i], cosine)
		}
	}
	return nil
}

func (c *NeighborChunk) validateCopies() error {
	n := c.Members()
	if c.CopyURI == "" {
		n = 0
	}
	if len(c.CopyIDs) != 16*n || len(c.CopyBlock) != n || len(c.CopySize) != n {
		return invalid("%d bytes of ids of copies, %d places and %d sizes, want those of %d members", len(c.CopyIDs), len(c.CopyBlock), len(c.CopySize), n)
	}
	for i := range n {
		ref, isCopy := c.Copy(i)
		switch {
		case !isCopy && (c.CopyBlock[i] != 0 || !ImageID(c.CopyIDs[16*i:16*i+16]).IsZero()):
			return invalid("copy of member %d has no bytes", i)
		case isCopy && ref.Copy.IsZero():
			return invalid("id of the copy of member %d is missing", i)
		case isCopy:
			if err := ref.validate(); err != nil {
				return fmt.Errorf("copy of member %d: %w", i, err)
			}
		}
	}
	return nil
}

// validateNeighbors checks n rows of k positions, each row filled up with -1.
func validateNeighbors(field string, positions Int32s, n int, k int32) error {
	if k < 0 || int64(len(positions)) != int64(n)*int64(k) {
		return invalid("%s has %d values, want %d x %d", field, len(positions), n, k)
	}
	for i, p := range positions {
		switch {
		case p < -1:
			return invalid("%s of member %d holds position %d", field, i/int(k), p)
		case p != -1 && i%int(k) > 0 && positions[i-1] == -1:
			return invalid("%s of member %d holds position %d after -1", field, i/int(k), p)
		}
	}
	return nil
}

func (c *NeighborChunk) validateObjects() error {
	if len(c.ObjEnd) != c.Members() {
		return invalid("obj_end has %d values, want %d", len(c.ObjEnd), c.Members())
	}
	from := int32(0)
	for i, end := range c.ObjEnd {
		if end < from || int(end) > len(c.Obj) {
			return invalid("obj_end goes from %d to %d of %d", from, end, len(c.Obj))
		}
		prev := int32(-1)
		for _, noun := range c.Obj[from:end] {
			if noun <= prev {
				return invalid("obj of member %d holds noun %d after %d", i, noun, prev)
			}
			prev = noun
		}
		from = end
	}
	if int(from) != len(c.Obj) {
		return invalid("obj has %d values, obj_end says %d", len(c.Obj), from)
	}
	return nil
}

// The events that close a group.
const (
	ClosedByCount = "count" // it is full
	ClosedBySeal  = "seal"  // a seal record
	ClosedByModel = "model" // the encoder changed its model
)

// Where the indexer looks for neighbours besides a group, as a manifest names it.
const (
	ScopeLane  = "lane"  // in earlier groups of the lane
	ScopeCrawl = "crawl" // in groups of all lanes
)

// MaxAsked is the most groups that a manifest names.
const MaxAsked = 1000

// The vectors that are clustered.
const (
	ModalityImage = "image"
	ModalityText  = "text"
)

// Group is the manifest that follows a group's last chunk.
type Group struct {
	Group         GroupID  `msgpack:"group"`                // the group's id
	FirstSeq      int64    `msgpack:"first_seq"`            // place of the group's first embedding in its lane, without repetitions: its seq
	EndSeq        int64    `msgpack:"end_seq"`              // the place after the group's last embedding
	Count         int32    `msgpack:"count"`                // distinct pairs
	Duplicates    int64    `msgpack:"duplicates"`           // embeddings in the range that repeat an earlier pair of the group
	Repeats       int64    `msgpack:"repeats,omitempty"`    // embeddings in the range that repeat a pair of an earlier group, and were left out
	SameImage     int64    `msgpack:"same_image,omitempty"` // embeddings in the range that repeat an image with another caption, where that is looked at; dropped ones are repeats, too
	Near          int64    `msgpack:"near,omitempty"`       // near-duplicates in the range, where they are looked for: pairs whose image resembles that of a member
	LeftOut       int64    `msgpack:"left_out,omitempty"`   // of these: pairs that are no members for it
	Chunks        int32    `msgpack:"chunks"`               // neighbor chunks of the group
	Dim           int32    `msgpack:"dim"`                  // values of a vector
	Clusters      int32    `msgpack:"clusters"`             // k-means clusters: as many as configured, or Count when that is fewer
	MinSimilarity float32  `msgpack:"min_similarity"`       // smallest v . t of a pair
	MaxSimilarity float32  `msgpack:"max_similarity"`       // largest v . t of a pair
	Nouns         []string `msgpack:"nouns,omitempty"`      // S_n, the noun vocabulary, ascending
	Model         string   `msgpack:"model"`                // fingerprint of the encoder's weights
	Closed        string   `msgpack:"closed"`               // what closed the group
	Final         bool     `msgpack:"final,omitempty"`      // a final seal closed it: it is the lane's last
	K             int32    `msgpack:"k"`                    // parameter: nearest texts of an image
	K1            int32    `msgpack:"k1"`                   // parameter: nearest images of an image, of which SE is chosen
	K2            int32    `msgpack:"k2"`                   // parameter: nearest images of a text, in which SE must lie
	P             float64  `msgpack:"p"`                    // parameter: obj(v) holds the nouns of more than this share of the K texts
	MinCount      int32    `msgpack:"min_count"`            // parameter: a noun occurs more often than this in the group
	Modality      string   `msgpack:"modality"`             // which vectors were clustered
	Digest        []byte   `msgpack:"digest"`               // SHA-256 over the chunks' bytes, in order

	Scope string    `msgpack:"scope,omitempty"` // where neighbours were looked for besides the group; absent: nowhere
	Asked []GroupID `msgpack:"asked,omitempty"` // the groups that were looked at, in that order
}

// Schema implements [Record].
func (*Group) Schema() string { return SchemaGroup }

// Validate implements [Record].
func (g *Group) Validate() error {
	if err := g.Group.validate(); err != nil {
		return err
	}
	count := int64(g.Count)
	switch {
	case count <= 0 || int64(g.Chunks) != (count+ChunkMembers-1)/ChunkMembers:
		return invalid("group of %d pairs in %d chunks", count, g.Chunks)
	case g.FirstSeq < 0 || g.EndSeq < g.FirstSeq:
		return invalid("places from %d to %d", g.FirstSeq, g.EndSeq)
	case g.SameImage < 0 || g.SameImage > g.EndSeq-g.FirstSeq:
		return invalid("%d repeated images between places %d and %d", g.SameImage, g.FirstSeq, g.EndSeq)
	case g.LeftOut < 0 || g.LeftOut > g.Near || g.Near-g.LeftOut > count || g.Near > g.EndSeq-g.FirstSeq:
		return invalid("%d near-duplicates, %d of them left out, of %d pairs", g.Near, g.LeftOut, count)
	case g.Duplicates < 0 || g.Repeats < 0 || g.Repeats > g.EndSeq-g.FirstSeq || g.EndSeq-g.FirstSeq-g.Repeats-g.LeftOut-count < g.Duplicates:
		return invalid("%d pairs, %d duplicates, %d repeats and %d left out between places %d and %d", count, g.Duplicates, g.Repeats, g.LeftOut, g.FirstSeq, g.EndSeq)
	case g.Dim <= 0 || g.Dim > MaxDim:
		return invalid("dim %d, want 1..%d", g.Dim, MaxDim)
	case g.Clusters <= 0 || g.Clusters > g.Count:
		return invalid("%d clusters of %d pairs", g.Clusters, count)
	case g.K < 0 || g.K1 < 0 || g.K2 < 0 || g.MinCount < 0:
		return invalid("k %d, k1 %d, k2 %d, min_count %d: want none negative", g.K, g.K1, g.K2, g.MinCount)
	case !(g.P >= 0 && g.P <= 1): // the negation also refuses NaN
		return invalid("p is %g, want 0..1", g.P)
	case g.Final && g.Closed != ClosedBySeal:
		return invalid("the lane's last group was closed by %q, want %q", g.Closed, ClosedBySeal)
	case len(g.Digest) != 32:
		return invalid("digest of %d bytes, want 32", len(g.Digest))
	}
	if err := g.validateSimilarities(); err != nil {
		return err
	}
	if err := g.validateAsked(); err != nil {
		return err
	}
	return g.validateNames()
}

func (g *Group) validateSimilarities() error {
	if err := validateSimilarity("min_similarity", g.MinSimilarity); err != nil {
		return err
	}
	if err := validateSimilarity("max_similarity", g.MaxSimilarity); err != nil {
		return err
	}
	if g.MinSimilarity > g.MaxSimilarity {
		return invalid("similarities from %g to %g", g.MinSimilarity, g.MaxSimilarity)
	}
	return nil
}

func (g *Group) validateAsked() error {
	if g.Scope != "" {
		if err := validateOneOf("scope", g.Scope, ScopeLane, ScopeCrawl); err != nil {
			return err
		}
	}
	if g.Scope == "" && len(g.Asked) > 0 || len(g.Asked) > MaxAsked {
		return invalid("%d groups were asked, with scope %q", len(g.Asked), g.Scope)
	}
	for _, id := range g.Asked {
		if err := id.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) validateNames() error {
	if len(g.Nouns) > MaxNouns {
		return invalid("%d nouns, want at most %d", len(g.Nouns), MaxNouns)
	}
	for i, noun := range g.Nouns {
		if err := validateName("noun", noun, MaxNameBytes); err != nil {
			return err
		}
		if i > 0 && noun <= g.Nouns[i-1] {
			return invalid("noun %q after %q", noun, g.Nouns[i-1])
		}
	}
	if err := validateOneOf("closed", g.Closed, ClosedByCount, ClosedBySeal, ClosedByModel); err != nil {
		return err
	}
	if err := validateOneOf("modality", g.Modality, ModalityImage, ModalityText); err != nil {
		return err
	}
	return validateName("model", g.Model, MaxNameBytes)
}
