package faiss_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/faiss"
	"github.com/pairstream/pairstream/internal/knn"
	"github.com/pairstream/pairstream/internal/rng"
)

// starts draws k distinct rows out of n.
func starts(seed uint64, n, k int) []int32 {
	rows := make([]int32, k)
	for i, row := range rng.New(seed, "starts").Perm(n)[:k] {
		rows[i] = int32(row)
	}
	return rows
}

func TestKMeansIsTheReferences(t *testing.T) {
	type problem struct {
		name string
		x    knn.Matrix
		p    knn.KMeansParams
	}
	var problems []problem
	add := func(name string, n, dim, k, rounds int, change func(rows []float32)) {
		rows := unitRows(rng.New(1, "k-means", int64(n), int64(dim)), n, dim, 12, 0.5)
		if change != nil {
			change(rows)
		}
		p := knn.KMeansParams{Init: starts(2, n, k), Iterations: rounds}
		problems = append(problems, problem{name + "/float16", halves(rows, dim), p},
			problem{name + "/float32", knn.FloatMatrix(rows, dim), p})
	}
	add("usual", 700, 24, 20, 8, nil)
	add("odd width", 500, 7, 9, 8, nil)
	add("more clusters than a panel", 900, 16, 150, 6, nil)
	add("until nothing changes", 300, 8, 3, 200, nil)
	add("one cluster", 100, 8, 1, 3, nil)
	add("as many clusters as rows", 60, 8, 60, 4, nil)
	add("several blocks", 4500, 8, 10, 4, nil)
	add("long rows", 200, 16, 10, 5, func(rows []float32) {
		for i := range rows[:100*16] {
			rows[i] *= 37
		}
	})
	add("equal rows lose clusters", 200, 8, 20, 6, func(rows []float32) {
		for i := 8; i < 150*8; i++ {
			rows[i] = rows[i%8]
		}
	})
	want := make([]knn.Clusters, len(problems))
	for i, p := range problems {
		var err error
		if want[i], err = (knn.Reference{}).KMeans(context.Background(), p.x, p.p); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
	}
	eachInstructionSet(t, func(t *testing.T) {
		for i, p := range problems {
			for _, threads := range []int{1, 3} {
				p.p.Threads = threads
				before := faiss.Live()
				got, err := (faiss.Engine{}).KMeans(context.Background(), p.x, p.p)
				if err != nil {
					t.Fatalf("%s: %v", p.name, err)
				}
				what := fmt.Sprintf("%s, %d threads: assignments", p.name, threads)
				same(t, what, got.Assign, want[i].Assign, len(want[i].Assign))
				if !slices.Equal(got.Centroids, want[i].Centroids) || got.Inertia != want[i].Inertia || got.Rounds != want[i].Rounds {
					t.Errorf("%s: inertia %g after %d rounds, want %g after %d, or the centroids differ", p.name,
						got.Inertia, got.Rounds, want[i].Inertia, want[i].Rounds)
				}
				if after := faiss.Live(); after != before {
					t.Errorf("%s: %d handles live after, %d before", p.name, after, before)
				}
			}
		}
	})
}

func TestAssignIsTheReferences(t *testing.T) {
	const n, dim = 3000, 16
	rows := unitRows(rng.New(3, "assign"), n, dim, 30, 0.5)
	centroids := unitRows(rng.New(4, "assign"), 70, dim, 1, 0)
	copy(centroids[dim:2*dim], centroids[:dim]) // a tie: the lower one wins
	want, err := (knn.Reference{}).Assign(context.Background(), halves(rows, dim), centroids, 0)
	if err != nil {
		t.Fatal(err)
	}
	eachInstructionSet(t, func(t *testing.T) {
		got, err := (faiss.Engine{}).Assign(context.Background(), halves(rows, dim), centroids, 2)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "assignments", got, want, n)
		if slices.Contains(got, 1) {
			t.Error("the higher of two equal centroids was chosen")
		}
	})
}

func TestKMeansRefusesBadInput(t *testing.T) {
	rows := unitRows(rng.New(5, "bad"), 10, 4, 1, 0)
	nan := slices.Clone(rows)
	nan[7] = float32(math.Inf(1))
	for name, c := range map[string]struct {
		x knn.Matrix
		p knn.KMeansParams
	}{
		"no rows":       {knn.Matrix{Dim: 4}, knn.KMeansParams{Init: []int32{0}, Iterations: 1}},
		"no clusters":   {knn.FloatMatrix(rows, 4), knn.KMeansParams{Iterations: 1}},
		"no iterations": {knn.FloatMatrix(rows, 4), knn.KMeansParams{Init: []int32{0}}},
		"row beyond":    {knn.FloatMatrix(rows, 4), knn.KMeansParams{Init: []int32{10}, Iterations: 1}},
		"infinite":      {knn.FloatMatrix(nan, 4), knn.KMeansParams{Init: []int32{0}, Iterations: 1}},
	} {
		if _, err := (faiss.Engine{}).KMeans(context.Background(), c.x, c.p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, _, err := faiss.KMeans(rows, 4, 11, 1, 1); err == nil {
		t.Error("libfaiss was asked for more clusters than rows without an error")
	}
}

// TestKMeansIsAsGoodAsFAISS compares inertias; ours starts from k-means++, libfaiss from random rows.
func TestKMeansIsAsGoodAsFAISS(t *testing.T) {
	const n, dim, k, rounds = 3000, 16, 40, 20
	ctx := context.Background()
	rows := unitRows(rng.New(6, "inertia"), n, dim, 60, 0.6)
	_, theirs, err := faiss.KMeans(rows, dim, k, rounds, 1234)
	if err != nil {
		t.Fatal(err)
	}
	x := knn.FloatMatrix(rows, dim)
	seeds, err := knn.Seeds(ctx, faiss.Engine{}, x, k, rng.New(7, "seeds"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := knn.Seeds(ctx, knn.Reference{}, x, k, rng.New(7, "seeds"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "seeds", seeds, plain, k)
	ours, err := (faiss.Engine{}).KMeans(ctx, x, knn.KMeansParams{Init: seeds, Iterations: rounds})
	if err != nil {
		t.Fatal(err)
	}
	if ratio := ours.Inertia / theirs; ratio > 1.005 || ratio < 0.9 {
		t.Errorf("inertia %g, libfaiss %g: ratio %.4f", ours.Inertia, theirs, ratio)
	}
}

func BenchmarkKMeans(b *testing.B) {
	const n, dim, k, rounds = 100_000, 256, 1000, 20
	images, _ := benchPairs(n, dim)
	b.Run("ours", func(b *testing.B) {
		x := halves(images, dim)
		b.ResetTimer()
		cpu := cpuSeconds()
		for range b.N {
			seeds, err := knn.Seeds(context.Background(), faiss.Engine{}, x, k, rng.New(1, "seeds"))
			if err != nil {
				b.Fatal(err)
			}
			got, err := (faiss.Engine{}).KMeans(context.Background(), x, knn.KMeansParams{Init: seeds, Iterations: rounds})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(got.Inertia, "inertia")
			b.ReportMetric(float64(got.Rounds), "rounds")
		}
		b.ReportMetric((cpuSeconds()-cpu)/float64(b.N), "cpu-s/op")
	})
	b.Run("libfaiss", func(b *testing.B) {
		cpu := cpuSeconds()
		for range b.N {
			_, inertia, err := faiss.KMeans(images, dim, k, rounds, 1)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(inertia, "inertia")
		}
		b.ReportMetric((cpuSeconds()-cpu)/float64(b.N), "cpu-s/op")
	})
}
