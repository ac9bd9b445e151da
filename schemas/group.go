package schemas

import "fmt"

// ChunkMembers is the number of group members in every [NeighborChunk] but a group's last.
const ChunkMembers = 1024

// NeighborChunk holds what the indexer found for consecutive members of a group, as columns. A member's position is
// its index among the group's distinct pairs in offset order; every reference to another member is a position.
type NeighborChunk struct {
	Group   GroupID `msgpack:"group"`
	Start   int32   `msgpack:"start"` // position of the first member
	IDs     []byte  `msgpack:"ids"`   // 16 bytes a member: pair ids
	K       int32   `msgpack:"k"`     // columns of V2T
	V2T     Int32s  `msgpack:"v2t"`   // members x K: texts nearest to the image, best first; -1: no such neighbour
	K1      int32   `msgpack:"k1"`    // columns of SE
	SE      Int32s  `msgpack:"se"`    // members x K1: semantic-equivalent images (GPN-S eq. 9), best first, padded with -1
	Cluster Int32s  `msgpack:"cluster"`
	ObjEnd  Int32s  `msgpack:"obj_end"` // a member's nouns are Obj[ObjEnd[i-1]:ObjEnd[i]]
	Obj     Int32s  `msgpack:"obj"`     // obj(v), GPN-S eq. 7, as indices into the manifest's Nouns, ascending
}

// Schema implements [Record].
func (*NeighborChunk) Schema() string { return SchemaNeighborChunk }

// Members is the number of group members in the chunk.
func (c *NeighborChunk) Members() int { return len(c.IDs) / 16 }

// ID is the pair id of the chunk's i-th member.
func (c *NeighborChunk) ID(i int) PairID { return PairID(c.IDs[16*i : 16*i+16]) }

// Objects is obj(v) of the chunk's i-th member, as indices into the manifest's Nouns.
func (c *NeighborChunk) Objects(i int) []int32 {
	from := int32(0)
	if i > 0 {
		from = c.ObjEnd[i-1]
	}
	return c.Obj[from:c.ObjEnd[i]]
}

// Validate implements [Record].
func (c *NeighborChunk) Validate() error {
	n := c.Members()
	switch {
	case len(c.IDs)%16 != 0 || n == 0 || n > ChunkMembers:
		return fmt.Errorf("%w: %d bytes of ids, want 16 for each of 1..%d members", ErrInvalid, len(c.IDs), ChunkMembers)
	case c.Start < 0 || c.K < 0 || c.K1 < 0:
		return fmt.Errorf("%w: start %d, k %d, k1 %d: want none negative", ErrInvalid, c.Start, c.K, c.K1)
	case int64(len(c.V2T)) != int64(n)*int64(c.K):
		return fmt.Errorf("%w: v2t has %d values, want %d x %d", ErrInvalid, len(c.V2T), n, c.K)
	case int64(len(c.SE)) != int64(n)*int64(c.K1):
		return fmt.Errorf("%w: se has %d values, want %d x %d", ErrInvalid, len(c.SE), n, c.K1)
	case len(c.Cluster) != n:
		return fmt.Errorf("%w: cluster has %d values, want %d", ErrInvalid, len(c.Cluster), n)
	case len(c.ObjEnd) != n:
		return fmt.Errorf("%w: obj_end has %d values, want %d", ErrInvalid, len(c.ObjEnd), n)
	}
	prev := int32(0)
	for _, end := range c.ObjEnd {
		if end < prev {
			return fmt.Errorf("%w: obj_end falls from %d to %d", ErrInvalid, prev, end)
		}
		prev = end
	}
	if int(prev) != len(c.Obj) {
		return fmt.Errorf("%w: obj has %d values, obj_end says %d", ErrInvalid, len(c.Obj), prev)
	}
	return nil
}

// Group is the manifest that follows a group's last chunk.
type Group struct {
	Group         GroupID  `msgpack:"group"`
	FirstOffset   int64    `msgpack:"first_offset"` // of the group's first embedding
	EndOffset     int64    `msgpack:"end_offset"`   // the offset after the group's last embedding
	Count         int32    `msgpack:"count"`        // distinct pairs
	Duplicates    int64    `msgpack:"duplicates"`   // embeddings in the range that repeat an earlier pair
	Chunks        int32    `msgpack:"chunks"`
	Dim           int32    `msgpack:"dim"`
	Clusters      int32    `msgpack:"clusters"` // K actually used: the configured K, or Count when fewer
	MinSimilarity float32  `msgpack:"min_similarity"`
	MaxSimilarity float32  `msgpack:"max_similarity"`
	Nouns         []string `msgpack:"nouns"`  // S_n, the noun vocabulary, ascending
	Model         string   `msgpack:"model"`  // fingerprint of the encoder's weights
	Closed        string   `msgpack:"closed"` // what closed the group: "count", "seal" or "model"
	K             int32    `msgpack:"k"`
	K1            int32    `msgpack:"k1"`
	K2            int32    `msgpack:"k2"`
	P             float64  `msgpack:"p"`
	MinCount      int32    `msgpack:"min_count"`
	Modality      string   `msgpack:"modality"` // what was clustered: "image" or "text"
	Digest        []byte   `msgpack:"digest"`   // SHA-256 over the chunks' bytes, in order
}

// Schema implements [Record].
func (*Group) Schema() string { return SchemaGroup }

// Validate implements [Record].
func (g *Group) Validate() error {
	switch {
	case g.Count <= 0 || g.Chunks != (g.Count+ChunkMembers-1)/ChunkMembers:
		return fmt.Errorf("%w: group of %d pairs in %d chunks", ErrInvalid, g.Count, g.Chunks)
	case g.FirstOffset < 0 || g.EndOffset-g.FirstOffset < int64(g.Count):
		return fmt.Errorf("%w: %d pairs between offsets %d and %d", ErrInvalid, g.Count, g.FirstOffset, g.EndOffset)
	case g.Dim <= 0 || g.Dim > MaxDim:
		return fmt.Errorf("%w: dim %d, want 1..%d", ErrInvalid, g.Dim, MaxDim)
	case !(g.MinSimilarity <= g.MaxSimilarity):
		return fmt.Errorf("%w: similarities from %g to %g", ErrInvalid, g.MinSimilarity, g.MaxSimilarity)
	case len(g.Digest) != 32:
		return fmt.Errorf("%w: digest of %d bytes, want 32", ErrInvalid, len(g.Digest))
	}
	return nil
}
