package dotproduct

import (
	"fmt"
	"math"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
)

func random(rows, dim int, key int64) *Matrix {
	m := NewMatrix(rows, dim)
	r := rng.New(1, "dot test", key)
	for i := range rows {
		for k := range m.Row(i) {
			m.Row(i)[k] = float32(r.NormFloat64()) * float32(math.Exp2(float64(r.IntN(20)-10)))
		}
	}
	return m
}

// TestOrderOfSummation holds the portable code against the order that the package documents, written out anew.
func TestOrderOfSummation(t *testing.T) {
	for _, dim := range []int{0, 1, 7, 8, 9, 31, 256, 300} {
		m := random(2, dim, int64(dim))
		a, b := m.Row(0), m.Row(1)
		var l [8]float32
		for k := range a {
			product := a[k] * b[k]
			l[k%8] += product
		}
		want := ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
		if got := dotPortable(m.padded(0), m.padded(1)); math.Float32bits(got) != math.Float32bits(want) {
			t.Errorf("dim %d: got %x, want %x", dim, got, want)
		}
	}
}

// TestBlocksHaveTheBitsOfTheDefinition covers every remainder of rows that the 4 x 2 blocks leave over.
func TestBlocksHaveTheBitsOfTheDefinition(t *testing.T) {
	for _, dim := range []int{0, 1, 8, 33, 256} {
		a, b := random(14, dim, 1), random(14, dim, 2)
		for na := range 10 {
			for nb := range 11 {
				t.Run(fmt.Sprintf("dim %d, %dx%d", dim, na, nb), func(t *testing.T) {
					dst := make([]float32, na*nb+1)
					dst[na*nb] = 42
					Block(dst, a, 2, na, b, 3, nb)
					for i := range na {
						for j := range nb {
							want := dotPortable(a.padded(2+i), b.padded(3+j))
							if got := dst[i*nb+j]; math.Float32bits(got) != math.Float32bits(want) {
								t.Errorf("%d . %d: got %x, want %x", i, j, got, want)
							}
						}
					}
					if dst[na*nb] != 42 {
						t.Error("wrote behind the block")
					}
				})
			}
		}
	}
}

func TestGatherHasTheBitsOfTheDefinition(t *testing.T) {
	for _, dim := range []int{0, 1, 8, 33, 256} {
		m, row := random(20, dim, 1), random(1, dim, 2)
		for n := range 12 {
			indices := []int32{19, 0, 7, 7, 3, 18, 1, 2, 5, 11, 13, 4}[:n]
			dst := make([]float32, n)
			Gather(dst, row.Row(0), m, indices)
			for i, at := range indices {
				if want := dotPortable(row.padded(0), m.padded(int(at))); math.Float32bits(dst[i]) != math.Float32bits(want) {
					t.Errorf("dim %d, %d of %d: got %x, want %x", dim, i, n, dst[i], want)
				}
			}
		}
	}
}

func TestProductsDoNotDependOnSides(t *testing.T) {
	a, b := random(8, 70, 1), random(6, 70, 2)
	ab, ba := make([]float32, 48), make([]float32, 48)
	Block(ab, a, 0, 8, b, 0, 6)
	Block(ba, b, 0, 6, a, 0, 8)
	for i := range 8 {
		for j := range 6 {
			if math.Float32bits(ab[i*6+j]) != math.Float32bits(ba[j*8+i]) {
				t.Errorf("%d . %d: %x one way, %x the other", i, j, ab[i*6+j], ba[j*8+i])
			}
		}
	}
}

func TestMisuseIsABug(t *testing.T) {
	m, wide := NewMatrix(4, 8), NewMatrix(4, 16)
	for name, misuse := range map[string]func(){
		"widths": func() { Block(make([]float32, 16), m, 0, 4, wide, 0, 4) },
		"rows":   func() { Block(make([]float32, 16), m, 1, 4, m, 0, 4) },
		"room":   func() { Block(make([]float32, 15), m, 0, 4, m, 0, 4) },
		"gather": func() { Gather(make([]float32, 1), make([]float32, 7), m, []int32{0}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse()
		})
	}
}

func BenchmarkBlock(b *testing.B) {
	x, y := random(256, 256, 1), random(256, 256, 2)
	dst := make([]float32, 256*256)
	for b.Loop() {
		Block(dst, x, 0, 256, y, 0, 256)
	}
	b.ReportMetric(2*256*256*256/(b.Elapsed().Seconds()/float64(b.N))/1e9, "GFLOP/s")
}

func BenchmarkPortable(b *testing.B) {
	x, y := random(64, 256, 1), random(64, 256, 2)
	dst := make([]float32, 64*64)
	for b.Loop() {
		blockPortable(dst, x, 0, 0, 64, y, 0, 0, 64, 64)
	}
	b.ReportMetric(2*64*64*256/(b.Elapsed().Seconds()/float64(b.N))/1e9, "GFLOP/s")
}
