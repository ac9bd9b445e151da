package grouper

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

const (
	testLane = 1
	testDim  = 12
	trainDim = 10
)

// log is what the topics of a lane hold, and how far each was read; the index of a record is its seq.
type log struct {
	records map[schemas.Topic][]schemas.Record
	next    map[schemas.Topic]int
}

func newLog() *log {
	return &log{records: map[schemas.Topic][]schemas.Record{}, next: map[schemas.Topic]int{}}
}

func (l *log) add(topic schemas.Topic, records ...schemas.Record) {
	l.records[topic] = append(l.records[topic], records...)
}

// input returns the record with a seq, as a lane takes it.
func (l *log) input(topic schemas.Topic, seq int) Input {
	return input(l.records[topic][seq], int64(seq))
}

func input(r schemas.Record, seq int64) Input {
	raw, err := schemas.Marshal(r)
	if err != nil {
		raw = nil // a record that a lane has to refuse
	}
	return Input{r, raw, seq}
}

// addGroup writes the records of a group of n pairs, captions of them to an image, some of them published twice.
func (l *log) addGroup(seq int64, n, captions int) *schemas.Group {
	r := rng.New(17, "group", seq)
	v, t := features(n, testDim, 9, 0.5, 2*seq), features(n, testDim, 9, 0.5, 2*seq+1)
	g := &schemas.Group{
		Group: schemas.GroupID{Lane: testLane, Seq: seq}, FirstSeq: int64(len(l.records[schemas.Embeddings])),
		Count: int32(n), Chunks: int32((n + schemas.ChunkMembers - 1) / schemas.ChunkMembers), Dim: testDim, Clusters: 6,
		MinSimilarity: 1, MaxSimilarity: -1, Nouns: []string{"dog", "grass", "man"}, Model: "m", Closed: "count",
		K: 1, K1: 3, K2: 10, P: 0.3, MinCount: 10, Modality: "image",
	}
	var embeddings []*schemas.Embedding
	for i := range n {
		// Rows are rounded to float16 on the wire; so is what the similarity is of.
		e := embedding(seq, i, captions, v.Row(i), t.Row(i))
		embeddings = append(embeddings, e)
		l.add(schemas.Embeddings, e)
		if again := r.IntN(n); again < i && again%4 == 0 {
			l.add(schemas.Embeddings, embeddings[again])
			g.Duplicates++
		}
		g.MinSimilarity, g.MaxSimilarity = min(g.MinSimilarity, e.Similarity), max(g.MaxSimilarity, e.Similarity)
	}
	g.EndSeq = int64(len(l.records[schemas.Embeddings]))
	digest := sha256.New()
	for from := 0; from < n; from += schemas.ChunkMembers {
		c := &schemas.NeighborChunk{Group: g.Group, Start: int32(from), K: g.K, K1: g.K1}
		for i := from; i < min(n, from+schemas.ChunkMembers); i++ {
			c.IDs = append(c.IDs, embeddings[i].ID[:]...)
			c.V2T = append(c.V2T, int32(i))
			c.Cluster = append(c.Cluster, int32(i%6))
			se := []int32{int32(r.IntN(n)), int32((i / captions * captions)), int32(r.IntN(n))}[:r.IntN(4)]
			c.SE = append(append(c.SE, se...), slices.Repeat([]int32{-1}, 3-len(se))...)
			c.Obj = append(c.Obj, []int32{0, 1, 2}[:i%4]...)
			c.ObjEnd = append(c.ObjEnd, int32(len(c.Obj)))
		}
		raw, err := schemas.Marshal(c)
		if err != nil {
			panic(err)
		}
		digest.Write(raw)
		l.add(schemas.Neighbors, c)
	}
	g.Digest = digest.Sum(nil)
	l.add(schemas.Groups, g)
	return g
}

func embedding(seq int64, i, captions int, v, t []float32) *schemas.Embedding {
	e := &schemas.Embedding{
		ImageID: schemas.NewImageID(fmt.Appendf(nil, "image %d of group %d", i/captions, seq)),
		Image:   schemas.ImageRef{URI: fmt.Sprintf("file:///shard-%d.tar", i/captions%3), Offset: int64(512 * i), Size: int64(100 + i)},
		Caption: fmt.Sprintf("caption %d", i),
		V:       schemas.NewFloat16s(v), T: schemas.NewFloat16s(t), Model: "m",
	}
	e.ID = schemas.NewPairID(e.ImageID, e.Caption)
	for k, x := range e.V.Floats() {
		e.Similarity += x * e.T.Floats()[k]
	}
	return e
}

// train answers a batch as a trainer does, with features of another width that have nothing to do with the encoder's.
func train(b *schemas.Batch) *schemas.FeatureBlock {
	f := &schemas.FeatureBlock{Group: b.Group, Epoch: b.Epoch, Sequence: b.Sequence, Dim: trainDim, Step: 1}
	for _, s := range b.Samples {
		v := features(1, trainDim, 1, 1, 1000*int64(b.Epoch)+int64(s.Position)).Row(0)
		t := features(1, trainDim, 1, 1, 100_000+1000*int64(b.Epoch)+int64(s.Position)).Row(0)
		f.Positions = append(f.Positions, s.Position)
		f.V = append(f.V, schemas.NewFloat16s(v)...)
		f.T = append(f.T, schemas.NewFloat16s(t)...)
	}
	return f
}

// drive feeds a lane until it needs what is not there, writes the features of every batch to the log, and returns what
// was emitted.
func drive(t *testing.T, lane *Lane, l *log) []schemas.Record {
	t.Helper()
	var out []schemas.Record
	for {
		topic := lane.Needs()
		if l.next[topic] == len(l.records[topic]) {
			return out
		}
		seq := l.next[topic]
		l.next[topic]++
		must.Do(t, lane.Add(context.Background(), l.input(topic, seq), func(r schemas.Record) error {
			if b, ok := r.(*schemas.Batch); ok {
				l.add(schemas.Features, train(b))
			}
			out = append(out, r)
			return nil
		}))
	}
}

func newTestLane(t *testing.T, o Options) *Lane {
	t.Helper()
	lane := must.Get(NewLane(o, testLane))(t)
	return lane
}

// testOptions fit small groups.
func testOptions(strategy Strategy) Options {
	return Options{
		Seed: 3, Strategy: strategy, Epochs: 4, BatchSize: 8, QueueSize: 64, SearchSpace: 32, Features: SourceTraining,
		Clusters: 2, PerCluster: 2, Filter: 0.5, Skip: 3, Candidates: 3, Texts: TextCurriculum, Workers: 1,
	}
}

// wire returns the bytes of records.
func wire(t *testing.T, records []schemas.Record) [][]byte {
	t.Helper()
	var out [][]byte
	for i, r := range records {
		raw, err := schemas.Marshal(r)
		if err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		out = append(out, raw)
	}
	return out
}

// batches returns the batches among records.
func batches(records []schemas.Record) []*schemas.Batch {
	var out []*schemas.Batch
	for _, r := range records {
		if b, ok := r.(*schemas.Batch); ok {
			out = append(out, b)
		}
	}
	return out
}

// rounded gives matrices of the float16 rows of pairs.
func rounded(v, t []schemas.Float16s) (*dotproduct.Matrix, *dotproduct.Matrix) {
	a, b := dotproduct.NewMatrix(len(v), v[0].Len()), dotproduct.NewMatrix(len(t), t[0].Len())
	for i := range v {
		copy(a.Row(i), v[i].Floats())
		copy(b.Row(i), t[i].Floats())
	}
	return a, b
}
