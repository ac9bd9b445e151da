package knn_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/x448/float16"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func unit(seed uint64, n, dim int) []float32 {
	r := rng.New(seed, "rows")
	rows := make([]float32, 0, n*dim)
	for range n {
		row, norm := make([]float64, dim), 0.0
		for j := range row {
			row[j] = r.NormFloat64()
			norm += row[j] * row[j]
		}
		for _, x := range row {
			rows = append(rows, float32(x/math.Sqrt(norm)))
		}
	}
	return rows
}

// TestScoresOfFloat16UnitRowsAreExact adds the products in other orders: the sums must not change by a bit.
func TestScoresOfFloat16UnitRowsAreExact(t *testing.T) {
	const dim = 333
	rows := unit(1, 40, dim)
	for i, x := range rows {
		rows[i] = float16.Fromfloat32(x).Float32()
	}
	for i := range 20 {
		a, b := rows[2*i*dim:(2*i+1)*dim], rows[(2*i+1)*dim:(2*i+2)*dim]
		forward, backward := 0.0, 0.0
		for j := range dim {
			forward += float64(a[j]) * float64(b[j])
			backward += float64(a[dim-1-j]) * float64(b[dim-1-j])
		}
		if s := knn.Score(a, b); s != forward || s != backward {
			t.Fatalf("pair %d: %b, %b forwards, %b backwards", i, s, forward, backward)
		}
	}
}

// TestNeighborsByHand has four images on a circle and texts that point at them.
func TestNeighborsByHand(t *testing.T) {
	at := func(degrees ...float64) knn.Matrix {
		var rows []float32
		for _, d := range degrees {
			rows = append(rows, float32(math.Cos(d*math.Pi/180)), float32(math.Sin(d*math.Pi/180)))
		}
		return knn.FloatMatrix(rows, 2)
	}
	images, texts := at(0, 10, 25, 180), at(8, 30, 170, 2)
	tests := []struct {
		name string
		p    knn.Params
		want knn.Result
	}{
		{
			"plain",
			knn.Params{K: 2, K1: 2, K2: 2},
			knn.Result{
				V2T: []int32{3, 0, 0, 3, 1, 0, 2, 1},
				V2V: []int32{1, 2, 0, 2, 1, 0, 2, 1},
				// T2V of the texts: {1, 0}, {2, 1}, {3, 2}, {0, 1}.
				SE: []int32{1, -1, 2, -1, -1, -1, 1, -1},
			},
		},
		{
			"images 0 and 1 are one image",
			knn.Params{K: 1, K1: 1, K2: 2, Owner: []int32{7, 7, 8, 9}},
			knn.Result{
				V2T: []int32{3, 0, 1, 2},
				V2V: []int32{2, 2, 1, 2},
				SE:  []int32{-1, 2, -1, -1},
			},
		},
		{
			"fewer members than neighbours",
			knn.Params{K: 5, K1: 4, K2: 9},
			knn.Result{
				V2T: []int32{3, 0, 1, 2, -1, 0, 3, 1, 2, -1, 1, 0, 3, 2, -1, 2, 1, 0, 3, -1},
				V2V: []int32{1, 2, 3, -1, 0, 2, 3, -1, 1, 0, 3, -1, 2, 1, 0, -1},
				SE:  []int32{1, 2, 3, -1, 0, 2, 3, -1, 1, 0, 3, -1, 2, 1, 0, -1},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := must.Get(reference.Engine{}.Neighbors(context.Background(), images, texts, test.p))(t)
			if !slices.Equal(got.V2T, test.want.V2T) || !slices.Equal(got.V2V, test.want.V2V) || !slices.Equal(got.SE, test.want.SE) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestTiesGoToTheLowerPosition(t *testing.T) {
	rows := knn.FloatMatrix([]float32{1, 0, 1, 0, 1, 0, 1, 0}, 2)
	got := must.Get(reference.Engine{}.Neighbors(context.Background(), rows, rows, knn.Params{K: 2, K1: 2, K2: 2}))(t)
	want := knn.Result{
		V2T: []int32{0, 1, 0, 1, 0, 1, 0, 1},
		V2V: []int32{1, 2, 0, 2, 0, 1, 0, 1},
		SE:  []int32{1, -1, 0, -1, 0, 1, 0, 1}, // T2V_2 of every text is {0, 1}
	}
	if !slices.Equal(got.V2T, want.V2T) || !slices.Equal(got.V2V, want.V2V) || !slices.Equal(got.SE, want.SE) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestAnEmptyClusterTakesTheFarthestRow starts two clusters from the same place, so the higher one gets nothing.
func TestAnEmptyClusterTakesTheFarthestRow(t *testing.T) {
	x := knn.FloatMatrix([]float32{0, 0, 0, 0, 1, 0, 10, 0, 12, 0}, 2)
	got := must.Get(reference.Engine{}.KMeans(context.Background(), x, knn.KMeansParams{Init: []int32{0, 1}, Iterations: 1}))(t)
	if want := []int32{0, 0, 0, 0, 1}; !slices.Equal(got.Assign, want) {
		t.Errorf("assignments %v, want %v", got.Assign, want)
	}
	got = must.Get(reference.Engine{}.KMeans(context.Background(), x, knn.KMeansParams{Init: []int32{0, 1}, Iterations: 10}))(t)
	if want := []int32{0, 0, 0, 1, 1}; !slices.Equal(got.Assign, want) {
		t.Errorf("assignments %v at the end, want %v", got.Assign, want)
	}
}

func TestSeeds(t *testing.T) {
	const n, dim = 300, 6
	distinct := knn.FloatMatrix(unit(2, n, dim), dim)
	equal := knn.FloatMatrix(make([]float32, n*dim), dim)
	for _, test := range []struct {
		name     string
		x        knn.Matrix
		clusters int
	}{{"few", distinct, 5}, {"more than the sample's share", distinct, 250}, {"all", distinct, n}, {"one", distinct, 1}, {"all rows equal", equal, 20}} {
		t.Run(test.name, func(t *testing.T) {
			draw := func(seed uint64) []int32 {
				t.Helper()
				rows := must.Get(knn.Seeds(context.Background(), reference.Engine{}, test.x, test.clusters, rng.New(seed, "seeds")))(t)
				return rows
			}
			rows := draw(1)
			if again := draw(1); !slices.Equal(rows, again) {
				t.Errorf("the same seed gave %v and %v", rows, again)
			}
			if len(rows) != test.clusters {
				t.Fatalf("%d rows, want %d", len(rows), test.clusters)
			}
			sorted := slices.Sorted(slices.Values(rows))
			if len(slices.Compact(sorted)) != test.clusters || sorted[0] < 0 || sorted[len(sorted)-1] >= n {
				t.Errorf("rows are not distinct positions: %v", rows)
			}
		})
	}
	for _, clusters := range []int{0, n + 1} {
		if _, err := knn.Seeds(context.Background(), reference.Engine{}, distinct, clusters, rng.New(1, "seeds")); err == nil {
			t.Errorf("%d of %d rows were chosen", clusters, n)
		}
	}
}

// Codes leave out rows that cannot be nearer to a chosen one, and nothing else.
func TestSeedsAreTheSameByCodes(t *testing.T) {
	defer func(had bool) { dotproduct.FastCodes = had }(dotproduct.FastCodes)
	crowded := unit(5, 400, 24)
	for i := 24; i < len(crowded); i++ {
		crowded[i] = crowded[i%24] + 0.01*crowded[i] // distances are below the rounding of codes
	}
	outlier := unit(6, 400, 24)
	outlier[77] = 1e6 // takes the bits of codes
	for name, x := range map[string][]float32{
		"apart": unit(4, 400, 24), "crowded": crowded, "outlier": outlier, "equal": make([]float32, 400*24),
		"twice": slices.Concat(unit(7, 200, 24), unit(7, 200, 24)), "one value": unit(8, 400, 1),
	} {
		t.Run(name, func(t *testing.T) {
			m := knn.FloatMatrix(x, 24)
			if name == "one value" {
				m = knn.FloatMatrix(x, 1)
			}
			for seed := range uint64(5) {
				var got [2][]int32
				var scores [2]int
				for i, fast := range []bool{false, true} {
					dotproduct.FastCodes = fast
					counted := &counting{Scorer: reference.Engine{}}
					got[i] = must.Get(knn.Seeds(context.Background(), counted, m, 80, rng.New(seed, "seeds")))(t)
					scores[i] = counted.scores
				}
				if !slices.Equal(got[0], got[1]) {
					t.Errorf("seed %d: by codes %v, without them %v", seed, got[1], got[0])
				}
				if name == "apart" && scores[1] > scores[0]/2 {
					t.Errorf("seed %d: by codes %d scores are computed, without them %d", seed, scores[1], scores[0])
				}
			}
		})
	}
}

type counting struct {
	knn.Scorer
	scores int
}

func (c *counting) Scores(ctx context.Context, x knn.Matrix, left, right []int32, scores []float64) error {
	c.scores += len(scores)
	return c.Scorer.Scores(ctx, x, left, right, scores)
}

// TestSeedsSpread puts most rows in one place: k-means++ must still start in the other places.
func TestSeedsSpread(t *testing.T) {
	rows := make([]float32, 0, 80)
	for i := range 40 {
		place := max(0, i-30) // nine rows are each elsewhere
		rows = append(rows, float32(100*place), float32(i%7)*0.01)
	}
	seeds := must.Get(knn.Seeds(context.Background(), reference.Engine{}, knn.FloatMatrix(rows, 2), 10, rng.New(3, "seeds")))(t)
	crowd := 0
	for _, row := range seeds {
		if row <= 30 {
			crowd++
		}
	}
	if crowd != 1 {
		t.Errorf("%d of 10 starts are in the crowd, want 1: %v", crowd, seeds)
	}
}
