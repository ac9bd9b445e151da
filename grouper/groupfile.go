package grouper

import (
	"bufio"
	"encoding/gob"
	"fmt"
	"io"

	"github.com/pairstream/pairstream/internal/neighbors/imagerefs"
	"github.com/pairstream/pairstream/schemas"
)

// parked is a groupState as it is stored, with the bytes of Vectors and of Features behind it: gob takes messages of 8
// GB at most. What only reading needs is not in it.
type parked struct {
	Manifest   *schemas.Group
	IDs        []byte
	Cluster    []int32
	SE         []int32
	Outside    outside
	Obj        []int32
	ObjEnd     []int32
	ImageIDs   []byte
	Image      []int32
	Refs       imagerefs.Table
	Captions   []string
	Similarity []float32
	Vectors    parkedVectors
	Features   parkedVectors // none: they are Vectors, or there are none yet
	AreVectors bool          // the features are the encoder's vectors
	Order      []int32
	BatchSize  int
	Made       []int32
}

// parkedVectors says how wide vectors are, and how many bytes they take. Those follow.
type parkedVectors struct{ Dim, Bytes int }

// encode writes the state for a [Store].
func (g groupState) encode(w io.Writer) error {
	m := g.members
	p := parked{
		Manifest: m.manifest, Cluster: m.cluster, SE: m.se, Outside: m.outside, Obj: m.obj, ObjEnd: m.objEnd, Image: m.image, Refs: m.refs,
		Captions: m.captions, Similarity: m.similarity, Vectors: parkVectors(m.vectors),
		AreVectors: g.features != nil && g.features == m.vectors, Order: g.plan.Order, BatchSize: g.plan.BatchSize, Made: g.made,
	}
	if !p.AreVectors {
		p.Features = parkVectors(g.features)
	}
	for i := range m.ids {
		p.IDs, p.ImageIDs = append(p.IDs, m.ids[i][:]...), append(p.ImageIDs, m.imageIDs[i][:]...)
	}
	out := bufio.NewWriterSize(w, 1<<20)
	err := gob.NewEncoder(out).Encode(p)
	for _, x := range []*vectors{m.vectors, g.features} {
		if err == nil && x != nil && (x == m.vectors || !p.AreVectors) {
			_, err = out.Write(x.bits)
		}
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("writing group %s: %w", m.manifest.Group, err)
	}
	return nil
}

// decode reads what encode wrote.
func (g *groupState) decode(r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<20) // a ByteReader, so that gob reads its message alone
	var p parked
	if err := gob.NewDecoder(in).Decode(&p); err != nil {
		return fmt.Errorf("reading a group: %w", err)
	}
	encoded, err := p.Vectors.read(in)
	if err != nil {
		return err
	}
	features, err := p.Features.read(in)
	if err != nil {
		return err
	}
	m := &members{
		manifest: p.Manifest, chunks: int(p.Manifest.Chunks), cluster: p.Cluster, se: p.SE, outside: p.Outside, obj: p.Obj, objEnd: p.ObjEnd,
		image: p.Image, refs: p.Refs, captions: p.Captions, similarity: p.Similarity, vectors: encoded,
	}
	for i := range p.Manifest.Count {
		m.ids = append(m.ids, schemas.PairID(p.IDs[16*i:16*i+16]))
		m.imageIDs = append(m.imageIDs, schemas.ImageID(p.ImageIDs[16*i:16*i+16]))
	}
	*g = groupState{members: m, plan: Plan{p.Order, p.BatchSize}, features: features, made: p.Made}
	if p.AreVectors {
		g.features = m.vectors
	}
	return nil
}

func parkVectors(x *vectors) parkedVectors {
	if x == nil {
		return parkedVectors{}
	}
	return parkedVectors{x.dim, len(x.bits)}
}

// read reads the vectors; nil: there are none.
func (p parkedVectors) read(in io.Reader) (*vectors, error) {
	if p.Dim == 0 {
		return nil, nil
	}
	x := &vectors{p.Dim, make([]byte, p.Bytes)}
	if _, err := io.ReadFull(in, x.bits); err != nil {
		return nil, fmt.Errorf("reading the vectors of a group: %w", err)
	}
	return x, nil
}
