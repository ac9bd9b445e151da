package imaging_test

import (
	"bytes"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/imaging"
)

func TestAugmentIsAFunctionOfItsGenerator(t *testing.T) {
	picture := decode(t, read(t, "picture.png"))
	before := bytes.Clone(picture.Pix)
	o := imaging.AugmentOptions{Size: 32, MinScale: 0.3, Flip: 0.5, Color: 0.2}
	distinct := map[string]bool{}
	for key := range int64(20) {
		a := imaging.Augment(picture, o, rng.New(1, "augment", key))
		b := imaging.Augment(picture, o, rng.New(1, "augment", key))
		if a.W != 32 || a.H != 32 {
			t.Fatalf("%d x %d, want 32 x 32", a.W, a.H)
		}
		wantSame(t, a, b, 0)
		distinct[string(a.Pix)] = true
	}
	if len(distinct) != 20 {
		t.Errorf("20 generators gave %d pictures", len(distinct))
	}
	if !bytes.Equal(picture.Pix, before) {
		t.Error("the original was changed")
	}
}

func TestAugmentOfNothingIsTheResize(t *testing.T) {
	picture := decode(t, read(t, "picture.png"))
	wantSame(t, imaging.Augment(picture, imaging.AugmentOptions{Size: 24}, rng.New(1, "a")), picture.Resize(24, 24), 0)
	wantSame(t, imaging.Augment(picture, imaging.AugmentOptions{MinScale: 1}, rng.New(1, "a")), picture, 0)
}

func TestAugmentFlips(t *testing.T) {
	picture := decode(t, read(t, "picture.png"))
	got := imaging.Augment(picture, imaging.AugmentOptions{Flip: 1}, rng.New(1, "a"))
	for y := range picture.H {
		for x := range picture.W {
			r, g, b := picture.At(x, y)
			wantPixel(t, got, picture.W-1-x, y, [3]byte{r, g, b}, 0)
		}
	}
	flipped := 0
	for key := range int64(1000) {
		im := imaging.Augment(picture, imaging.AugmentOptions{Flip: 0.3}, rng.New(1, "flips", key))
		if bytes.Equal(im.Pix, got.Pix) {
			flipped++
		}
	}
	if flipped < 250 || flipped > 350 {
		t.Errorf("%d of 1000 mirrored at probability 0.3", flipped)
	}
}

// TestAugmentCropsWithinBounds reads the crop off a picture whose pixels are their own coordinates.
func TestAugmentCropsWithinBounds(t *testing.T) {
	for _, size := range [][2]int{{100, 80}, {250, 10}, {10, 250}, {1, 1}} {
		im := imaging.New(size[0], size[1])
		for y := range im.H {
			for x := range im.W {
				im.Pix[3*(y*im.W+x)], im.Pix[3*(y*im.W+x)+1] = byte(x), byte(y)
			}
		}
		smallest, largest := 1.0, 0.0
		for key := range int64(300) {
			crop := imaging.Augment(im, imaging.AugmentOptions{MinScale: 0.25}, rng.New(1, "crops", key))
			x0, y0, _ := crop.At(0, 0)
			x1, y1, _ := crop.At(crop.W-1, crop.H-1)
			if int(x1)-int(x0) != crop.W-1 || int(y1)-int(y0) != crop.H-1 {
				t.Fatalf("%v: a crop of %d x %d spans (%d, %d) to (%d, %d)", size, crop.W, crop.H, x0, y0, x1, y1)
			}
			share := float64(crop.W*crop.H) / float64(im.W*im.H)
			smallest, largest = min(smallest, share), max(largest, share)
		}
		if size == [2]int{100, 80} && (smallest < 0.24 || smallest > 0.3 || largest < 0.9) {
			t.Errorf("crops keep %.2f to %.2f of the area, want about 0.25 to 1", smallest, largest)
		}
	}
}

func TestAugmentJittersWithinItsStrength(t *testing.T) {
	im := imaging.New(8, 8)
	for i := range im.Pix {
		im.Pix[i] = 100
	}
	seen := map[byte]bool{}
	for key := range int64(200) {
		v := imaging.Augment(im, imaging.AugmentOptions{Color: 0.2}, rng.New(1, "jitter", key)).Pix[0]
		if v < 80 || v > 120 {
			t.Fatalf("grey 100 became %d, want 80..120", v)
		}
		seen[v] = true
	}
	if len(seen) < 20 {
		t.Errorf("only %d levels of brightness", len(seen))
	}
}
