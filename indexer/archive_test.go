package indexer_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// archived returns an archive of three groups of a crawl, of which the last is of another model, and all pairs.
func archived(t *testing.T, gone func(schemas.PairID) bool) (*indexer.Archive, []*schemas.Embedding) {
	t.Helper()
	o := acrossOptions()
	o.GroupSize = 400
	a, all := indexer.NewArchive(cpu.Engine{}, gone), lane(12, 1200, 1)
	for _, e := range all[800:] {
		e.Model = "m0"
	}
	for i, seq := range []int64{5, 4, 1} {
		b := must.Get(indexer.NewBuilder(schemas.GroupID{Lane: int32(i), Seq: seq}, o, cpu.Engine{}, nouns{}, nil))(t)
		for at, e := range all[400*i : 400*(i+1)] {
			must.Get(b.Add(e, int64(at)))(t)
		}
		g := must.Get(b.Close(t.Context(), indexer.ByCount))(t)
		a.Add(g.Segment)
	}
	t.Cleanup(func() { must.Check(t, a.Close()) })
	return a, all
}

// TestTheArchiveFindsWhatAGroupFinds compares its neighbours with those in a group of all pairs of the model.
func TestTheArchiveFindsWhatAGroupFinds(t *testing.T) {
	a, all := archived(t, func(schemas.PairID) bool { return false })
	if a.Pairs() != 1200 {
		t.Errorf("%d pairs, want 1200", a.Pairs())
	}
	live, err := indexer.NewLive(indexer.DefaultLiveOptions(), cpu.Engine{})
	must.Do(t, err)
	o := options()
	o.GroupSize = 900
	b := must.Get(indexer.NewBuilder(schemas.GroupID{}, o, cpu.Engine{}, nouns{}, live))(t)
	defer func() { err = errors.Join(b.Free(), live.Close()) }()
	for i, e := range all[:800] {
		must.Get(b.Add(e, int64(i)))(t)
	}
	found, wanted := 0, 0
	for _, i := range []int{3, 399, 400, 777} {
		for _, q := range []indexer.Query{{K: 10, Modality: indexer.Image}, {K: 10, Modality: indexer.Text}, {K: 10, Modality: indexer.Text, Exact: true}} {
			self, got, err := a.Neighbors(all[i].ID, q)
			if err != nil || self.Group.Lane != int32(i/400) || self.Position != i%400 || got.Model != "m1" || got.Searched != 800 {
				t.Fatalf("pair %d: %+v, %+v, %v", i, self, got, err)
			}
			_, want := must.Get2(live.Neighbors(all[i].ID, q))(t)
			wanted += len(want.Neighbors)
			for _, n := range want.Neighbors {
				if slices.ContainsFunc(got.Neighbors, func(m indexer.Neighbor) bool { return m.Pair == n.Pair }) {
					found++
				}
			}
		}
	}
	if found < wanted*95/100 {
		t.Errorf("%d of %d neighbours are found", found, wanted)
	}
	vector, err := a.Search(all[5].V.Floats(), indexer.Query{K: 1, Modality: indexer.Image})
	if err != nil || vector.Model != "m1" || vector.Neighbors[0].Pair != all[5].ID || vector.Neighbors[0].Similarity < 0.99 {
		t.Errorf("%+v, %v", vector, err)
	}
	if _, other, err := a.Neighbors(all[900].ID, indexer.Query{K: 3, Modality: indexer.Text}); err != nil || other.Model != "m0" || other.Searched != 400 {
		t.Errorf("%+v, %v", other, err)
	}
}

// TestTheArchiveHidesWhatIsTakenBack finds k others instead.
func TestTheArchiveHidesWhatIsTakenBack(t *testing.T) {
	hidden := make(map[schemas.PairID]bool)
	a, all := archived(t, func(id schemas.PairID) bool { return hidden[id] })
	_, before := must.Get2(a.Neighbors(all[7].ID, indexer.Query{K: 5, Modality: indexer.Image}))(t)
	for _, n := range before.Neighbors[:4] {
		hidden[n.Pair] = true
	}
	_, after, err := a.Neighbors(all[7].ID, indexer.Query{K: 5, Modality: indexer.Image})
	if err != nil || len(after.Neighbors) != 5 || after.Neighbors[0] != before.Neighbors[4] {
		t.Errorf("%+v, %v, want %+v first", after.Neighbors, err, before.Neighbors[4])
	}
	hidden[all[7].ID] = true
	if _, _, err := a.Neighbors(all[7].ID, indexer.Query{K: 5, Modality: indexer.Image}); !errors.Is(err, indexer.ErrNoPairs) {
		t.Errorf("a hidden pair has neighbours: %v", err)
	}
}

// TestTheArchiveRefuses checks queries that it cannot answer, also over HTTP.
func TestTheArchiveRefuses(t *testing.T) {
	empty := indexer.NewArchive(cpu.Engine{}, func(schemas.PairID) bool { return false })
	if _, err := empty.Search([]float32{1}, indexer.Query{K: 1, Modality: indexer.Image}); !errors.Is(err, indexer.ErrNoPairs) {
		t.Error(err)
	}
	a, all := archived(t, func(schemas.PairID) bool { return false })
	for name, q := range map[string]indexer.Query{"no neighbours": {Modality: indexer.Image}, "too many": {K: 1001, Modality: indexer.Text}, "a modality": {K: 1, Modality: "sound"}} {
		if _, err := a.Search(all[0].V.Floats(), q); !errors.Is(err, indexer.ErrQuery) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.Search([]float32{1}, indexer.Query{K: 1, Modality: indexer.Image}); !errors.Is(err, indexer.ErrQuery) {
		t.Error(err)
	}
	h := indexer.NewHandler(a)
	for path, want := range map[string]int{"/neighbors?k=2&pair=" + all[0].ID.String(): http.StatusOK, "/neighbors?pair=" + strings.Repeat("0", 32): http.StatusNotFound} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, http.NoBody))
		if w.Code != want {
			t.Errorf("%s: status %d, want %d", path, w.Code, want)
		}
	}
}
