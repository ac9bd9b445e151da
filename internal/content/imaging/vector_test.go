package imaging

import (
	"bytes"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
)

// without runs f without some of the vector code.
func without(vector, wide bool, f func()) {
	before, beforeWide := hasVector, hasWide
	hasVector, hasWide = hasVector && vector, hasWide && wide
	clear(kernels.made) // they are made for the processor
	defer func() {
		hasVector, hasWide = before, beforeWide
		clear(kernels.made)
	}()
	f()
}

func noise(w, h int) *Image {
	r := rng.New(1, "noise", int64(w), int64(h))
	im := New(w, h)
	for i := range im.Pix {
		im.Pix[i] = byte(r.IntN(256))
		if r.IntN(3) == 0 { // what overshoots the filter, and saturates
			im.Pix[i] = byte(255 * r.IntN(2))
		}
	}
	return im
}

func TestResizingHasTheSameBytesWithoutVectors(t *testing.T) {
	if !hasVector {
		t.Skip("this processor runs no vector code")
	}
	for _, size := range [][2]int{{1, 1}, {2, 3}, {7, 5}, {11, 40}, {33, 17}, {64, 64}, {101, 57}, {500, 375}} {
		im := noise(size[0], size[1])
		for _, to := range [][2]int{{1, 1}, {3, 2}, {10, 11}, {11, 12}, {32, 32}, {64, 48}, {224, 224}} {
			var want *Image
			without(false, false, func() { want = im.Resize(to[0], to[1]) })
			for _, wide := range []bool{false, true} {
				without(true, wide, func() {
					if got := im.Resize(to[0], to[1]); !bytes.Equal(got.Pix, want.Pix) {
						t.Errorf("%v to %v, wide %v: other bytes", size, to, wide)
					}
				})
			}
		}
	}
}

func TestPartsHaveTheSameBytesWithoutVectors(t *testing.T) {
	im := noise(211, 97)
	for _, part := range [][4]int{{0, 0, 211, 97}, {5, 3, 206, 94}, {64, 32, 20, 16}, {200, 80, 11, 17}, {210, 96, 1, 1}} {
		for _, win := range []window{{64, 64, 0, 0, 64, 64}, {90, 64, 13, 0, 64, 64}, {43, 80, 0, 18, 43, 43}, {300, 200, 277, 188, 21, 11}} {
			v := im.view(part[0], part[1], part[2], part[3])
			var want *Image
			without(false, false, func() { want = resample(v, win) })
			if got := resample(v, win); !bytes.Equal(got.Pix, want.Pix) {
				t.Errorf("%+v of %v: other bytes", win, part)
			}
		}
	}
}

func TestInputsHaveTheSameValuesWithoutVectors(t *testing.T) {
	if !hasWide {
		t.Skip("this processor runs no wide vector code")
	}
	for _, size := range []int{1, 7, 8, 11, 64, 100} {
		im := noise(size, size)
		for _, p := range []Preprocess{{Size: size}, {Size: size, Mean: [3]float32{0, 0.5, 1}, Std: [3]float32{1, 0.001, 1000}}} {
			got, want := make([]float32, p.Values()), make([]float32, p.Values())
			gotBytes, wantBytes := make([]byte, p.Values()), make([]byte, p.Values())
			p.Into(got, im)
			p.Bytes(gotBytes, im)
			without(true, false, func() {
				p.Into(want, im)
				p.Bytes(wantBytes, im)
			})
			if !slices.Equal(got, want) {
				t.Errorf("%+v: other values", p)
			}
			if !bytes.Equal(gotBytes, wantBytes) {
				t.Errorf("%+v: other bytes", p)
			}
		}
	}
}
