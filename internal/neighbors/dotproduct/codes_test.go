package dotproduct

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
)

// reaching lists the rows left whose products with an anchor are at least least, with their products.
func reaching(c, anchors *Codes, anchor, least int32) map[int32]int32 {
	found := map[int32]int32{}
	var p CodeProducts
	for next := 0; ; next = p.Next {
		c.Look(&p, anchors, anchor, next, least)
		if p.Reach == 0 {
			return found
		}
		for reach := p.Reach; reach != 0; reach &= reach - 1 {
			at := bits.TrailingZeros64(reach)
			found[p.Rows[at]] = p.Values[at]
		}
	}
}

// TestLookFindsWhatReaches compares what Look finds with sums of integers, while rows are taken out until none is left.
func TestLookFindsWhatReaches(t *testing.T) {
	for _, way := range ways() {
		for _, dim := range []int{1, 15, 16, 17, 256, 300} {
			for _, rows := range []int{1, 64, 65, 200} {
				t.Run(fmt.Sprintf("%d x %d, %s", rows, dim, way.name), func(t *testing.T) {
					way.use(t)
					c, anchors := NewCodes(random(rows, dim, 1)), NewCodes(random(7, dim, 2))
					code := func(of *Codes, row, k int) int32 { return int32(of.plain[row*4*of.quads+k]) - 128 }
					r := rng.New(1, "look test")
					left, shifts := r.Perm(rows), map[int32]int32{}
					for ; len(left) > 0; left = left[min(len(left), 1+rows/9):] {
						anchor := r.IntN(7)
						shifted := int32(left[0])
						by := int32(r.IntN(20_000) - 10_000)
						c.Shift(shifted, by)
						shifts[shifted] = by
						want, all := map[int32]int32{}, []int32{}
						for _, row := range left {
							sum := shifts[int32(row)]
							for k := range dim {
								sum += code(c, row, k) * code(anchors, anchor, k)
							}
							want[int32(row)] = sum
							all = append(all, sum)
						}
						least := all[r.IntN(len(all))]
						for row, sum := range want {
							if sum < least {
								delete(want, row)
							}
						}
						got := reaching(c, anchors, int32(anchor), least)
						if fmt.Sprint(got) != fmt.Sprint(want) {
							t.Fatalf("%d left, at least %d: got %v, want %v", len(left), least, got, want)
						}
						for _, row := range left[:min(len(left), 1+rows/9)] {
							c.Remove(int32(row))
						}
					}
					if got := reaching(c, anchors, 0, math.MinInt32); len(got) != 0 {
						t.Errorf("with every row taken out: %v", got)
					}
				})
			}
		}
	}
}

// TestLookAddsTheLargestCodes multiplies rows of the largest codes, of both signs, whose sums leave 16 bits.
func TestLookAddsTheLargestCodes(t *testing.T) {
	const rows, dim = 70, 64
	m := NewMatrix(rows, dim)
	for i := range rows {
		for k := range dim {
			m.Row(i)[k] = []float32{1, -1, 1, -1, 0}[(i*k+i)%5]
		}
		if i < 2 {
			for k := range dim {
				m.Row(i)[k] = float32(1 - 2*i)
			}
		}
	}
	for _, way := range ways() {
		t.Run(way.name, func(t *testing.T) {
			way.use(t)
			c := NewCodes(m)
			for anchor := range int32(rows) {
				found := reaching(c, c, anchor, math.MinInt32)
				for row := range int32(rows) {
					want := int32(0)
					for k := range dim {
						want += int32(m.Row(int(anchor))[k]*mostCode) * int32(m.Row(int(row))[k]*mostCode)
					}
					if found[row] != want {
						t.Fatalf("rows %d and %d: %d, want %d", anchor, row, found[row], want)
					}
				}
			}
		})
	}
}

// TestCodesAreNear holds products of codes against those of float32, for rows of ordinary, great and tiny values.
func TestCodesAreNear(t *testing.T) {
	for _, size := range []float32{1, 1e-3, 1e12, 1e-21, 1e-44} {
		a, b := NewMatrix(20, 100), NewMatrix(20, 100)
		r := rng.New(1, "codes test")
		for i := range 20 {
			for k := range 100 {
				a.Row(i)[k], b.Row(i)[k] = float32(r.NormFloat64())*size, float32(r.NormFloat64())*size
			}
		}
		c, d := NewCodes(a), NewCodes(b)
		bound, narrow := c.Bound(d)
		if size >= 1e-3 && !narrow {
			t.Errorf("size %g: products are within %d, want a bound that tells something", size, bound)
		}
		scores, all := make([]float32, 20), make([]int32, 20)
		for i := range all {
			all[i] = int32(i)
		}
		for i := range 20 {
			Gather(scores, a.Row(i), b, all)
			for j, product := range reaching(d, c, int32(i), math.MinInt32) {
				if e := math.Abs(float64(product) - float64(scores[j])*c.scale*d.scale); e > float64(bound) {
					t.Errorf("size %g: product %d x %d is off by %g, the bound is %d", size, i, j, e, bound)
				}
			}
		}
	}
	// One value far above all others takes the bits that would tell the others apart.
	m := random(20, 100, 1)
	m.Row(3)[5] = 1e9
	if bound, narrow := NewCodes(m).Bound(NewCodes(m)); narrow {
		t.Errorf("a value of 1e9: products are said to be within %d", bound)
	}
	// Sums of longer rows could come near what stands for an empty place.
	for dim, want := range map[int]bool{mostDim: true, mostDim + 1: false} {
		m := NewMatrix(2, dim)
		for k := range dim {
			m.Row(0)[k], m.Row(1)[k] = 1, -1
		}
		c := NewCodes(m)
		if bound, narrow := c.Bound(c); narrow != want {
			t.Errorf("rows of %d values: narrow is %v, within %d", dim, narrow, bound)
		}
		if found := reaching(c, c, 0, math.MinInt32); want && (len(found) != 2 || found[1] != -found[0]) {
			t.Errorf("rows of %d values: products %v", dim, found)
		}
	}
	if c := NewCodes(NewMatrix(3, 8)); slices.Max(c.plain) != 128 || slices.Min(c.plain) != 128 {
		t.Error("rows of zeros are not zeros")
	}
}

func BenchmarkLook(b *testing.B) {
	for _, way := range ways() {
		b.Run(way.name, func(b *testing.B) {
			way.use(b)
			x, y := NewCodes(random(4_800, 256, 1)), NewCodes(random(4_800, 256, 2))
			var p CodeProducts
			b.SetBytes(2 * 4_800 * 256)
			for k := int32(0); b.Loop(); k++ {
				x.Look(&p, y, k%4_800, 0, math.MaxInt32)
				y.Look(&p, x, k%4_800, 0, math.MaxInt32)
			}
		})
	}
}
