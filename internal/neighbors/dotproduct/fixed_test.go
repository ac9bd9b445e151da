package dotproduct

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
)

// TestFixedProductsAreExact compares blocks and gathered products with sums of integers, and their bits with the
// thresholds.
func TestFixedProductsAreExact(t *testing.T) {
	for _, dim := range []int{1, 31, 32, 33, 256, 300} {
		f, g := NewFixed(random(13, dim, 1)), NewFixed(random(70, dim, 2))
		want := func(i, j int) (sum int32) {
			if i >= f.rows || j >= g.rows {
				return 0
			}
			for k := range f.width {
				sum += int32(f.data[i*f.width+k]) * int32(g.data[j*g.width+k])
			}
			return sum
		}
		for panel := range 2 {
			for from := 0; from < f.rows; from += BlockRows {
				t.Run(fmt.Sprintf("dim %d, rows from %d, panel %d", dim, from, panel), func(t *testing.T) {
					var rows [BlockRows]int32
					var columns [BlockColumns]int32
					for i := range rows { // some of them just reached
						rows[i] = want(from+i, BlockColumns*panel+i)
					}
					for j := range columns {
						columns[j] = want(from+j%BlockRows, BlockColumns*panel+j) + int32(j%2)
					}
					var p Products
					p.Multiply(f, from, NewPanels(g), panel, &rows, &columns)
					for i := range rows {
						for j := range columns {
							v := want(from+i, BlockColumns*panel+j)
							if p.Reach[i]>>j&1 == 1 != (v >= rows[i] || v >= columns[j]) || p.Values[i][j] != v {
								t.Fatalf("row %d, column %d: %d, want %d, of rows from %d and columns from %d; bits %x", i, j, p.Values[i][j], v, rows[i], columns[j], p.Reach[i])
							}
						}
					}
				})
			}
		}
		indices := []int32{69, 0, 7, 7, 3, 18, 1, 2, 5, 11, 13}
		got := make([]int32, len(indices))
		GatherFixed(got, f, 12, g, indices)
		for k, j := range indices {
			if got[k] != want(12, int(j)) {
				t.Errorf("dim %d: gathered product %d is %d, want %d", dim, k, got[k], want(12, int(j)))
			}
		}
	}
}

// TestFixedProductsAreNear holds integer products against those of float32, for rows of ordinary, great and tiny
// values.
func TestFixedProductsAreNear(t *testing.T) {
	for _, size := range []float32{1, 1e-3, 1e12, 1e-21} {
		a, b := NewMatrix(20, 100), NewMatrix(20, 100)
		r := rng.New(1, "fixed test")
		for i := range 20 {
			for k := range 100 {
				a.Row(i)[k], b.Row(i)[k] = float32(r.NormFloat64())*size, float32(r.NormFloat64())*size
			}
		}
		f, g := NewFixed(a), NewFixed(b)
		bound := f.Bound(g)
		if size >= 1e-3 && bound > 1<<21 {
			t.Errorf("size %g: products are within %d, want a bound that tells something", size, bound)
		}
		all := make([]int32, 20)
		for i := range all {
			all[i] = int32(i)
		}
		products, scores := make([]int32, 20), make([]float32, 20)
		for i := range 20 {
			GatherFixed(products, f, i, g, all)
			Gather(scores, a.Row(i), b, all)
			for j := range all {
				if e := math.Abs(float64(products[j]) - float64(scores[j])*f.scale*g.scale); e > float64(bound) {
					t.Errorf("size %g: product %d x %d is off by %g, the bound is %d", size, i, j, e, bound)
				}
			}
		}
	}
	if f := NewFixed(NewMatrix(3, 8)); f.Bound(f) < 0 || slices.Max(f.data) != 0 {
		t.Error("rows of zeros are not zeros")
	}
}

func BenchmarkMultiply(b *testing.B) {
	x, y := NewFixed(random(384, 256, 1)), NewFixed(random(384, 256, 2))
	panels := NewPanels(y)
	var rows [BlockRows]int32
	var columns [BlockColumns]int32
	for i := range rows {
		rows[i] = math.MaxInt32
	}
	for i := range columns {
		columns[i] = math.MaxInt32
	}
	var p Products
	for b.Loop() {
		for panel := range 6 {
			for i := 0; i < 384; i += BlockRows {
				p.Multiply(x, i, panels, panel, &rows, &columns)
			}
		}
	}
	b.ReportMetric(384*384*256/(b.Elapsed().Seconds()/float64(b.N))/1e9, "Gproducts/s")
}
