package schemas

import (
	"math"
	"testing"

	"github.com/x448/float16"
)

// TestFloat32Of compares every float16 there is with the library's result.
func TestFloat32Of(t *testing.T) {
	for bits := range 1 << 16 {
		got, want := float32Of(uint16(bits)), float16.Frombits(uint16(bits)).Float32()
		if math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("float16 %#04x is %g, want %g", bits, got, want)
		}
	}
}

func TestNewFloat16s(t *testing.T) {
	tests := []struct {
		name string
		in   float32
		want uint16
	}{
		{"zero", 0, 0x0000},
		{"minus zero", float32(math.Copysign(0, -1)), 0x8000},
		{"one", 1, 0x3c00},
		{"tie goes to even, down", 1 + 0x1p-11, 0x3c00},
		{"tie goes to even, up", 1 + 3*0x1p-11, 0x3c02},
		{"above the tie", 1 + 0x1p-11 + 0x1p-20, 0x3c01},
		{"smallest subnormal", 0x1p-24, 0x0001},
		{"tie with zero", 0x1p-25, 0x0000},
		{"largest", 65504, 0x7bff},
		{"too large", 65520, 0x7c00},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := NewFloat16s([]float32{0, tt.in})
			if got := uint16(f[2]) | uint16(f[3])<<8; got != tt.want || f.Len() != 2 {
				t.Errorf("%g gives %#04x, want %#04x", tt.in, got, tt.want)
			}
		})
	}
}

// TestRoundedVectorsAreWithinTolerance rounds unit vectors of several widths. Each stays a unit vector within the
// tolerance, and so does a dot product.
func TestRoundedVectorsAreWithinTolerance(t *testing.T) {
	for _, dim := range []int{1, 2, 3, 64, 511, 4096} {
		exact, other := make([]float64, dim), make([]float64, dim)
		var n1, n2, dot float64
		for i := range dim {
			exact[i], other[i] = math.Sin(float64(i)+0.3), math.Cos(1.7*float64(i))
			n1, n2 = n1+exact[i]*exact[i], n2+other[i]*other[i]
		}
		v, u := make([]float32, dim), make([]float32, dim)
		for i := range dim {
			v[i], u[i] = float32(exact[i]/math.Sqrt(n1)), float32(other[i]/math.Sqrt(n2))
			dot += exact[i] / math.Sqrt(n1) * other[i] / math.Sqrt(n2)
		}
		f, g := NewFloat16s(v), NewFloat16s(u)
		if err := f.checkUnitRows("v", 1, dim); err != nil {
			t.Errorf("dim %d: %v", dim, err)
		}
		if d := math.Abs(f.dot(g) - dot); d > similarityTolerance {
			t.Errorf("dim %d: dot product off by %g", dim, d)
		}
	}
}
