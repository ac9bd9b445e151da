package grouper

import (
	"bytes"
	"encoding/gob"
	"fmt"

	"github.com/pairstream/pairstream/schemas"
)

// parked is a groupState as it is stored. What only reading needs is not in it.
type parked struct {
	Manifest   *schemas.Group
	IDs        []byte
	Cluster    []int32
	SE         []int32
	Obj        []int32
	ObjEnd     []int32
	ImageIDs   []byte
	Image      []int32
	Offsets    []int64
	Places     []int32 // number of the URI and size of each image, in turn
	URIs       []string
	Captions   []string
	Similarity []float32
	Vectors    parkedVectors
	Features   parkedVectors // none: they are Vectors, or there are none yet
	AreVectors bool          // the features are the encoder's vectors
	Order      []int32
	BatchSize  int
}

type parkedVectors struct {
	Dim  int
	Bits []byte
}

// encode writes the state for a [Store].
func (g groupState) encode() ([]byte, error) {
	m := g.members
	p := parked{
		Manifest: m.manifest, Cluster: m.cluster, SE: m.se, Obj: m.obj, ObjEnd: m.objEnd, Image: m.image, URIs: m.uris,
		Captions: m.captions, Similarity: m.similarity, Vectors: parkVectors(m.vectors),
		AreVectors: g.features != nil && g.features == m.vectors, Order: g.plan.Order, BatchSize: g.plan.BatchSize,
	}
	if !p.AreVectors {
		p.Features = parkVectors(g.features)
	}
	for i := range m.ids {
		p.IDs, p.ImageIDs = append(p.IDs, m.ids[i][:]...), append(p.ImageIDs, m.imageIDs[i][:]...)
		p.Offsets = append(p.Offsets, m.refs[i].offset)
		p.Places = append(p.Places, m.refs[i].uri, m.refs[i].size)
	}
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(p); err != nil {
		return nil, fmt.Errorf("setting group %s aside until its next epoch: %w", m.manifest.Group, err)
	}
	return out.Bytes(), nil
}

// decodeState reads what encode wrote.
func decodeState(raw []byte) (groupState, error) {
	var p parked
	if err := gob.NewDecoder(bytes.NewReader(raw)).Decode(&p); err != nil {
		return groupState{}, fmt.Errorf("taking a group up again: %w", err)
	}
	m := &members{
		manifest: p.Manifest, chunks: int(p.Manifest.Chunks), cluster: p.Cluster, se: p.SE, obj: p.Obj, objEnd: p.ObjEnd,
		image: p.Image, uris: p.URIs, captions: p.Captions, similarity: p.Similarity, vectors: p.Vectors.take(),
	}
	for i := range p.Manifest.Count {
		m.ids = append(m.ids, schemas.PairID(p.IDs[16*i:16*i+16]))
		m.imageIDs = append(m.imageIDs, schemas.ImageID(p.ImageIDs[16*i:16*i+16]))
		m.refs = append(m.refs, imageRef{p.Offsets[i], p.Places[2*i], p.Places[2*i+1]})
	}
	g := groupState{members: m, plan: Plan{p.Order, p.BatchSize}, features: p.Features.take()}
	if p.AreVectors {
		g.features = m.vectors
	}
	return g, nil
}

func parkVectors(x *vectors) parkedVectors {
	if x == nil {
		return parkedVectors{}
	}
	return parkedVectors{x.dim, x.bits}
}

func (p parkedVectors) take() *vectors {
	if p.Dim == 0 {
		return nil
	}
	return &vectors{p.Dim, p.Bits}
}
