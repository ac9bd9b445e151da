package grouper

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"

	"github.com/pairstream/pairstream/internal/neighbors/imagerefs"
	"github.com/pairstream/pairstream/schemas"
)

// ErrUnexpected marks a record that cannot be the lane's next one: of another lane or a later group, out of order, or
// in contradiction to earlier records. The lane is unchanged.
var ErrUnexpected = errors.New("unexpected record")

func unexpected(format string, values ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUnexpected}, values...)...)
}

// members holds the pairs of the open group, as columns by position.
type members struct {
	manifest *schemas.Group
	chunks   int       // that were read
	digest   hash.Hash // of their bytes

	// From the neighbor chunks.
	ids     []schemas.PairID
	cluster []int32
	se      []int32                 // K1 of the manifest for each pair
	obj     []int32                 // indices into the manifest's nouns
	outside outside                 // equivalent images of other groups
	objEnd  []int32                 // objects of pair p are obj[objEnd[p-1]:objEnd[p]]
	copies  []schemas.NeighborChunk // of each chunk the columns of copies alone

	// From the embeddings, in the order of position.
	imageIDs   []schemas.ImageID
	image      []int32 // equal for pairs of the same image, numbered in order of appearance
	refs       imagerefs.Table
	captions   []string
	similarity []float32
	vectors    *vectors // nil: the strategy needs none

	images map[schemas.ImageID]int32
}

func newMembers(manifest *schemas.Group) *members {
	return &members{
		manifest: manifest,
		digest:   sha256.New(),
		images:   make(map[schemas.ImageID]int32),
	}
}

func (m *members) count() int { return int(m.manifest.Count) }

// addChunk takes the next chunk of the group, with its bytes.
func (m *members) addChunk(c *schemas.NeighborChunk, value []byte) error {
	g, n := m.manifest, c.Members()
	switch {
	case int(c.Start) != len(m.ids):
		return unexpected("chunk of group %s begins at pair %d, want %d", g.Group, c.Start, len(m.ids))
	case n != min(schemas.ChunkMembers, m.count()-len(m.ids)):
		return unexpected("chunk at pair %d of group %s has %d of %d pairs", c.Start, g.Group, n, g.Count)
	case c.K1 != g.K1:
		return unexpected("chunk at pair %d of group %s has k1 = %d, its manifest %d", c.Start, g.Group, c.K1, g.K1)
	}
	if err := errors.Join(
		m.checkRange(c, "equivalent image", c.SE, -1, g.Count),
		m.checkRange(c, "cluster", c.Cluster, 0, g.Clusters),
		m.checkRange(c, "object", c.Obj, 0, int32(len(g.Nouns))),
	); err != nil {
		return err
	}
	m.outside.add(c, len(m.ids))
	base := int32(len(m.obj))
	for i := range n {
		m.ids = append(m.ids, c.ID(i))
		m.objEnd = append(m.objEnd, base+c.ObjEnd[i])
	}
	m.cluster = append(m.cluster, c.Cluster...)
	m.se = append(m.se, c.SE...)
	m.obj = append(m.obj, c.Obj...)
	m.copies = append(m.copies, schemas.NeighborChunk{CopyURI: c.CopyURI, CopyIDs: c.CopyIDs, CopyBlock: c.CopyBlock, CopySize: c.CopySize})
	m.chunks++
	m.digest.Write(value)
	return nil
}

// checkRange makes sure that all values of a chunk's column are at least from and below to.
func (m *members) checkRange(c *schemas.NeighborChunk, what string, values []int32, from, to int32) error {
	for _, v := range values {
		if v < from || v >= to {
			return unexpected("chunk at pair %d of group %s has %s %d, want below %d", c.Start, m.manifest.Group, what, v, to)
		}
	}
	return nil
}

// reserve makes room for the embeddings, once the chunks have shown that there are as many as the manifest says.
func (m *members) reserve(withVectors bool) {
	n := m.count()
	m.imageIDs = make([]schemas.ImageID, 0, n)
	m.image = make([]int32, 0, n)
	m.refs = imagerefs.New(n)
	m.captions = make([]string, 0, n)
	m.similarity = make([]float32, 0, n)
	if withVectors {
		m.vectors = newVectors(n, int(m.manifest.Dim))
	}
}

// addEmbedding takes the embedding with this seq when it is that of the group's next pair. Others in the range repeat
// an earlier pair and are passed over.
func (m *members) addEmbedding(e *schemas.Embedding, seq int64) error {
	g, next := m.manifest, len(m.image)
	switch {
	case seq < g.FirstSeq:
		return nil // of an earlier group
	case e.Model != g.Model:
		return unexpected("embedding of pair %s comes from model %s, group %s from %s", e.ID, e.Model, g.Group, g.Model)
	case e.V.Len() != int(g.Dim):
		return unexpected("embedding of pair %s has %d values, group %s %d", e.ID, e.V.Len(), g.Group, g.Dim)
	case e.ID != m.ids[next]:
		return nil
	}
	number, ok := m.images[e.ImageID]
	if !ok {
		number = int32(len(m.images))
		m.images[e.ImageID] = number
	}
	m.imageIDs = append(m.imageIDs, e.ImageID)
	m.image = append(m.image, number)
	m.refs.Add(m.reference(e, next))
	m.captions = append(m.captions, e.Caption)
	m.similarity = append(m.similarity, e.Similarity)
	if m.vectors != nil {
		m.vectors.write(int32(next), e.V, e.T)
	}
	return nil
}

// complete says whether all embeddings are there; then the tables that only reading needs are let go.
func (m *members) complete() bool {
	if len(m.image) < m.count() {
		return false
	}
	m.images, m.copies = nil, nil
	m.refs.Seal()
	m.outside.Refs.Seal()
	return true
}

// reference returns where the image of the pair at a position is read: its copy, if the indexer has made one.
func (m *members) reference(e *schemas.Embedding, position int) schemas.ImageRef {
	if r, copied := m.copies[position/schemas.ChunkMembers].Copy(position % schemas.ChunkMembers); copied {
		return r
	}
	return e.Image
}

func (m *members) ref(p int32) schemas.ImageRef { return m.refs.At(int(p)) }

// equivalents returns SE of a pair without the padding.
func (m *members) equivalents(p int32) []int32 {
	k1 := int(m.manifest.K1)
	se := m.se[int(p)*k1 : (int(p)+1)*k1]
	for i, j := range se {
		if j < 0 {
			return se[:i]
		}
	}
	return se
}

func (m *members) objects(p int32) []int32 {
	from := int32(0)
	if p > 0 {
		from = m.objEnd[p-1]
	}
	return m.obj[from:m.objEnd[p]]
}

// vectors are the features of the group's pairs as they travel: float16, v then t of each pair.
type vectors struct {
	dim  int
	bits schemas.Float16s
}

func newVectors(pairs, dim int) *vectors {
	return &vectors{dim, make(schemas.Float16s, 4*pairs*dim)}
}

func (x *vectors) write(p int32, v, t schemas.Float16s) {
	row := x.bits[4*int(p)*x.dim:]
	copy(row[:2*x.dim], v)
	copy(row[2*x.dim:4*x.dim], t)
}

// Dim implements [Features].
func (x *vectors) Dim() int { return x.dim }

// Read implements [Features].
func (x *vectors) Read(p int32, v, t []float32) {
	row := x.bits[4*int(p)*x.dim:]
	row[:2*x.dim].AppendTo(v[:0])
	row[2*x.dim : 4*x.dim].AppendTo(t[:0])
}

// outside holds the equivalent images of other groups, as columns that encoding/gob can store.
type outside struct {
	Ends   []int32 // by position: images of a pair are those from Ends[p-1] to Ends[p]; empty: there are none
	Images []byte  // 16 bytes an image: its id
	Refs   imagerefs.Table
}

// add takes those of a chunk, before which others had so many pairs.
func (o *outside) add(c *schemas.NeighborChunk, before int) {
	some := c.Outside()
	if some == nil && len(o.Ends) == 0 {
		return
	}
	for len(o.Ends) < before {
		o.Ends = append(o.Ends, 0)
	}
	for i := range c.Members() {
		if some != nil {
			for _, p := range some[i] {
				o.Images = append(o.Images, p.ImageID[:]...)
				o.Refs.Add(p.Image)
			}
		}
		o.Ends = append(o.Ends, int32(len(o.Images)/16))
	}
}

// of returns the numbers of a pair's images, without those that show the image itself.
func (o *outside) of(p int32, own schemas.ImageID) []int32 {
	if len(o.Ends) == 0 {
		return nil
	}
	var numbers []int32
	from := int32(0)
	if p > 0 {
		from = o.Ends[p-1]
	}
	for i := from; i < o.Ends[p]; i++ {
		if o.id(i) != own {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

func (o *outside) id(i int32) schemas.ImageID { return schemas.ImageID(o.Images[16*i : 16*i+16]) }

func (o *outside) at(i int32) *schemas.Positive {
	return &schemas.Positive{ImageID: o.id(i), Image: o.Refs.At(int(i))}
}
