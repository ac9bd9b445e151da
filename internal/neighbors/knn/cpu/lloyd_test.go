package cpu_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/faiss"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/knntest"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestKMeansIsTheReferences(t *testing.T) {
	problems := knntest.Clusterings()
	want := make([]knn.Clusters, len(problems))
	for i, p := range problems {
		var err error
		if want[i], err = (reference.Engine{}).KMeans(context.Background(), p.X, p.P); err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
	}
	eachInstructionSet(t, func(t *testing.T) {
		for i, p := range problems {
			for _, threads := range []int{1, 3} {
				p.P.Threads = threads
				before := cpu.Live()
				got, err := (cpu.Engine{}).KMeans(context.Background(), p.X, p.P)
				if err != nil {
					t.Fatalf("%s: %v", p.Name, err)
				}
				what := fmt.Sprintf("%s, %d threads: assignments", p.Name, threads)
				same(t, what, got.Assign, want[i].Assign, len(want[i].Assign))
				if !slices.Equal(got.Centroids, want[i].Centroids) || got.Inertia != want[i].Inertia || got.Rounds != want[i].Rounds {
					t.Errorf("%s: inertia %g after %d rounds, want %g after %d, or the centroids differ", p.Name,
						got.Inertia, got.Rounds, want[i].Inertia, want[i].Rounds)
				}
				if after := cpu.Live(); after != before {
					t.Errorf("%s: %d handles live after, %d before", p.Name, after, before)
				}
			}
		}
	})
}

// TestManyRoundsAreTheReferences has rows that move between clusters for many rounds, so that most rows are compared
// with few centroids in some rounds and with all in others.
func TestManyRoundsAreTheReferences(t *testing.T) {
	const n, dim, k, rounds = 4500, 24, 64, 14
	for _, spread := range []float64{0.2, 0.7, 3} {
		for _, scale := range []float32{1, 40} {
			rows := knntest.UnitRows(rng.New(8, "rounds", int64(spread*10)), n, dim, 50, spread)
			for i := range rows {
				rows[i] *= scale
			}
			x := knn.FloatMatrix(rows, dim)
			p := knn.KMeansParams{Iterations: rounds, Threads: 2}
			for i := range k {
				p.Init = append(p.Init, int32(i*n/k))
			}
			want := must.Get((reference.Engine{}).KMeans(context.Background(), x, p))(t)
			eachInstructionSet(t, func(t *testing.T) {
				got := must.Get((cpu.Engine{}).KMeans(context.Background(), x, p))(t)
				same(t, fmt.Sprintf("spread %g, scale %g: assignments", spread, scale), got.Assign, want.Assign, n)
				if !slices.Equal(got.Centroids, want.Centroids) || got.Rounds != want.Rounds {
					t.Errorf("spread %g, scale %g: %d rounds, want %d, or the centroids differ", spread, scale, got.Rounds, want.Rounds)
				}
			})
		}
	}
}

func TestAssignIsTheReferences(t *testing.T) {
	const n, dim = 3000, 16
	rows := knntest.UnitRows(rng.New(3, "assign"), n, dim, 30, 0.5)
	centroids := knntest.UnitRows(rng.New(4, "assign"), 70, dim, 1, 0)
	copy(centroids[dim:2*dim], centroids[:dim]) // a tie: the lower one wins
	want := must.Get((reference.Engine{}).Assign(context.Background(), knntest.Halves(rows, dim), centroids, 0))(t)
	eachInstructionSet(t, func(t *testing.T) {
		got := must.Get((cpu.Engine{}).Assign(context.Background(), knntest.Halves(rows, dim), centroids, 2))(t)
		same(t, "assignments", got, want, n)
		if slices.Contains(got, 1) {
			t.Error("the higher of two equal centroids was chosen")
		}
	})
}

func TestKMeansRefusesBadInput(t *testing.T) {
	rows := knntest.UnitRows(rng.New(5, "bad"), 10, 4, 1, 0)
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
		if _, err := (cpu.Engine{}).KMeans(context.Background(), c.x, c.p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestKMeansIsAsGoodAsFAISS compares inertias; ours starts from k-means++, libfaiss from random rows.
func TestKMeansIsAsGoodAsFAISS(t *testing.T) {
	const n, dim, k, rounds = 3000, 16, 40, 20
	ctx := context.Background()
	rows := knntest.UnitRows(rng.New(6, "inertia"), n, dim, 60, 0.6)
	_, theirs := must.Get2(faiss.KMeans(rows, dim, k, rounds, 1234))(t)
	x := knn.FloatMatrix(rows, dim)
	seeds := must.Get(knn.Seeds(ctx, cpu.Engine{}, x, k, rng.New(7, "seeds")))(t)
	plain := must.Get(knn.Seeds(ctx, reference.Engine{}, x, k, rng.New(7, "seeds")))(t)
	same(t, "seeds", seeds, plain, k)
	ours := must.Get((cpu.Engine{}).KMeans(ctx, x, knn.KMeansParams{Init: seeds, Iterations: rounds}))(t)
	if ratio := ours.Inertia / theirs; ratio > 1.005 || ratio < 0.9 {
		t.Errorf("inertia %g, libfaiss %g: ratio %.4f", ours.Inertia, theirs, ratio)
	}
}

func BenchmarkKMeans(b *testing.B) {
	const n, dim, k, rounds = 100_000, 256, 1000, 20
	images, _ := benchPairs(n, dim)
	b.Run("ours", func(b *testing.B) {
		x := knntest.Halves(images, dim)
		b.ResetTimer()
		before := machine.ProcessorTime()
		for range b.N {
			seeds := must.Get(knn.Seeds(context.Background(), cpu.Engine{}, x, k, rng.New(1, "seeds")))(b)
			got := must.Get((cpu.Engine{}).KMeans(context.Background(), x, knn.KMeansParams{Init: seeds, Iterations: rounds}))(b)
			b.ReportMetric(got.Inertia, "inertia")
			b.ReportMetric(float64(got.Rounds), "rounds")
		}
		b.ReportMetric((machine.ProcessorTime()-before).Seconds()/float64(b.N), "cpu-s/op")
	})
	b.Run("libfaiss", func(b *testing.B) {
		before := machine.ProcessorTime()
		for range b.N {
			_, inertia := must.Get2(faiss.KMeans(images, dim, k, rounds, 1))(b)
			b.ReportMetric(inertia, "inertia")
		}
		b.ReportMetric((machine.ProcessorTime()-before).Seconds()/float64(b.N), "cpu-s/op")
	})
}
