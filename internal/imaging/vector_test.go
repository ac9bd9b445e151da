package imaging

import (
	"bytes"
	"testing"

	"github.com/pairstream/pairstream/internal/rng"
)

// without runs f without some of the vector code.
func without(vector, wide bool, f func()) {
	before, beforeWide := hasVector, hasWide
	hasVector, hasWide = hasVector && vector, hasWide && wide
	defer func() { hasVector, hasWide = before, beforeWide }()
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
