package grouper

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// refusing is a lane that is led through a group while records are tried that it must refuse.
type refusing struct {
	*testing.T
	lane  *Lane
	log   *log
	group *schemas.Group
	first *schemas.Batch // of epoch 0
}

func newRefusing(t *testing.T) *refusing {
	l := newLog()
	return &refusing{T: t, group: l.addGroup(3, schemas.ChunkMembers+40, 2), log: l, lane: newTestLane(t, testOptions(StrategyGRIT))}
}

// until reads on to a topic.
func (r *refusing) until(topic schemas.Topic) {
	r.Helper()
	for r.lane.Needs() != topic {
		r.read()
	}
}

// read gives the lane the record that it needs.
func (r *refusing) read() {
	r.Helper()
	topic := r.lane.Needs()
	seq := r.log.next[topic]
	r.log.next[topic]++
	must.Do(r, r.lane.Add(context.Background(), r.log.input(topic, seq), func(out schemas.Record) error {
		if r.first == nil {
			r.first = out.(*schemas.Batch)
		}
		return nil
	}))
}

// try gives the lane records that it must refuse and stay as it was.
func (r *refusing) try(seq int64, records map[string]schemas.Record) {
	r.Helper()
	topic := r.lane.Needs()
	for name, record := range records {
		err := r.lane.Add(context.Background(), input(record, seq), nil)
		if !errors.Is(err, ErrUnexpected) || r.lane.Needs() != topic {
			r.Errorf("%s: %s: got %v", topic, name, err)
		}
	}
}

func TestLaneRefusesManifests(t *testing.T) {
	r := newRefusing(t)
	r.try(0, map[string]schemas.Record{
		"another record": &schemas.FeatureBlock{},
		"another lane":   &schemas.Group{Group: schemas.GroupID{Lane: 2, Seq: 9}, Count: 1},
	})
	r.lane.last = 3
	r.try(0, map[string]schemas.Record{"a group that was there": r.group})
}

func TestLaneRefusesChunks(t *testing.T) {
	r := newRefusing(t)
	r.until(schemas.Neighbors)
	chunk := func(change func(*schemas.NeighborChunk)) schemas.Record {
		c := *r.log.records[schemas.Neighbors][0].(*schemas.NeighborChunk)
		change(&c)
		return &c
	}
	r.try(0, map[string]schemas.Record{
		"another record":      r.group,
		"another lane":        chunk(func(c *schemas.NeighborChunk) { c.Group.Lane = 0 }),
		"a gap":               chunk(func(c *schemas.NeighborChunk) { c.Start = schemas.ChunkMembers }),
		"too few members":     chunk(func(c *schemas.NeighborChunk) { c.IDs = c.IDs[16:] }),
		"another k1":          chunk(func(c *schemas.NeighborChunk) { c.K1 = 2 }),
		"a cluster too many":  chunk(func(c *schemas.NeighborChunk) { c.Cluster = schemas.Int32s{6} }),
		"no cluster":          chunk(func(c *schemas.NeighborChunk) { c.Cluster = schemas.Int32s{-1} }),
		"an image not there":  chunk(func(c *schemas.NeighborChunk) { c.SE = schemas.Int32s{r.group.Count} }),
		"an object not there": chunk(func(c *schemas.NeighborChunk) { c.Obj = schemas.Int32s{3} }),
	})
	r.until(schemas.Features) // nothing of them is left
}

func TestLaneRefusesEmbeddings(t *testing.T) {
	r := newRefusing(t)
	r.until(schemas.Embeddings)
	embedded := func(change func(*schemas.Embedding)) schemas.Record {
		e := *r.log.records[schemas.Embeddings][0].(*schemas.Embedding)
		change(&e)
		return &e
	}
	r.try(0, map[string]schemas.Record{
		"another record": r.group,
		"another model":  embedded(func(e *schemas.Embedding) { e.Model = "n" }),
		"another width":  embedded(func(e *schemas.Embedding) { e.V = e.V[2:] }),
	})
	r.until(schemas.Features)
}

func TestLaneRefusesFeatures(t *testing.T) {
	r := newRefusing(t)
	r.until(schemas.Features)
	block := func(change func(*schemas.FeatureBlock)) *schemas.FeatureBlock {
		f := train(r.first)
		change(f)
		return f
	}
	r.try(0, map[string]schemas.Record{
		"another record":   r.group,
		"a later group":    block(func(f *schemas.FeatureBlock) { f.Group.Seq++ }),
		"a later epoch":    block(func(f *schemas.FeatureBlock) { f.Epoch++ }),
		"no batch":         block(func(f *schemas.FeatureBlock) { f.Sequence += 1000 }),
		"a pair twice":     block(func(f *schemas.FeatureBlock) { f.Positions[0] = f.Positions[1] }),
		"a pair not there": block(func(f *schemas.FeatureBlock) { f.Positions[0] = -1 }),
		"another batch's":  block(func(f *schemas.FeatureBlock) { f.Positions[0] = absent(r.first) }),
	})
	add := func(f *schemas.FeatureBlock) {
		t.Helper()
		must.Check(t, r.lane.Add(context.Background(), input(f, 0), nil))
	}
	add(train(r.first))
	r.try(0, map[string]schemas.Record{
		"the same again": train(r.first),
		"another width":  block(func(f *schemas.FeatureBlock) { f.Sequence, f.Dim = 1, testDim }),
	})
	add(block(func(f *schemas.FeatureBlock) { f.Group.Seq-- })) // of an earlier group, passed over
	add(block(func(f *schemas.FeatureBlock) { f.Epoch-- }))     // of an earlier epoch, too
}

// absent returns a pair that is not in a batch.
func absent(b *schemas.Batch) int32 {
	for p := int32(0); ; p++ {
		if !slices.ContainsFunc(b.Samples, func(s schemas.Sample) bool { return s.Position == p }) {
			return p
		}
	}
}
