package cpu_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestScanCodesFindsWhatTheReferenceFinds compares scans of few queries and of many, by every instruction set.
func TestScanCodesFindsWhatTheReferenceFinds(t *testing.T) {
	defer func() { must.Check(t, cpu.UseInstructions("")) }()
	r := rng.New(4, "codes")
	for _, size := range []struct{ rows, dim, queries int }{{1, 1, 1}, {7, 5, 3}, {50, 33, 5}, {50, 33, 6}, {13, 64, 64}, {127, 256, 131}, {128, 255, 131}, {131, 33, 6}, {3, 4096, 9}} {
		c := knn.Codes{Dim: size.dim, Values: make([]int8, size.rows*size.dim), Scales: make([]float32, size.rows)}
		row := make([]float32, size.dim)
		draw := func() []float32 {
			for j := range row {
				row[j] = float32(r.NormFloat64())
			}
			return row
		}
		for i := range size.rows {
			c.Scales[i] = knn.EncodeRow(draw(), c.Values[i*size.dim:(i+1)*size.dim])
		}
		queries, least := make([]int16, size.queries*size.dim), make([]float32, size.queries)
		for q := range least {
			knn.EncodeQuery(draw(), queries[q*size.dim:(q+1)*size.dim])
			least[q] = float32(1000 * r.NormFloat64())
		}
		// One bound is met exactly, one by all rows, and one by none.
		all, err := reference.Engine{}.ScanCodes(c, queries, slices.Repeat([]float32{float32(math.Inf(-1))}, size.queries), nil)
		if err != nil || len(all) != size.rows*size.queries {
			t.Fatal(len(all), err)
		}
		least[0] = all[0].Score
		least[size.queries-1] = float32(math.Inf(-1))
		least[size.queries/2] = float32(math.Inf(1))
		want := must.Get(reference.Engine{}.ScanCodes(c, queries, least, nil))(t)
		for _, name := range []string{"portable", "avx2", "avx512"} {
			if cpu.UseInstructions(name) != nil {
				continue
			}
			got := must.Get(cpu.Engine{}.ScanCodes(c, queries, least, nil))(t)
			if !slices.Equal(sorted(got), sorted(want)) {
				t.Errorf("%s, %+v: %d hits, want %d", name, size, len(got), len(want))
			}
		}
	}
}

func sorted(hits []knn.CodeHit) []knn.CodeHit {
	slices.SortFunc(hits, func(a, b knn.CodeHit) int { return cmp.Or(cmp.Compare(a.Query, b.Query), cmp.Compare(a.Row, b.Row)) })
	return hits
}

// TestCodesAreCloseToTheirVectors bounds what 8 bits cost: scores of unit vectors are off by less than a hundredth.
func TestCodesAreCloseToTheirVectors(t *testing.T) {
	r := rng.New(5, "codes")
	for _, dim := range []int{16, 256, 1024} {
		a, b := unit(r.NormFloat64, dim), unit(r.NormFloat64, dim)
		for j := range b {
			b[j] = (a[j] + b[j]) / float32(math.Sqrt2)
		}
		c := knn.Codes{Dim: dim, Values: make([]int8, dim), Scales: make([]float32, 1)}
		c.Scales[0] = knn.EncodeRow(a, c.Values)
		query := make([]int16, dim)
		scale := knn.EncodeQuery(b, query)
		hits, err := cpu.Engine{}.ScanCodes(c, query, []float32{float32(math.Inf(-1))}, nil)
		if err != nil || len(hits) != 1 {
			t.Fatal(hits, err)
		}
		if got, want := float64(hits[0].Score*scale), knn.Score(a, b); math.Abs(got-want) > 0.01 {
			t.Errorf("%d dimensions: score %g, want %g", dim, got, want)
		}
	}
}

func unit(draw func() float64, dim int) []float32 {
	row, norm := make([]float32, dim), 0.0
	for j := range row {
		row[j] = float32(draw())
		norm += float64(row[j]) * float64(row[j])
	}
	for j := range row {
		row[j] /= float32(math.Sqrt(norm))
	}
	return row
}

func TestScanCodesRefusesOtherSizes(t *testing.T) {
	c := knn.Codes{Dim: 2, Values: make([]int8, 4), Scales: make([]float32, 2)}
	for name, scan := range map[string]func() error{
		"a query that is too long": func() error {
			_, err := cpu.Engine{}.ScanCodes(c, make([]int16, 3), make([]float32, 1), nil)
			return err
		},
		"a row that is missing": func() error {
			_, err := cpu.Engine{}.ScanCodes(knn.Codes{Dim: 2, Values: make([]int8, 2), Scales: make([]float32, 2)}, make([]int16, 2), make([]float32, 1), nil)
			return err
		},
	} {
		if err := scan(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if hits, err := (cpu.Engine{}).ScanCodes(knn.Codes{Dim: 2}, make([]int16, 2), make([]float32, 1), nil); err != nil || len(hits) != 0 {
		t.Error("no rows:", hits, err)
	}
}

func BenchmarkScanCodes(b *testing.B) {
	const rows, dim = 16384, 256
	c := knn.Codes{Dim: dim, Values: make([]int8, rows*dim), Scales: make([]float32, rows)}
	for _, m := range []int{1, 64} {
		queries, least := make([]int16, m*dim), slices.Repeat([]float32{1}, m)
		var hits []knn.CodeHit
		b.Run(fmt.Sprint(m, " queries"), func(b *testing.B) {
			b.SetBytes(rows * dim * int64(m))
			for b.Loop() {
				var err error
				if hits, err = (cpu.Engine{}).ScanCodes(c, queries, least, hits); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
