package imaging_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	return b
}

func decode(t testing.TB, encoded []byte) *imaging.Image {
	t.Helper()
	im := must.Get(imaging.Decode(encoded))(t)
	return im
}

// wantPixel compares one pixel within tol.
func wantPixel(t *testing.T, im *imaging.Image, x, y int, want [3]byte, tol int) {
	t.Helper()
	r, g, b := im.At(x, y)
	for c, got := range [3]byte{r, g, b} {
		if d := int(got) - int(want[c]); d > tol || d < -tol {
			t.Errorf("pixel (%d, %d) is %v, want %v within %d", x, y, [3]byte{r, g, b}, want, tol)
			return
		}
	}
}

// blocks are the colours of the six squares of 16 pixels in the pictures of that name.
var blocks = [6][3]byte{{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {255, 255, 255}, {0, 0, 0}, {255, 255, 0}}

func TestDecodesEveryKind(t *testing.T) {
	grey := [6][3]byte{{76, 76, 76}, {150, 150, 150}, {29, 29, 29}, {255, 255, 255}, {0, 0, 0}, {226, 226, 226}}
	holed := blocks
	holed[0] = [3]byte{255, 255, 255} // transparent, over white
	for _, c := range []struct {
		file string
		want [6][3]byte
		tol  int
	}{
		{"blocks.jpg", blocks, 4},
		{"blocks_422.jpg", blocks, 4},
		{"blocks_444.jpg", blocks, 4},
		{"blocks_progressive.jpg", blocks, 4},
		{"blocks_cmyk.jpg", blocks, 4},
		{"blocks_grey.jpg", grey, 2},
		{"blocks_grey.png", grey, 0},
		{"blocks_palette.png", blocks, 0},
		{"blocks_palette_alpha.png", holed, 0},
		{"blocks_alpha.png", holed, 0},
		{"blocks.webp", blocks, 4},
		{"blocks_lossless.webp", blocks, 0},
		{"blocks_alpha.webp", holed, 4},
	} {
		t.Run(c.file, func(t *testing.T) {
			im := decode(t, read(t, c.file))
			if im.W != 48 || im.H != 32 || len(im.Pix) != 3*48*32 {
				t.Fatalf("%d x %d with %d bytes, want 48 x 32", im.W, im.H, len(im.Pix))
			}
			for i, want := range c.want {
				wantPixel(t, im, 16*(i%3)+8, 16*(i/3)+8, want, c.tol)
			}
		})
	}
}

// TestDecodesEveryPNGLayout covers the sample layouts that the PNG decoder returns beyond those of the files.
func TestDecodesEveryPNGLayout(t *testing.T) {
	rect := image.Rect(0, 0, 3, 2)
	fill := func(m interface {
		image.Image
		Set(x, y int, c color.Color)
	}, c color.Color,
	) image.Image {
		for y := range 2 {
			for x := range 3 {
				m.Set(x, y, c)
			}
		}
		return m
	}
	for name, c := range map[string]struct {
		m    image.Image
		want [3]byte
	}{
		"grey 16-bit":        {fill(image.NewGray16(rect), color.Gray16{Y: 0x8040}), [3]byte{0x80, 0x80, 0x80}},
		"rgb 8-bit":          {fill(image.NewRGBA(rect), color.RGBA{10, 20, 30, 255}), [3]byte{10, 20, 30}},
		"rgb 16-bit":         {fill(image.NewRGBA64(rect), color.RGBA64{0x1000, 0x2000, 0x3000, 0xffff}), [3]byte{0x10, 0x20, 0x30}},
		"half clear 8-bit":   {fill(image.NewNRGBA(rect), color.NRGBA{0, 100, 200, 128}), [3]byte{127, 177, 227}},
		"half clear 16-bit":  {fill(image.NewNRGBA64(rect), color.NRGBA64{0, 0x6400, 0xc800, 0x8000}), [3]byte{127, 177, 227}},
		"fully clear 16-bit": {fill(image.NewNRGBA64(rect), color.NRGBA64{0, 0, 0, 0}), [3]byte{255, 255, 255}},
	} {
		t.Run(name, func(t *testing.T) {
			var buf bytes.Buffer
			must.Do(t, png.Encode(&buf, c.m))
			wantPixel(t, decode(t, buf.Bytes()), 2, 1, c.want, 1)
		})
	}
}

func TestDecodeShrunkAverages(t *testing.T) {
	full := decode(t, read(t, "picture.png")) // 61 x 47
	for _, c := range []struct{ minSide, w, h int }{
		{0, 61, 47}, {47, 61, 47}, {24, 61, 47}, {23, 31, 24}, {15, 21, 16}, {1, 2, 1},
	} {
		im := must.Get(imaging.DecodeShrunk(read(t, "picture.png"), c.minSide))(t)
		if im.W != c.w || im.H != c.h {
			t.Errorf("shorter side at least %d: %d x %d, want %d x %d", c.minSide, im.W, im.H, c.w, c.h)
		}
	}
	half := must.Get(imaging.DecodeShrunk(read(t, "picture.png"), 23))(t)
	mean := func(xs ...int) (out [3]byte) { // of the full picture's pixels at x, y, x, y, ...
		var sum [3]int
		for i := 0; i < len(xs); i += 2 {
			r, g, b := full.At(xs[i], xs[i+1])
			sum[0], sum[1], sum[2] = sum[0]+int(r), sum[1]+int(g), sum[2]+int(b)
		}
		n := len(xs) / 2
		for c := range out {
			out[c] = byte((sum[c] + n/2) / n)
		}
		return out
	}
	wantPixel(t, half, 5, 7, mean(10, 14, 11, 14, 10, 15, 11, 15), 0)
	wantPixel(t, half, 30, 23, mean(60, 46), 0) // the corner that fills no square
}

// TestShrinkingAJPEGShowsNoMoreThanAveraging compares what a model sees, without cgo too, with the reduction of all
// pixels.
func TestShrinkingAJPEGShowsNoMoreThanAveraging(t *testing.T) {
	picture := decode(t, read(t, "picture.png")).Resize(500, 375)
	m := image.NewRGBA(image.Rect(0, 0, picture.W, picture.H))
	for i := range picture.W * picture.H {
		copy(m.Pix[4*i:4*i+3], picture.Pix[3*i:])
		m.Pix[4*i+3] = 255
	}
	var photo, lossless bytes.Buffer
	must.Do(t, errors.Join(jpeg.Encode(&photo, m, &jpeg.Options{Quality: 90}), png.Encode(&lossless, m)))
	for _, c := range []struct{ minSide, w, h int }{
		{0, 500, 375}, {188, 500, 375}, {187, 250, 188}, {128, 250, 188}, {93, 125, 94}, {46, 63, 47}, {20, 32, 24}, {3, 5, 4},
	} {
		im := must.Get(imaging.DecodeShrunk(photo.Bytes(), c.minSide))(t)
		if jpegShrinks && (im.W != c.w || im.H != c.h) || min(im.W, im.H) < c.minSide {
			t.Errorf("shorter side at least %d: %d x %d, want %d x %d", c.minSide, im.W, im.H, c.w, c.h)
		}
		if c.minSide < 40 { // squares that lie half outside shift such small pictures visibly
			continue
		}
		averaged := must.Get(imaging.DecodeShrunk(lossless.Bytes(), c.minSide))(t)
		size := c.minSide / 2
		want := picture.Resize(size, size)
		ours, theirs := differ(im.Resize(size, size), want), differ(averaged.Resize(size, size), want)
		if ours > theirs+0.7 { // 0.6 is what the JPEG itself loses
			t.Errorf("shorter side at least %d: levels differ by %.2f on average, by %.2f after averages over squares", c.minSide, ours, theirs)
		}
	}
}

// A picture that is kept for one size is given for another only if it has the pixels that decoding for that size gives.
func TestReductionServesOnlyEqualPixels(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 203, 131))
	for i := range m.Pix {
		m.Pix[i] = byte(i * i / 7)
	}
	var photo, lossless bytes.Buffer
	must.Do(t, errors.Join(jpeg.Encode(&photo, m, &jpeg.Options{Quality: 90}), png.Encode(&lossless, m)))
	for name, encoded := range map[string][]byte{"jpeg": photo.Bytes(), "png": lossless.Bytes()} {
		served := 0
		var others []imaging.Want
		for _, minSide := range []int{0, 1, 3, 7, 16, 32, 43, 44, 65, 66, 131, 132} {
			others = append(others, imaging.Want{MinSide: minSide}, imaging.ForModel(minSide))
		}
		fresh := make([]*imaging.Image, len(others))
		for i, want := range others {
			fresh[i], _ = must.Get2(imaging.DecodeReduced(encoded, want))(t)
		}
		for side := range 280 {
			kept := imaging.Want{MinSide: side / 2, Scaled: side%2 == 1}
			im, how := must.Get2(imaging.DecodeReduced(encoded, kept))(t)
			if !how.Serves(kept) {
				t.Fatalf("%s kept for %v does not serve %v", name, kept, kept)
			}
			for i, want := range others {
				equal := im.W == fresh[i].W && im.H == fresh[i].H && bytes.Equal(im.Pix, fresh[i].Pix)
				if how.Serves(want) && !equal {
					t.Errorf("%s kept for %v serves %v, whose pixels are others", name, kept, want)
				}
				if how.Serves(want) && want != kept {
					served++
				}
			}
		}
		if served == 0 {
			t.Errorf("%s kept for one size serves no other", name)
		}
	}
}

// TestAJPEGForAModelIsDecodedToItsInput holds pictures that the decoder scales against those of all pixels. They have no fewer
// than the model's, and levels that are near. Other formats are as they were.
func TestAJPEGForAModelIsDecodedToItsInput(t *testing.T) {
	const w, h = 500, 375
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			wave := 40 * math.Sin(float64(x)/5) * math.Cos(float64(y)/7)
			m.Set(x, y, color.RGBA{byte(120 + wave), byte(x / 2), byte(y/2 + x/8), 255})
		}
	}
	var photo, lossless bytes.Buffer
	must.Do(t, errors.Join(jpeg.Encode(&photo, m, &jpeg.Options{Quality: 90}), png.Encode(&lossless, m)))
	for _, tt := range []struct {
		side, height int
	}{
		{375, 375}, {224, 375}, {189, 375}, {188, 375}, {187, 188}, {128, 188}, {94, 188}, {93, 94}, {46, 47}, {20, 47},
	} {
		im, how := must.Get2(imaging.DecodeReduced(photo.Bytes(), imaging.ForModel(tt.side)))(t)
		if height := im.H; jpegShrinks && height != tt.height || how.Width != w || how.Height != h {
			t.Errorf("for %d pixels: %d high, want %d; of %d x %d", tt.side, height, tt.height, how.Width, how.Height)
		}
		exact := must.Get(imaging.Decode(photo.Bytes()))(t)
		if d := differ(im.Resize(tt.side, tt.side), exact.Resize(tt.side, tt.side)); d > 2.5 { // of 255: less than the bench allows between programs
			t.Errorf("for %d pixels: levels differ by %.2f on average", tt.side, d)
		}
		scaled, _ := must.Get2(imaging.DecodeReduced(lossless.Bytes(), imaging.ForModel(tt.side)))(t)
		if before := must.Get(imaging.DecodeShrunk(lossless.Bytes(), 2*tt.side))(t); !bytes.Equal(scaled.Pix, before.Pix) {
			t.Errorf("for %d pixels: a PNG has other pixels", tt.side)
		}
	}
}

// differ is by how much the levels of two pictures differ on average.
func differ(a, b *imaging.Image) float64 {
	var sum float64
	for i := range a.Pix {
		sum += math.Abs(float64(a.Pix[i]) - float64(b.Pix[i]))
	}
	return sum / float64(len(a.Pix))
}

// withOrientation inserts an Exif segment with the orientation behind the start marker of a JPEG.
func withOrientation(t testing.TB, m image.Image, orientation uint16, order binary.AppendByteOrder) []byte {
	t.Helper()
	var buf bytes.Buffer
	must.Do(t, jpeg.Encode(&buf, m, &jpeg.Options{Quality: 95}))
	tiff := []byte("II*\x00")
	if order.AppendUint16(nil, 1)[0] == 0 {
		tiff = []byte("MM\x00*")
	}
	tiff = order.AppendUint32(tiff, 8)
	tiff = order.AppendUint16(tiff, 2)                                                                                                            // entries
	tiff = order.AppendUint32(order.AppendUint32(order.AppendUint16(order.AppendUint16(tiff, 0x0100), 4), 1), 99)                                 // ImageWidth
	tiff = order.AppendUint16(order.AppendUint16(order.AppendUint32(order.AppendUint16(order.AppendUint16(tiff, 0x0112), 3), 1), orientation), 0) // Orientation
	segment := append([]byte("Exif\x00\x00"), tiff...)
	out := append([]byte{0xff, 0xd8, 0xff, 0xe1}, binary.BigEndian.AppendUint16(nil, uint16(len(segment)+2))...)
	out = append(out, segment...)
	return append(out, buf.Bytes()[2:]...)
}

func TestAppliesOrientation(t *testing.T) {
	// The upright picture has red, green / blue, white quarters and is wider than high.
	upright := func(x, y int) color.RGBA {
		return [2][2]color.RGBA{{{255, 0, 0, 255}, {0, 255, 0, 255}}, {{0, 0, 255, 255}, {255, 255, 255, 255}}}[y][x]
	}
	// For each orientation, the upright quarter that is stored at the upper left, upper right and lower left.
	stored := map[uint16][3][2]int{
		1: {{0, 0}, {1, 0}, {0, 1}}, 2: {{1, 0}, {0, 0}, {1, 1}}, 3: {{1, 1}, {0, 1}, {1, 0}}, 4: {{0, 1}, {1, 1}, {0, 0}},
		5: {{0, 0}, {0, 1}, {1, 0}}, 6: {{1, 0}, {1, 1}, {0, 0}}, 7: {{1, 1}, {1, 0}, {0, 1}}, 8: {{0, 1}, {0, 0}, {1, 1}},
	}
	for orientation, q := range stored {
		w, h := 64, 32
		if orientation >= 5 {
			w, h = h, w
		}
		m := image.NewRGBA(image.Rect(0, 0, w, h))
		// The fourth quarter is the one opposite the first.
		quarter := [2][2][2]int{{q[0], q[1]}, {q[2], {1 - q[0][0], 1 - q[0][1]}}}
		for y := range h {
			for x := range w {
				p := quarter[2*y/h][2*x/w]
				m.Set(x, y, upright(p[0], p[1]))
			}
		}
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			im := decode(t, withOrientation(t, m, orientation, order))
			if im.W != 64 || im.H != 32 {
				t.Errorf("orientation %d: %d x %d, want 64 x 32", orientation, im.W, im.H)
				continue
			}
			for y := range 2 {
				for x := range 2 {
					c := upright(x, y)
					wantPixel(t, im, 16+32*x, 8+16*y, [3]byte{c.R, c.G, c.B}, 6)
				}
			}
		}
	}
}

func TestIgnoresInvalidOrientation(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 40, 20))
	for _, o := range []uint16{0, 9, 0xffff} {
		if im := decode(t, withOrientation(t, m, o, binary.BigEndian)); im.W != 40 {
			t.Errorf("orientation %d turned the picture", o)
		}
	}
}
