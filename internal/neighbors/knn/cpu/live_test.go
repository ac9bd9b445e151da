package cpu_test

import (
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/knntest"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// sameHits compares rows exactly and similarities within float32 rounding.
func sameHits(t *testing.T, what string, got, want []knn.Hit) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d hits, want %d", what, len(got), len(want))
	}
	for i := range got {
		if e := got[i].Similarity - want[i].Similarity; got[i].Row != want[i].Row || e > 1e-5 || e < -1e-5 {
			t.Fatalf("%s: hit %d is %+v, want %+v", what, i, got[i], want[i])
		}
	}
}

func TestListsAreTheReference(t *testing.T) { eachInstructionSet(t, listsAreTheReference) }

func listsAreTheReference(t *testing.T) {
	t.Helper()
	const n, tail, dim, lists = 900, 850, 20, 17
	before := cpu.Live()
	m := knntest.Halves(knntest.UnitRows(rng.New(2, "lists"), n, dim, 9, 0.5), dim)
	centroids := knntest.UnitRows(rng.New(3, "lists"), lists, dim, 1, 0)
	queries := knntest.UnitRows(rng.New(4, "lists"), 25, dim, 9, 0.5)
	numbers := make([]int32, n)
	for i := range numbers {
		numbers[i] = int32(i * 7 % lists)
	}
	build := func(s knn.Searcher) knn.Lists {
		t.Helper()
		l := must.Get(s.NewLists(centroids, dim))(t)
		for _, part := range [][2]int{{0, 400}, {400, 500}, {500, 640}, {640, tail}} { // the third takes up the second
			longer, err := l.Extended(m, part[0], numbers[part[0]:part[1]])
			l.Close()
			must.Do(t, err)
			l = longer
		}
		return l
	}
	ours, oracle := build(cpu.Engine{}), build(reference.Engine{})
	for i := range 25 {
		q := queries[i*dim : (i+1)*dim]
		for _, probes := range []int{1, 4, lists, lists + 3} {
			near := must.Get(ours.Probe(q, probes))(t)
			wantNear := must.Get(oracle.Probe(q, probes))(t)
			if !slices.Equal(near, wantNear) {
				t.Fatalf("%d nearest lists %v, want %v", probes, near, wantNear)
			}
			got := must.Get(ours.Search(m, tail, q, 10, probes))(t)
			want := must.Get(oracle.Search(m, tail, q, 10, probes))(t)
			sameHits(t, "search in lists", got, want)
		}
	}
	for name, bad := range map[string]error{
		"a list that is not there": second(ours.Extended(m, 0, []int32{lists})),
		"rows that are not there":  second(ours.Extended(m, n, []int32{0})),
		"a query of another width": second(ours.Search(m, n, queries[:3], 10, 1)),
		"no lists":                 second(ours.Search(m, n, queries[:dim], 10, 0)),
		"a tail beyond the rows":   second(ours.Search(m, n+1, queries[:dim], 10, 1)),
	} {
		if bad == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := ours.Probe(queries[:dim], 0); err == nil {
		t.Error("no lists were ranked without an error")
	}
	ours.Close()
	if after := cpu.Live(); after != before {
		t.Errorf("%d handles live after, %d before", after, before)
	}
}

func second[T any](_ T, err error) error { return err }

func TestScanIsTheReference(t *testing.T) {
	const n, dim = 400, 37
	m := knntest.Halves(knntest.UnitRows(rng.New(5, "scan"), n, dim, 9, 0.5), dim)
	q := knntest.UnitRows(rng.New(6, "scan"), 1, dim, 1, 0)
	eachInstructionSet(t, func(t *testing.T) {
		for _, from := range []int{0, 100, n - 3, n} {
			got := must.Get((cpu.Engine{}).Scan(m, from, q, 10))(t)
			want := must.Get(reference.Engine{}.Scan(m, from, q, 10))(t)
			sameHits(t, "scan", got, want)
		}
	})
	for name, err := range map[string]error{
		"float32 rows": scanError(knn.FloatMatrix(make([]float32, 8), 4), 0, make([]float32, 4), 1),
		"query width":  scanError(m, 0, q[1:], 1),
		"no k":         scanError(m, 0, q, 0),
		"from beyond":  scanError(m, n+1, q, 1),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func scanError(m knn.Matrix, from int, q []float32, k int) error {
	_, err := cpu.Engine{}.Scan(m, from, q, k)
	return err
}

func TestBadChoicesAreRefused(t *testing.T) {
	if _, err := (cpu.Engine{}).NewLists(make([]float32, 7), 3); err == nil {
		t.Error("lists were made of two centroids and a bit")
	}
	if err := cpu.UseInstructions("abacus"); err == nil {
		t.Error("unknown instructions were chosen")
	}
}

// TestCodesFindTheNearestLists ranks many centroids: a few of them by their codes, which find nearly all of the
// nearest, and all of them exactly.
func TestCodesFindTheNearestLists(t *testing.T) {
	const dim, lists, queries, probes = 40, 2000, 200, 12
	before := cpu.Live()
	centroids := knntest.UnitRows(rng.New(3, "lists"), lists, dim, 60, 0.6)
	q := knntest.UnitRows(rng.New(4, "lists"), queries, dim, 60, 0.6)
	ours := must.Get(cpu.Engine{}.NewLists(centroids, dim))(t)
	oracle := must.Get(reference.Engine{}.NewLists(centroids, dim))(t)
	found := 0
	for i := range queries {
		query := q[i*dim : (i+1)*dim]
		for n := range 2 {
			n = []int{probes, lists}[n]
			want := must.Get(oracle.Probe(query, n))(t)
			got, err := ours.Probe(query, n)
			if err != nil || len(got) != n {
				t.Fatalf("query %d: %d of %d lists, %v", i, len(got), n, err)
			}
			if n == lists {
				if !slices.Equal(got[:probes], want[:probes]) {
					t.Fatalf("query %d: the ranking of all lists begins with %v, want %v", i, got[:probes], want[:probes])
				}
				continue
			}
			for _, l := range want {
				if slices.Contains(got, l) {
					found++
				}
			}
		}
	}
	if share := float64(found) / (queries * probes); share < 0.95 {
		t.Errorf("the codes found %.3f of the nearest lists", share)
	} else {
		t.Logf("the codes found %.3f of the nearest lists", share)
	}
	ours.Close()
	oracle.Close()
	if cpu.Live() != before {
		t.Error("lists were not freed")
	}
}
