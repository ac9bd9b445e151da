package device

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/knntest"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestKMeansIsTheReferences(t *testing.T) {
	w := newWorker(t, 1)
	for _, c := range knntest.Clusterings() {
		want, err := (reference.Engine{}).KMeans(context.Background(), c.X, c.P)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		for _, o := range []Options{{}, {Rows: 61, Columns: 40}} {
			c.P.Threads = 1 + o.Rows%2
			leaves(t, func() {
				got, err := New(w, o).KMeans(context.Background(), c.X, c.P)
				if err != nil {
					t.Fatalf("%s: %v", c.Name, err)
				}
				same(t, c.Name+": assignments", got.Assign, want.Assign, len(want.Assign))
				if !slices.Equal(got.Centroids, want.Centroids) || got.Inertia != want.Inertia || got.Rounds != want.Rounds {
					t.Errorf("%s: inertia %g after %d rounds, want %g after %d, or the centroids differ", c.Name,
						got.Inertia, got.Rounds, want.Inertia, want.Rounds)
				}
			})
		}
	}
}

func TestAssignIsTheReferences(t *testing.T) {
	const n, dim = 3000, 16
	rows := knntest.Halves(knntest.UnitRows(rng.New(3, "assign"), n, dim, 30, 0.5), dim)
	centroids := knntest.UnitRows(rng.New(4, "assign"), 70, dim, 1, 0)
	copy(centroids[dim:2*dim], centroids[:dim]) // a tie: the lower one wins
	want := must.Get((reference.Engine{}).Assign(context.Background(), rows, centroids, 0))(t)
	got := must.Get(New(newWorker(t, 1), Options{Rows: 200, Columns: 90}).Assign(context.Background(), rows, centroids, 2))(t)
	same(t, "assignments", got, want, n)
	if slices.Contains(got, 1) {
		t.Error("the higher of two equal centroids was chosen")
	}
}

func TestSeedsAreTheReferences(t *testing.T) {
	x := knntest.Halves(knntest.UnitRows(rng.New(5, "seeds"), 500, 24, 9, 0.5), 24)
	e := New(newWorker(t, 1), Options{})
	got := must.Get(knn.Seeds(context.Background(), e, x, 40, rng.New(6, "draw")))(t)
	want := must.Get(knn.Seeds(context.Background(), reference.Engine{}, x, 40, rng.New(6, "draw")))(t)
	same(t, "seeds", got, want, 40)
	for name, pair := range map[string][2]int32{"beyond": {0, 500}, "negative": {-1, 0}} {
		if err := e.Scores(context.Background(), x, pair[:1], pair[1:], make([]float64, 1)); err == nil {
			t.Errorf("a row %s was scored", name)
		}
	}
	if err := e.Scores(context.Background(), x, make([]int32, 2), make([]int32, 1), make([]float64, 2)); err == nil {
		t.Error("rows of different numbers were scored")
	}
}

func TestKMeansRefuses(t *testing.T) {
	rows := knntest.UnitRows(rng.New(5, "bad"), 10, 4, 1, 0)
	infinite, far := slices.Clone(rows), slices.Clone(rows[:4])
	infinite[7] = float32(math.Inf(1))
	far[0] = 1e25
	e := New(newWorker(t, 1), Options{})
	leaves(t, func() {
		for name, c := range map[string]knntest.Clustering{
			"no rows":       {X: knn.Matrix{Dim: 4}, P: knn.KMeansParams{Init: []int32{0}, Iterations: 1}},
			"no clusters":   {X: knn.FloatMatrix(rows, 4), P: knn.KMeansParams{Iterations: 1}},
			"no iterations": {X: knn.FloatMatrix(rows, 4), P: knn.KMeansParams{Init: []int32{0}}},
			"row beyond":    {X: knn.FloatMatrix(rows, 4), P: knn.KMeansParams{Init: []int32{10}, Iterations: 1}},
			"infinite":      {X: knn.FloatMatrix(infinite, 4), P: knn.KMeansParams{Init: []int32{0}, Iterations: 1}},
		} {
			if _, err := e.KMeans(context.Background(), c.X, c.P); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		if _, err := e.Assign(context.Background(), knn.FloatMatrix(rows, 4), far, 1); err == nil {
			t.Error("a centroid was taken whose square is beyond float32")
		}
		if _, err := e.Assign(context.Background(), knn.FloatMatrix(rows, 4), far[:3], 1); err == nil {
			t.Error("a piece of a centroid was taken")
		}
	})
}
