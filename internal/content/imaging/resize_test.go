package imaging_test

import (
	"math"
	"testing"

	"github.com/pairstream/pairstream/internal/content/imaging"
)

// wantSame compares two pictures byte by byte.
func wantSame(t *testing.T, got, want *imaging.Image, tol int) {
	t.Helper()
	if got.W != want.W || got.H != want.H {
		t.Fatalf("%d x %d, want %d x %d", got.W, got.H, want.W, want.H)
	}
	worst := 0
	for i := range got.Pix {
		d := int(got.Pix[i]) - int(want.Pix[i])
		worst = max(worst, d, -d)
	}
	if worst > tol {
		t.Errorf("largest difference is %d, want at most %d", worst, tol)
	}
}

// TestResizeMatchesPIL compares with files that PIL 13.0's Image.resize(size, BICUBIC) wrote.
func TestResizeMatchesPIL(t *testing.T) {
	picture := decode(t, read(t, "picture.png"))
	for _, c := range []struct {
		file string
		w, h int
	}{{"picture_down.png", 16, 16}, {"picture_up.png", 100, 90}, {"picture_mixed.png", 24, 47}} {
		t.Run(c.file, func(t *testing.T) {
			wantSame(t, picture.Resize(c.w, c.h), decode(t, read(t, c.file)), 0)
		})
	}
}

func TestResizeToTheSameSizeCopies(t *testing.T) {
	picture := decode(t, read(t, "picture.png"))
	got := picture.Resize(picture.W, picture.H)
	wantSame(t, got, picture, 0)
	got.Pix[0]++
	if got.Pix[0] == picture.Pix[0] {
		t.Error("the copy shares its pixels with the original")
	}
}

// TestBoxAverageBeforeBicubicHardlyShows compares a large reduction, which goes through box averages, with the same
// one in two steps of less than reducingGap each.
func TestBoxAverageBeforeBicubicHardlyShows(t *testing.T) {
	big := decode(t, read(t, "picture.png")).Resize(640, 480)
	direct := big.Resize(32, 24)
	twice := big.Resize(160, 120).Resize(32, 24)
	var sum float64
	for i := range direct.Pix {
		sum += math.Abs(float64(direct.Pix[i]) - float64(twice.Pix[i]))
	}
	if mean := sum / float64(len(direct.Pix)); mean > 1 {
		t.Errorf("mean difference is %.2f grey levels, want at most 1", mean)
	}
}

func TestResizeKeepsFlatColour(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {2, 3}, {7, 500}, {999, 1}} {
		im := imaging.New(size[0], size[1])
		for i := range im.Pix {
			im.Pix[i] = byte(50 * (i%3 + 1))
		}
		for _, out := range [][2]int{{1, 1}, {5, 4}, {64, 64}} {
			got := im.Resize(out[0], out[1])
			for i, v := range got.Pix {
				if int(v) != 50*(i%3+1) {
					t.Errorf("%v to %v: value %d is %d, want %d", size, out, i, v, 50*(i%3+1))
					break
				}
			}
		}
	}
}

func TestPreprocess(t *testing.T) {
	picture := decode(t, read(t, "picture.png"))
	square := decode(t, read(t, "picture_down.png"))
	cropped := decode(t, read(t, "picture_crop.png")) // by PIL: the shorter side to 20, the middle of it
	plain := [3]float32{1, 1, 1}
	for _, c := range []struct {
		name string
		p    imaging.Preprocess
		want *imaging.Image
		mean [3]float32
		std  [3]float32
	}{
		{"squash", imaging.Preprocess{Size: 16, Mean: [3]float32{0, 0.25, 0.5}, Std: plain}, square, [3]float32{0, 0.25, 0.5}, plain},
		{"center crop", imaging.Preprocess{Size: 20, Mode: imaging.CenterCrop}, cropped, imaging.CLIPMean, imaging.CLIPStd},
		{"as it is", imaging.Preprocess{Size: 20}, cropped, imaging.CLIPMean, imaging.CLIPStd},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := picture
			if c.name == "as it is" {
				in = cropped
			}
			dst := make([]float32, c.p.Values())
			c.p.Into(dst, in)
			plane := c.p.Size * c.p.Size
			for i := range plane {
				for ch := range 3 {
					want := (float32(c.want.Pix[3*i+ch])/255 - c.mean[ch]) / c.std[ch]
					if got := dst[ch*plane+i]; math.Abs(float64(got-want)) > 1e-6 {
						t.Fatalf("channel %d, pixel %d: %g, want %g", ch, i, got, want)
					}
				}
			}
			bytes := make([]byte, c.p.Values())
			c.p.Bytes(bytes, in)
			mean, std := c.p.Statistics()
			if mean != c.mean || std != c.std {
				t.Errorf("normalised by %v and %v, want %v and %v", mean, std, c.mean, c.std)
			}
			for i, v := range bytes {
				want := float32(v) / 255
				want -= mean[i/plane]
				if want /= std[i/plane]; dst[i] != want {
					t.Fatalf("value %d is %g, and of byte %d it is %g", i, dst[i], v, want)
				}
			}
		})
	}
}

func TestPreprocessRefusesAWrongLength(t *testing.T) {
	p := imaging.Preprocess{Size: 4}
	for name, write := range map[string]func(){
		"values": func() { p.Into(make([]float32, 47), imaging.New(4, 4)) },
		"bytes":  func() { p.Bytes(make([]byte, 47), imaging.New(4, 4)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("wrote a picture of 48 values into 47")
				}
			}()
			write()
		})
	}
}
