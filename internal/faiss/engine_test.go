package faiss_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/x448/float16"

	"github.com/pairstream/pairstream/internal/faiss"
	"github.com/pairstream/pairstream/internal/knn"
	"github.com/pairstream/pairstream/internal/rng"
)

// eachInstructionSet runs a test with every instruction set of this processor.
func eachInstructionSet(t *testing.T, run func(t *testing.T)) {
	t.Cleanup(func() {
		if err := faiss.UseInstructions(""); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"portable", "avx2", "avx512"} {
		t.Run(name, func(t *testing.T) {
			if err := faiss.UseInstructions(name); err != nil {
				t.Skip(err)
			}
			run(t)
		})
	}
}

// unitRows draws n unit rows around some centres; crowd is the share of a row that is its centre's.
func unitRows(r *rand.Rand, n, dim, centres int, crowd float64) []float32 {
	centre := make([]float64, centres*dim)
	for i := range centre {
		centre[i] = r.NormFloat64()
	}
	rows := make([]float32, 0, n*dim)
	for range n {
		c := r.IntN(centres) * dim
		row, norm := make([]float64, dim), 0.0
		for j := range row {
			row[j] = crowd*centre[c+j] + (1-crowd)*r.NormFloat64()
			norm += row[j] * row[j]
		}
		for _, x := range row {
			rows = append(rows, float32(x/math.Sqrt(norm)))
		}
	}
	return rows
}

func halves(rows []float32, dim int) knn.Matrix {
	bits := make([]uint16, len(rows))
	for i, x := range rows {
		bits[i] = float16.Fromfloat32(x).Bits()
	}
	return knn.HalfMatrix(bits, dim)
}

// group is a problem with its name.
type group struct {
	name string
	v, t knn.Matrix
	p    knn.Params
}

func groups() []group {
	make2 := func(n, dim, centres int, crowd float64) (v, t []float32) {
		r := rng.New(1, "groups", int64(n), int64(dim))
		return unitRows(r, n, dim, centres, crowd), unitRows(r, n, dim, centres, crowd)
	}
	var out []group
	add := func(name string, n, dim, centres int, crowd float64, p knn.Params, change func(v, t []float32, p *knn.Params)) {
		v, t := make2(n, dim, centres, crowd)
		if change != nil {
			change(v, t, &p)
		}
		out = append(out,
			group{name + "/float16", halves(v, dim), halves(t, dim), p},
			group{name + "/float32", knn.FloatMatrix(v, dim), knn.FloatMatrix(t, dim), p})
	}
	usual := knn.Params{K: 10, K1: 5, K2: 50}
	add("one", 1, 8, 1, 0, usual, nil)
	add("two", 2, 8, 1, 0, usual, nil)
	add("smaller than every k", 7, 16, 2, 0.3, usual, nil)
	add("odd width", 200, 33, 5, 0.4, usual, nil)
	add("width below a lane", 150, 3, 5, 0.4, usual, nil)
	add("not a multiple of anything", 301, 77, 9, 0.5, usual, nil)
	add("crowded", 400, 48, 4, 0.9, usual, nil)
	add("k1 above k", 200, 24, 4, 0.5, knn.Params{K: 3, K1: 40, K2: 7}, nil)
	add("k2 of one", 200, 24, 4, 0.5, knn.Params{K: 1, K1: 1, K2: 1}, nil)
	add("equal rows", 300, 16, 3, 0.5, usual, func(v, t []float32, _ *knn.Params) {
		for i := 16; i < 200*16; i++ { // ties by the hundred, for images and texts
			v[i], t[i] = v[i%16], t[i%16]
		}
	})
	add("all equal", 260, 16, 1, 0.5, usual, func(v, t []float32, _ *knn.Params) {
		for i := range v {
			v[i], t[i] = v[i%16], v[i%16]
		}
	})
	add("images of five captions", 300, 32, 6, 0.5, usual, func(v, _ []float32, p *knn.Params) {
		p.Owner = make([]int32, 300)
		for i := range 300 {
			p.Owner[i] = int32(i % 60)
			copy(v[i*32:(i+1)*32], v[i%60*32:(i%60+1)*32])
		}
	})
	add("one image", 50, 32, 6, 0.5, usual, func(_, _ []float32, p *knn.Params) { p.Owner = make([]int32, 50) })
	return out
}

func TestNeighborsAreTheReferences(t *testing.T) {
	all := groups()
	want := make([]knn.Result, len(all))
	for i, g := range all {
		var err error
		if want[i], err = (knn.Reference{}).Neighbors(context.Background(), g.v, g.t, g.p); err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
	}
	eachInstructionSet(t, func(t *testing.T) {
		for i, g := range all {
			for _, threads := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s/%d threads", g.name, threads), func(t *testing.T) {
					before := faiss.Live()
					g.p.Threads = threads
					got, err := (faiss.Engine{}).Neighbors(context.Background(), g.v, g.t, g.p)
					if err != nil {
						t.Fatal(err)
					}
					same(t, "v2t", got.V2T, want[i].V2T, g.p.K)
					same(t, "v2v", got.V2V, want[i].V2V, g.p.K1)
					same(t, "se", got.SE, want[i].SE, g.p.K1)
					if after := faiss.Live(); after != before {
						t.Errorf("%d handles live after, %d before", after, before)
					}
				})
			}
		}
	})
}

func same(t *testing.T, what string, got, want []int32, width int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			row := i / width
			t.Fatalf("%s of %d: got %v, want %v", what, row, got[row*width:(row+1)*width], want[row*width:(row+1)*width])
		}
	}
}

// TestNeighborsAcrossBlocks has several blocks, so that tiles off the diagonal, locks and both sides of V V^T are at
// work; the reference would take minutes, so the oracle is one thread with plain instructions.
func TestNeighborsAcrossBlocks(t *testing.T) {
	const n, dim = 4500, 20
	r := rng.New(2, "blocks")
	v, texts := unitRows(r, n, dim, 40, 0.6), unitRows(r, n, dim, 40, 0.6)
	for i := 2000 * dim; i < 2300*dim; i++ { // equal rows on both sides of a block's edge
		v[i] = v[2000*dim+i%dim]
	}
	g := group{"", halves(v, dim), halves(texts, dim), knn.Params{K: 10, K1: 5, K2: 300}}
	rows := sampleRows(n)
	want := oracleRows(t, g, rows)
	eachInstructionSet(t, func(t *testing.T) {
		for _, threads := range []int{1, 4} {
			g.p.Threads = threads
			got, err := (faiss.Engine{}).Neighbors(context.Background(), g.v, g.t, g.p)
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range rows {
				same(t, fmt.Sprintf("v2t of %d", row), got.V2T[row*10:(row+1)*10], want.V2T[i*10:(i+1)*10], 10)
				same(t, fmt.Sprintf("v2v of %d", row), got.V2V[row*5:(row+1)*5], want.V2V[i*5:(i+1)*5], 5)
				same(t, fmt.Sprintf("se of %d", row), got.SE[row*5:(row+1)*5], want.SE[i*5:(i+1)*5], 5)
			}
		}
	})
}

// sampleRows are rows at the edges of blocks and some in between.
func sampleRows(n int) []int {
	rows := []int{0, 1, 2047, 2048, 2049, 4095, 4096, n - 1}
	for i := 13; i < n; i += 97 {
		rows = append(rows, i)
	}
	return rows
}

// oracleRows computes the neighbours of some rows by sorting all scores.
func oracleRows(t *testing.T, g group, rows []int) knn.Result {
	t.Helper()
	images, texts := make([][]float32, g.v.Rows), make([][]float32, g.v.Rows)
	for i := range images {
		images[i], texts[i] = g.v.Row(i, nil), g.t.Row(i, nil)
	}
	best := func(score func(j int) float64, skip int) []int32 {
		order, scores := []int32{}, make([]float64, len(images))
		for j := range images {
			if j != skip {
				scores[j] = score(j)
				order = append(order, int32(j))
			}
		}
		slices.SortStableFunc(order, func(a, b int32) int {
			switch {
			case scores[a] > scores[b]:
				return -1
			case scores[a] < scores[b]:
				return 1
			}
			return 0
		})
		return order
	}
	var out knn.Result
	for _, i := range rows {
		v2v := best(func(j int) float64 { return knn.Score(images[i], images[j]) }, i)[:g.p.K1]
		t2v := best(func(j int) float64 { return knn.Score(texts[i], images[j]) }, -1)[:g.p.K2]
		out.V2T = append(out.V2T, best(func(j int) float64 { return knn.Score(images[i], texts[j]) }, -1)[:g.p.K]...)
		out.V2V = append(out.V2V, v2v...)
		found := 0
		for _, j := range v2v {
			if slices.Contains(t2v, j) {
				out.SE = append(out.SE, j)
				found++
			}
		}
		for ; found < g.p.K1; found++ {
			out.SE = append(out.SE, -1)
		}
	}
	return out
}

func TestNeighborsRefusesBadInput(t *testing.T) {
	rows := unitRows(rng.New(3, "bad"), 10, 8, 1, 0)
	good := knn.FloatMatrix(rows, 8)
	nan := slices.Clone(rows)
	nan[42] = float32(math.NaN())
	p := knn.Params{K: 1, K1: 1, K2: 1}
	for name, g := range map[string]group{
		"rows differ":    {"", good, knn.FloatMatrix(rows[8:], 8), p},
		"widths differ":  {"", good, knn.FloatMatrix(rows[:40], 4), p},
		"no rows":        {"", knn.Matrix{Dim: 8}, knn.Matrix{Dim: 8}, p},
		"no k":           {"", good, good, knn.Params{K: 0, K1: 1, K2: 1}},
		"too few owners": {"", good, good, knn.Params{K: 1, K1: 1, K2: 1, Owner: make([]int32, 3)}},
		"not a number":   {"", knn.FloatMatrix(nan, 8), good, p},
		"both kinds":     {"", knn.Matrix{Halves: make([]uint16, 80), Floats: rows, Rows: 10, Dim: 8}, good, p},
	} {
		before := faiss.Live()
		if _, err := (faiss.Engine{}).Neighbors(context.Background(), g.v, g.t, g.p); err == nil {
			t.Errorf("%s: no error", name)
		}
		if after := faiss.Live(); after != before {
			t.Errorf("%s: %d handles live after, %d before", name, after, before)
		}
	}
}

func TestNeighborsStopWhenAsked(t *testing.T) {
	rows := halves(unitRows(rng.New(4, "stop"), 100, 8, 1, 0), 8)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := (faiss.Engine{}).Neighbors(ctx, rows, rows, knn.Params{K: 1, K1: 1, K2: 1})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want that the context was canceled", err)
	}
}
