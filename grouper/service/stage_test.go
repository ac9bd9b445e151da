package service

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/onelane"
	"github.com/pairstream/pairstream/schemas"
)

const testLane, testDim = 2, 8

func testOptions() grouper.Options {
	return grouper.Options{
		Seed: 3, Strategy: grouper.StrategyGRIT, Epochs: 3, CurriculumEpochs: 5, BatchSize: 8, QueueSize: 16, SearchSpace: 16, Features: grouper.SourceTraining,
		Clusters: 2, PerCluster: 2, Candidates: 2, Texts: grouper.TextCurriculum, Workers: 1,
	}
}

func spec(t *testing.T, o grouper.Options) stream.StageSpec {
	t.Helper()
	instruments := must.Get(service.NewRuntime(slog.New(slog.DiscardHandler)).NewInstruments(Name, nil))(t)
	return stream.StageSpec{
		Name:    Name,
		Inputs:  []schemas.Topic{schemas.Groups, schemas.Neighbors, schemas.Embeddings, schemas.Features},
		Outputs: []schemas.Topic{schemas.Batches}, Rereads: []schemas.Topic{schemas.Batches}, New: newFactory(o, t.TempDir(), func(int) ([]grouper.Due, error) { return nil, nil }, nil, backwards, instruments),
	}
}

// unit draws a unit vector.
func unit(numbers ...int64) schemas.Float16s {
	r := rng.New(7, "grouper adapter", numbers...)
	row, norm := make([]float32, testDim), 0.0
	for j := range row {
		row[j] = float32(r.NormFloat64())
		norm += float64(row[j]) * float64(row[j])
	}
	for j := range row {
		row[j] /= float32(math.Sqrt(norm))
	}
	return schemas.NewFloat16s(row)
}

// addGroup appends a group of n pairs to the topics that the grouper reads.
func addGroup(t *testing.T, l *onelane.Log, seq int64, n int) {
	t.Helper()
	g := &schemas.Group{
		Group: schemas.GroupID{Lane: testLane, Seq: seq}, FirstSeq: int64(l.Len(schemas.Embeddings)), Count: int32(n), Chunks: 1,
		Dim: testDim, Clusters: 2, MinSimilarity: 1, MaxSimilarity: -1, Nouns: []string{"dog"}, Model: "m", Closed: schemas.ClosedByCount,
		K: 1, K1: 1, K2: 5, P: 0.3, Modality: schemas.ModalityImage,
	}
	c := &schemas.NeighborChunk{Group: g.Group, K: 1, K1: 1}
	for i := range n {
		e := &schemas.Embedding{
			ImageID: schemas.NewImageID(fmt.Appendf(nil, "image %d of %d", i, seq)), Caption: fmt.Sprintf("caption %d", i),
			Image: schemas.ImageRef{URI: "file:///a.tar", Size: 9}, V: unit(seq, int64(i), 0), T: unit(seq, int64(i), 1), Model: "m",
		}
		e.ID = schemas.NewPairID(e.ImageID, e.Caption)
		for k, x := range e.V.Floats() {
			e.Similarity += x * e.T.Floats()[k]
		}
		g.MinSimilarity, g.MaxSimilarity = min(g.MinSimilarity, e.Similarity), max(g.MaxSimilarity, e.Similarity)
		l.Append(schemas.Embeddings, e)
		c.IDs = append(c.IDs, e.ID[:]...)
		c.V2T, c.SE, c.Cluster, c.ObjEnd = append(c.V2T, int32(i)), append(c.SE, int32((i+1)%n)), append(c.Cluster, int32(i%2)), append(c.ObjEnd, 0)
	}
	g.EndSeq = int64(l.Len(schemas.Embeddings))
	raw := must.Get(schemas.Marshal(c))(t)
	digest := sha256.Sum256(raw)
	g.Digest = digest[:]
	l.Append(schemas.Neighbors, c)
	l.Append(schemas.Groups, g)
}

// newLog returns a lane of two groups and seals, with a trainer that answers every batch.
func newLog(t *testing.T) *onelane.Log {
	t.Helper()
	l := onelane.New(t, testLane)
	addGroup(t, l, 0, 35)
	l.Append(schemas.Groups, &schemas.Seal{Note: "between"})
	l.Append(schemas.Embeddings, &schemas.Seal{Note: "between"})
	addGroup(t, l, 1, 20)
	l.Append(schemas.Groups, &schemas.Seal{Final: true})
	return train(l)
}

// train has every batch answered by features, once.
func train(l *onelane.Log) *onelane.Log {
	l.Answer = func(_ schemas.Topic, r schemas.Record) {
		b, ok := r.(*schemas.Batch)
		if !ok {
			return
		}
		f := &schemas.FeatureBlock{Group: b.Group, Epoch: b.Epoch, Sequence: b.Sequence, Dim: testDim, Step: 1}
		for _, s := range b.Samples {
			f.Positions = append(f.Positions, s.Position)
			f.V = append(f.V, unit(int64(b.Epoch), int64(s.Position), 2)...)
			f.T = append(f.T, unit(int64(b.Epoch), int64(s.Position), 3)...)
		}
		l.Append(schemas.Features, f)
	}
	return l
}

// backwards is a planner.
func backwards(_ context.Context, p grouper.Pairs) (c grouper.Chosen, err error) {
	for i := range p.Image {
		c.Order = append(c.Order, int32(len(p.Image)-1-i))
	}
	return c, nil
}

// TestNoCrashChangesABatch kills the owner before each record that it writes, and its successor as well.
func TestNoCrashChangesABatch(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*grouper.Options)
		batches int
	}{
		"grit":   {func(*grouper.Options) {}, 3*5 + 3*3},
		"random": {func(o *grouper.Options) { o.Strategy = grouper.StrategyRandom }, 3*5 + 3*3},
		"jest":   {func(o *grouper.Options) { o.Strategy, o.Filter = grouper.StrategyJEST, 0.5 }, 5 + 2*3 + 3 + 2*2},
		"b3":     {func(o *grouper.Options) { o.Strategy, o.Skip = grouper.StrategyB3, 2 }, 3*5 + 3*3},
		"own":    {func(o *grouper.Options) { o.Strategy, o.Function = grouper.StrategyOwn, "mine:backwards" }, 3*5 + 3*3},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions()
			test.change(&o)
			whole := newLog(t)
			whole.Run(spec(t, o), -1)
			want := whole.Values(schemas.Batches)
			if n := test.batches + 2; len(want) != n {
				t.Fatalf("%d records, want %d", len(want), n)
			}
			for limit := range want {
				l := newLog(t)
				if !l.Run(spec(t, o), limit) {
					t.Fatalf("the owner did not die before record %d", limit)
				}
				l.Run(spec(t, o), 4)
				l.Run(spec(t, o), -1)
				if !slices.EqualFunc(l.Values(schemas.Batches), want, bytes.Equal) {
					t.Errorf("a crash before record %d changed the records", limit)
				}
			}
		})
	}
}

// TestNoCrashChangesAWindow does the same with five groups in windows of three. The second window is ended by a seal.
func TestNoCrashChangesAWindow(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*grouper.Options)
		batches int
	}{
		"grit":   {func(*grouper.Options) {}, 3 * (3 + 1 + 2 + 2 + 3)},
		"random": {func(o *grouper.Options) { o.Strategy = grouper.StrategyRandom }, 3 * (3 + 1 + 2 + 2 + 3)},
		"jest":   {func(o *grouper.Options) { o.Strategy, o.Filter = grouper.StrategyJEST, 0.5 }, 3 + 1 + 2 + 2 + 3 + 2*(2+1+1+1+2)},
		"b3":     {func(o *grouper.Options) { o.Strategy, o.Skip = grouper.StrategyB3, 2 }, 3 * (3 + 1 + 2 + 2 + 3)},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions()
			o.EpochOrder, o.EpochGroups = grouper.OrderLane, 3
			test.change(&o)
			fresh := func() *onelane.Log {
				l := onelane.New(t, testLane)
				for seq, n := range []int{19, 8, 11, 9, 17} {
					addGroup(t, l, int64(seq), n)
				}
				l.Append(schemas.Groups, &schemas.Seal{Final: true})
				return train(l)
			}
			whole := fresh()
			whole.Run(spec(t, o), -1)
			want := whole.Values(schemas.Batches)
			if n := test.batches + 1; len(want) != n {
				t.Fatalf("%d records, want %d", len(want), n)
			}
			for limit := range want {
				l := fresh()
				if !l.Run(spec(t, o), limit) {
					t.Fatalf("the owner did not die before record %d", limit)
				}
				l.Run(spec(t, o), 4)
				l.Run(spec(t, o), -1)
				if !slices.EqualFunc(l.Values(schemas.Batches), want, bytes.Equal) {
					t.Errorf("a crash before record %d changed the records", limit)
				}
			}
		})
	}
}

// TestSettingsChangeAtAGroupsBorder kills the owner at each record and starts anew with other settings: the open group
// is finished with the old ones, and no group is lost.
func TestSettingsChangeAtAGroupsBorder(t *testing.T) {
	for name, change := range map[string]func(*grouper.Options){
		"fewer epochs":    func(o *grouper.Options) { o.Epochs = 1 },
		"more epochs":     func(o *grouper.Options) { o.Epochs = 5 },
		"other batches":   func(o *grouper.Options) { o.BatchSize = 16 },
		"another order":   func(o *grouper.Options) { o.Strategy = grouper.StrategyRandom },
		"fewer partners":  func(o *grouper.Options) { o.Candidates = 0 },
		"another seed":    func(o *grouper.Options) { o.Seed = 4 },
		"goroutines only": func(o *grouper.Options) { o.Workers = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			before, after := testOptions(), testOptions()
			change(&after)
			groups := func(o grouper.Options) map[int64][][]byte { return byGroup(t, o) }
			old, changed := groups(before), groups(after)
			for limit := range len(old[0]) + len(old[1]) + 2 {
				l := newLog(t)
				l.Run(spec(t, before), limit)
				begun := map[int64]bool{}
				for _, r := range l.Records(schemas.Batches) {
					if b, ok := r.(*schemas.Batch); ok {
						begun[b.Group.Seq] = true
					}
				}
				l.Run(spec(t, after), -1)
				var want [][]byte
				for seq := range int64(2) {
					if begun[seq] {
						want = append(want, old[seq]...)
					} else {
						want = append(want, changed[seq]...)
					}
				}
				if got := batchValues(l); !slices.EqualFunc(got, want, bytes.Equal) {
					t.Errorf("stopped before record %d: %d batches, want %d", limit, len(got), len(want))
				}
			}
		})
	}
}

// byGroup returns the batches of every group in a run without a crash.
func byGroup(t *testing.T, o grouper.Options) map[int64][][]byte {
	t.Helper()
	l := newLog(t)
	l.Run(spec(t, o), -1)
	values, out := l.Values(schemas.Batches), map[int64][][]byte{}
	for i, r := range l.Records(schemas.Batches) {
		if b, ok := r.(*schemas.Batch); ok {
			out[b.Group.Seq] = append(out[b.Group.Seq], values[i])
		}
	}
	return out
}

// batchValues returns the bytes of the batches of a log, without its seals.
func batchValues(l *onelane.Log) [][]byte {
	var out [][]byte
	values := l.Values(schemas.Batches)
	for i, r := range l.Records(schemas.Batches) {
		if _, ok := r.(*schemas.Batch); ok {
			out = append(out, values[i])
		}
	}
	return out
}

// TestADamagedGroupIsALetter loses the first group's chunk, and then changes it: the group's manifest is set aside with
// the reason, and the second group is made, whenever the owner dies.
func TestADamagedGroupIsALetter(t *testing.T) {
	for name, damage := range map[string]struct {
		change func([]byte) []byte
		reason string
		others int // letters for the record itself
	}{
		"unreadable": {func([]byte) []byte { return []byte{0xc1} }, "group set aside: 2/0: chunk 0 of 1 is missing", 1},
		"changed": {func(v []byte) []byte { // the last bytes are the ends of the objects; the ids come first
			at := bytes.Index(v, []byte("ids")) + 8
			v[at] ^= 1
			return v
		}, "group set aside: 2/0: its chunks have the digest", 0},
	} {
		t.Run(name, func(t *testing.T) {
			want := byGroup(t, testOptions())[1]
			for limit := -1; limit <= len(want); limit++ {
				l := newLog(t)
				l.Damage(schemas.Neighbors, 0, damage.change)
				l.Run(spec(t, testOptions()), limit)
				l.Run(spec(t, testOptions()), -1)
				if got := batchValues(l); !slices.EqualFunc(got, want, bytes.Equal) {
					t.Errorf("stopped before record %d: %d batches, want the %d of the second group", limit, len(got), len(want))
				}
				letters := slices.DeleteFunc(slices.Clone(l.Letters), func(x onelane.Letter) bool { return x.Topic != schemas.Groups })
				if len(letters) != 1 || letters[0].Seq != 0 || !strings.HasPrefix(letters[0].Reason, damage.reason) || len(l.Letters) != 1+damage.others {
					t.Errorf("stopped before record %d: letters %v, want the first manifest because %s", limit, l.Letters, damage.reason)
				}
			}
		})
	}
}

// TestASealBehindAHeldRecord loses a chunk, so that the lane holds that of a later group when a seal ends the window.
// The seal leads back to before the window, or a new owner would miss what is held.
func TestASealBehindAHeldRecord(t *testing.T) {
	o := testOptions()
	o.EpochOrder, o.EpochGroups = grouper.OrderLane, 3
	fresh := func() *onelane.Log {
		l := onelane.New(t, testLane)
		addGroup(t, l, 0, 17)
		addGroup(t, l, 1, 9)
		l.Append(schemas.Groups, &schemas.Seal{Note: "between"})
		addGroup(t, l, 2, 11)
		l.Append(schemas.Groups, &schemas.Seal{Final: true})
		l.Damage(schemas.Neighbors, 1, func([]byte) []byte { return []byte{0xc1} })
		return train(l)
	}
	whole := fresh()
	whole.Run(spec(t, o), -1)
	want := whole.Values(schemas.Batches)
	if n := 3*3 + 1 + 3*2 + 1; len(want) != n {
		t.Fatalf("%d records, want %d", len(want), n)
	}
	for limit := range want {
		l := fresh()
		l.Run(spec(t, o), limit)
		l.Run(spec(t, o), -1)
		if !slices.EqualFunc(l.Values(schemas.Batches), want, bytes.Equal) {
			t.Errorf("a crash before record %d changed the records", limit)
		}
	}
}

// TestOptionsInMarks pins what is in the marks of open groups: a new owner reads it.
func TestOptionsInMarks(t *testing.T) {
	got := must.Get(encodeState(testOptions(), nil))(t)
	const want = `{"Seed":3,"Strategy":"grit","Epochs":3,"BatchSize":8,"EpochOrder":"","EpochGroups":0,"QueueSize":16,"SearchSpace":16,"StartAsReleased":false,"SameImage":false,` +
		`"Features":"training","Clusters":2,"PerCluster":2,"Candidates":2,"Texts":"curriculum","TextShare":0,"CurriculumEpochs":5,"Workers":0}`
	if string(got) != want {
		t.Errorf("options are written as\n%s\nwant\n%s", got, want)
	}
	for name, state := range map[string]string{
		"of a newer grouper": strings.Replace(want, `"Seed"`, `"Colour":1,"Seed"`, 1),
		"cut":                want[:30],
		"that make no batch": strings.Replace(want, `"BatchSize":8`, `"BatchSize":0`, 1),
	} {
		if _, err := spec(t, testOptions()).New(1, []byte(state)); err == nil || !strings.Contains(err.Error(), "lane 1") {
			t.Errorf("options %s: %v, want an error that names the lane", name, err)
		}
	}
}

func TestWaiting(t *testing.T) {
	made := must.Get(spec(t, testOptions()).New(1, nil))(t)
	if got := made.(interface{ Waiting() string }).Waiting(); got != "a group after group -1" {
		t.Errorf("the lane waits for %q", got)
	}
}
