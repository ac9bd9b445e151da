package knntest

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/x448/float16"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// UnitRows draws n unit rows around some centres; crowd is the weight of the centre in a row.
func UnitRows(r *rand.Rand, n, dim, centres int, crowd float64) []float32 {
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

// Halves rounds rows to float16.
func Halves(rows []float32, dim int) knn.Matrix {
	bits := make([]uint16, len(rows))
	for i, x := range rows {
		bits[i] = float16.Fromfloat32(x).Bits()
	}
	return knn.HalfMatrix(bits, dim)
}

// Group is a search for neighbours, with its name.
type Group struct {
	Name string
	V, T knn.Matrix
	P    knn.Params
}

// Groups returns difficult searches, small enough for package reference. Each comes in float16 and in float32.
func Groups() []Group {
	var out []Group
	add := func(name string, n, dim, centres int, crowd float64, p knn.Params, change func(v, t []float32, p *knn.Params)) {
		r := rng.New(1, "groups", int64(n), int64(dim))
		v, t := UnitRows(r, n, dim, centres, crowd), UnitRows(r, n, dim, centres, crowd)
		if change != nil {
			change(v, t, &p)
		}
		out = append(out,
			Group{name + "/float16", Halves(v, dim), Halves(t, dim), p},
			Group{name + "/float32", knn.FloatMatrix(v, dim), knn.FloatMatrix(t, dim), p})
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
	add("almost equal", 260, 16, 1, 0.5, usual, func(v, t []float32, _ *knn.Params) {
		for i := range v { // scores differ by less than the error of float32 products
			v[i] = math.Nextafter32(v[i%16], v[i])
			t[i] = math.Nextafter32(t[i%16], t[i])
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

// Clustering is a k-means, with its name.
type Clustering struct {
	Name string
	X    knn.Matrix
	P    knn.KMeansParams
}

// Clusterings returns difficult k-means, in float16 and in float32.
func Clusterings() []Clustering {
	var out []Clustering
	add := func(name string, n, dim, k, rounds int, change func(rows []float32)) {
		rows := UnitRows(rng.New(1, "k-means", int64(n), int64(dim)), n, dim, 12, 0.5)
		if change != nil {
			change(rows)
		}
		p := knn.KMeansParams{Init: Starts(2, n, k), Iterations: rounds}
		out = append(out, Clustering{name + "/float16", Halves(rows, dim), p}, Clustering{name + "/float32", knn.FloatMatrix(rows, dim), p})
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
	return out
}

// Starts draws k distinct rows out of n.
func Starts(seed uint64, n, k int) []int32 {
	rows := make([]int32, k)
	for i, row := range rng.New(seed, "starts").Perm(n)[:k] {
		rows[i] = int32(row)
	}
	return rows
}

// Refused returns groups that every engine refuses, by their fault.
func Refused() map[string]Group {
	rows := UnitRows(rng.New(3, "bad"), 10, 8, 1, 0)
	good, nan := knn.FloatMatrix(rows, 8), slices.Clone(rows)
	nan[42] = float32(math.NaN())
	p := knn.Params{K: 1, K1: 1, K2: 1}
	return map[string]Group{
		"rows differ":    {V: good, T: knn.FloatMatrix(rows[8:], 8), P: p},
		"widths differ":  {V: good, T: knn.FloatMatrix(rows[:40], 4), P: p},
		"no rows":        {V: knn.Matrix{Dim: 8}, T: knn.Matrix{Dim: 8}, P: p},
		"no k":           {V: good, T: good, P: knn.Params{K: 0, K1: 1, K2: 1}},
		"too few owners": {V: good, T: good, P: knn.Params{K: 1, K1: 1, K2: 1, Owner: make([]int32, 3)}},
		"not a number":   {V: knn.FloatMatrix(nan, 8), T: good, P: p},
		"both kinds":     {V: knn.Matrix{Halves: make([]uint16, 80), Floats: rows, Rows: 10, Dim: 8}, T: good, P: p},
	}
}
