package indexer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/neighbors/float16rows"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// newLive makes an index that the test closes, and checks that nothing native is left.
func newLive(t testing.TB, o indexer.LiveOptions, engine indexer.LiveEngine) *indexer.Live {
	t.Helper()
	handles, matrices := cpu.Live(), float16rows.Live()
	live := must.Get(indexer.NewLive(o, engine))(t)
	t.Cleanup(func() {
		must.Check(t, live.Close())
		if h, m := cpu.Live(), float16rows.Live(); h != handles || m != matrices {
			t.Errorf("%d handles and %d matrices live after, %d and %d before", h, m, handles, matrices)
		}
	})
	return live
}

func newLane(t testing.TB, live *indexer.Live, lane int32, o indexer.Options) *indexer.Builder {
	t.Helper()
	b := must.Get(indexer.NewBuilder(schemas.GroupID{Lane: lane}, o, cpu.Engine{}, nouns{}, live))(t)
	t.Cleanup(func() { must.Check(t, b.Free()) })
	return b
}

// running runs the background until the test ends.
func running(t testing.TB, live *indexer.Live) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		must.Check(t, live.Run(ctx))
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

func addAll(t testing.TB, b *indexer.Builder, pairs []*schemas.Embedding, offset int64) {
	t.Helper()
	for i, e := range pairs {
		must.Get(b.Add(e, offset+int64(i)))(t)
	}
}

// best returns the positions of the k largest inner products, found by the book.
func best(pairs []*schemas.Embedding, rows func(*schemas.Embedding) schemas.Float16s, q []float32, k, leaveOut int) []int {
	var order []int
	scores := make([]float64, len(pairs))
	for i, e := range pairs {
		if i != leaveOut {
			scores[i] = knn.Score(rows(e).Floats(), q)
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	return order[:min(k, len(order))]
}

func images(e *schemas.Embedding) schemas.Float16s { return e.V }
func texts(e *schemas.Embedding) schemas.Float16s  { return e.T }

// share returns how many of the wanted positions were found.
func share(t *testing.T, got []indexer.Neighbor, pairs []*schemas.Embedding, want []int) (found int) {
	t.Helper()
	for _, n := range got {
		at := slices.IndexFunc(pairs, func(e *schemas.Embedding) bool { return e.ID == n.Pair })
		if at < 0 {
			t.Fatalf("found pair %s, which was never added", n.Pair)
		}
		if slices.Contains(want, at) {
			found++
		}
	}
	return found
}

func TestLiveFindsTheNearest(t *testing.T) {
	const n, k = 3000, 10
	pairs := lane(1, n, 1)
	for _, c := range []struct {
		name   string
		run    bool
		tail   int
		recall float64
	}{{"without lists", false, 8192, 1}, {"with lists", true, 256, 0.95}} {
		t.Run(c.name, func(t *testing.T) {
			o := indexer.DefaultLiveOptions()
			o.TailRows = c.tail
			engine := &countingEngine{}
			live := newLive(t, o, engine)
			if c.run {
				running(t, live)
			}
			group := options()
			group.GroupSize = 2 * n
			addAll(t, newLane(t, live, 0, group), pairs, 0)
			if c.run {
				engine.waitForLists(t, n-c.tail)
			} else if s := live.Status(); len(s) != 1 || s[0].Pairs != n || s[0].InLists != 0 || s[0].Closed {
				t.Errorf("status %+v", s)
			}
			found, wanted := 0, 0
			for i := 0; i < n; i += 100 {
				self, answer, err := live.Neighbors(pairs[i].ID, indexer.Query{K: k, Modality: indexer.Image})
				must.Do(t, err)
				if self.Position != i || answer.Searched != n || answer.Model != "m1" {
					t.Fatalf("pair %d: %+v, %d pairs searched with model %q", i, self, answer.Searched, answer.Model)
				}
				want := best(pairs, images, pairs[i].V.Floats(), k, i)
				found, wanted = found+share(t, answer.Neighbors, pairs, want), wanted+len(want)
				if answer, err = live.Search(pairs[i].V.Floats(), indexer.Query{K: k, Modality: indexer.Text}); err != nil {
					t.Fatal(err)
				}
				want = best(pairs, texts, pairs[i].V.Floats(), k, -1)
				found, wanted = found+share(t, answer.Neighbors, pairs, want), wanted+len(want)
			}
			if recall := float64(found) / float64(wanted); recall < c.recall {
				t.Errorf("recall %.3f, want %.3f", recall, c.recall)
			}
		})
	}
}

// countingEngine tells how many rows went into lists, so that a test can wait for it.
type countingEngine struct {
	cpu.Engine
	rows atomic.Int64
	grew sync.Cond
	lock sync.Mutex
}

func (e *countingEngine) Assign(ctx context.Context, x knn.Matrix, centroids []float32, threads int) ([]int32, error) {
	out, err := e.Engine.Assign(ctx, x, centroids, threads)
	e.lock.Lock()
	defer e.lock.Unlock()
	e.rows.Add(int64(x.Rows))
	if e.grew.L != nil {
		e.grew.Broadcast()
	}
	return out, err
}

// waitForLists returns when as many rows of images and of texts were assigned to lists.
func (e *countingEngine) waitForLists(t testing.TB, rows int) {
	t.Helper()
	e.lock.Lock()
	defer e.lock.Unlock()
	e.grew.L = &e.lock
	for e.rows.Load() < int64(2*rows) {
		e.grew.Wait()
	}
}

func TestLiveKeepsTheLatestGroups(t *testing.T) {
	pairs := lane(2, 400, 1)
	group := options()
	group.GroupSize = 100
	o := indexer.DefaultLiveOptions()
	o.KeepGroups = 2
	live := newLive(t, o, cpu.Engine{})
	b := newLane(t, live, 0, group)
	other := newLane(t, live, 1, group)
	addAll(t, other, lane(3, 7, 1), 0)
	for i := range 4 {
		addAll(t, b, pairs[i*100:(i+1)*100], int64(i*100))
		if i < 3 {
			closeGroup(t, b, indexer.ByCount)
		}
	}
	for i, e := range pairs {
		self, answer, err := live.Neighbors(e.ID, indexer.Query{K: 3, Modality: indexer.Image})
		if i < 100 {
			if !errors.Is(err, indexer.ErrNoPairs) {
				t.Fatalf("pair %d of a group that was let go: %v", i, err)
			}
			continue
		}
		must.Do(t, err)
		if want := (schemas.GroupID{Seq: int64(i / 100)}); self.Group != want || self.Position != i%100 || answer.Searched != 307 {
			t.Fatalf("pair %d is %+v, %d pairs searched", i, self, answer.Searched)
		}
	}
	must.Do(t, b.Free())
	if _, _, err := live.Neighbors(pairs[399].ID, indexer.Query{K: 3, Modality: indexer.Image}); !errors.Is(err, indexer.ErrNoPairs) {
		t.Errorf("a pair of a lane that was given up: %v", err)
	}
	answer, err := live.Search(pairs[0].V.Floats(), indexer.Query{K: 100, Modality: indexer.Image})
	if err != nil || answer.Searched != 7 || len(answer.Neighbors) != 7 {
		t.Errorf("the other lane: %d pairs, %v", answer.Searched, err)
	}
}

func TestLiveKeepsNoClosedGroup(t *testing.T) {
	live := newLive(t, indexer.LiveOptions{KeepGroups: 0, TailRows: 16, Recall: 1}, cpu.Engine{})
	b := newLane(t, live, 0, options())
	addAll(t, b, lane(8, 30, 1), 0)
	closeGroup(t, b, indexer.BySeal)
	if s := live.Status(); len(s) != 0 {
		t.Errorf("groups %+v are kept", s)
	}
}

func TestLiveComparesOnlyVectorsOfOneModel(t *testing.T) {
	live := newLive(t, indexer.DefaultLiveOptions(), cpu.Engine{})
	b := newLane(t, live, 0, options())
	old, young := lane(4, 30, 1), lane(5, 20, 1)
	addAll(t, b, old, 0)
	closeGroup(t, b, indexer.ByModel)
	for _, e := range young {
		e.Model = "m2"
	}
	addAll(t, b, young, 30)
	for _, c := range []struct {
		pair     *schemas.Embedding
		model    string
		searched int
	}{{old[3], "m1", 30}, {young[3], "m2", 20}} {
		_, answer, err := live.Neighbors(c.pair.ID, indexer.Query{K: 50, Modality: indexer.Text})
		if err != nil || answer.Model != c.model || answer.Searched != c.searched || len(answer.Neighbors) != c.searched {
			t.Errorf("neighbours under %s: model %s, %d searched, %v", c.model, answer.Model, answer.Searched, err)
		}
	}
	if answer, err := live.Search(young[0].V.Floats(), indexer.Query{K: 5, Modality: indexer.Text}); err != nil || answer.Model != "m2" {
		t.Errorf("a search under model %q: %v", answer.Model, err)
	}
}

func TestLiveRefuses(t *testing.T) {
	live := newLive(t, indexer.DefaultLiveOptions(), cpu.Engine{})
	unit := make([]float32, dim)
	unit[0] = 1
	if _, err := live.Search(unit, indexer.Query{K: 5, Modality: indexer.Image}); !errors.Is(err, indexer.ErrNoPairs) {
		t.Errorf("searching nothing: %v", err)
	}
	addAll(t, newLane(t, live, 0, options()), lane(6, 5, 1), 0)
	nan := slices.Clone(unit)
	nan[3] = float32(math.NaN())
	huge := slices.Clone(unit)
	huge[3] = float32(math.Inf(1))
	for name, c := range map[string]struct {
		q        []float32
		k        int
		modality string
	}{
		"short":          {unit[1:], 5, indexer.Image},
		"zero":           {make([]float32, dim), 5, indexer.Image},
		"not a number":   {nan, 5, indexer.Image},
		"infinite":       {huge, 5, indexer.Image},
		"no neighbours":  {unit, 0, indexer.Image},
		"too many":       {unit, indexer.MaxNeighbors + 1, indexer.Image},
		"which modality": {unit, 5, "sound"},
	} {
		if _, err := live.Search(c.q, indexer.Query{K: c.k, Modality: c.modality}); !errors.Is(err, indexer.ErrQuery) {
			t.Errorf("%s: %v, want a bad query", name, err)
		}
	}
	if _, err := indexer.NewLive(indexer.LiveOptions{KeepGroups: -1, Recall: 2}, cpu.Engine{}); err == nil {
		t.Error("bad options were taken")
	}
}

// TestSearchesWhileGroupsGrowAndGo adds, searches, closes groups and gives up lanes at once; the race detector watches,
// and the native handles must all come back.
func TestSearchesWhileGroupsGrowAndGo(t *testing.T) {
	o := indexer.DefaultLiveOptions()
	o.TailRows, o.KeepGroups = 64, 1
	live := newLive(t, o, cpu.Engine{})
	running(t, live)
	group := options()
	group.GroupSize, group.K2, group.Clusters, group.Iterations = 400, 20, 5, 2
	var adders, searchers sync.WaitGroup
	var done atomic.Bool
	var found atomic.Int64
	for number := range int32(2) {
		adders.Go(func() {
			for round := range 3 {
				b, err := indexer.NewBuilder(schemas.GroupID{Lane: number}, group, cpu.Engine{}, nouns{}, live)
				if err != nil {
					t.Error(err)
					return
				}
				for i, e := range lane(uint64(10+number), 1000, 1) {
					verdict, err := b.Add(e, int64(i))
					must.Check(t, err)
					if verdict == indexer.Complete {
						if _, err := b.Close(context.Background(), indexer.ByCount); err != nil {
							t.Error(err)
						}
					}
				}
				if err := b.Free(); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			}
		})
	}
	for number := range 3 {
		searchers.Go(func() {
			queries := lane(uint64(10+number%2), 1000, 1)
			for i := 0; !done.Load(); i++ {
				e := queries[i%len(queries)]
				_, answer, err := live.Neighbors(e.ID, indexer.Query{K: 5, Modality: []string{indexer.Image, indexer.Text}[i%2]})
				if err != nil && !errors.Is(err, indexer.ErrNoPairs) {
					t.Error(err)
				}
				found.Add(int64(len(answer.Neighbors)))
				if _, err := live.Search(e.T.Floats(), indexer.Query{K: 5, Modality: indexer.Image}); err != nil && !errors.Is(err, indexer.ErrNoPairs) {
					t.Error(err)
				}
			}
		})
	}
	adders.Wait()
	done.Store(true)
	searchers.Wait()
	if found.Load() == 0 {
		t.Error("nothing was ever found")
	}
}

// failingEngine cannot assign rows to lists.
type failingEngine struct{ cpu.Engine }

var errBroken = errors.New("broken engine")

func (failingEngine) Assign(context.Context, knn.Matrix, []float32, int) ([]int32, error) {
	return nil, fmt.Errorf("assigning: %w", errBroken)
}

func TestRunReportsAnEngineThatFails(t *testing.T) {
	o := indexer.DefaultLiveOptions()
	o.TailRows = 32
	live := newLive(t, o, failingEngine{})
	pairs := lane(7, 40, 1)
	addAll(t, newLane(t, live, 0, options()), pairs, 0)
	if err := live.Run(context.Background()); !errors.Is(err, errBroken) {
		t.Fatalf("Run returned %v", err)
	}
	if _, answer, err := live.Neighbors(pairs[0].ID, indexer.Query{K: 5, Modality: indexer.Image}); err != nil || len(answer.Neighbors) != 5 {
		t.Errorf("without lists: %d neighbours, %v", len(answer.Neighbors), err)
	}
}

// TestLiveHides compares with a search among what is not hidden, even where nearly everything is.
func TestLiveHides(t *testing.T) {
	const n, k = 300, 10
	pairs := lane(1, n, 1)
	for _, every := range []int{2, 50} {
		live := newLive(t, indexer.DefaultLiveOptions(), &countingEngine{})
		shown := map[schemas.PairID]bool{}
		var rest []*schemas.Embedding
		for i := 0; i < n; i += every {
			shown[pairs[i].ID] = true
			rest = append(rest, pairs[i])
		}
		live.Hide(func(id schemas.PairID) bool { return !shown[id] })
		group := options()
		group.GroupSize = 2 * n
		addAll(t, newLane(t, live, 0, group), pairs, 0)
		answer := must.Get(live.Search(pairs[0].V.Floats(), indexer.Query{K: k, Modality: indexer.Image, Exact: true}))(t)
		want := best(rest, images, pairs[0].V.Floats(), k, -1)
		if len(answer.Neighbors) != len(want) || share(t, answer.Neighbors, rest, want) != len(want) {
			t.Errorf("one of %d shown: found %d pairs, want the nearest %d that are not hidden", every, len(answer.Neighbors), len(want))
		}
		if _, _, err := live.Neighbors(pairs[1].ID, indexer.Query{K: k, Modality: indexer.Image}); !errors.Is(err, indexer.ErrNoPairs) {
			t.Errorf("a hidden pair has neighbours: %v", err)
		}
	}
}
