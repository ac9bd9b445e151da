package jpeg

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"os"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// sizeOf is the size that callers pass in; a file without header has any.
func sizeOf(encoded []byte) image.Point {
	c, err := stdjpeg.DecodeConfig(bytes.NewReader(encoded))
	if err != nil {
		return image.Pt(8, 8)
	}
	return image.Pt(c.Width, c.Height)
}

// distance is by how much the levels of two images of a size differ, at most and on average.
func distance(t testing.TB, a, b image.Image) (most int, mean float64) {
	t.Helper()
	if a.Bounds() != b.Bounds() {
		t.Fatalf("bounds %v, want %v", a.Bounds(), b.Bounds())
	}
	size, total := a.Bounds().Size(), 0
	for y := range size.Y {
		for x := range size.X {
			p, q := color.RGBAModel.Convert(a.At(x, y)).(color.RGBA), color.RGBAModel.Convert(b.At(x, y)).(color.RGBA)
			for _, d := range []int{int(p.R) - int(q.R), int(p.G) - int(q.G), int(p.B) - int(q.B)} {
				most, total = max(most, d, -d), total+max(d, -d)
			}
		}
	}
	return most, float64(total) / float64(3*size.X*size.Y)
}

// drawing has noise of the given strength on slopes, in colour or in grey.
func drawing(w, h, strength int, grey bool) image.Image {
	r := rng.New(1, "drawing", int64(w), int64(h), int64(strength))
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	g := image.NewGray(m.Rect)
	for y := range h {
		for x := range w {
			level := func(v int) uint8 { return uint8(min(255, max(0, v+r.IntN(strength+1)-strength/2))) }
			m.Set(x, y, color.RGBA{level(5 * x), level(3 * y), level(x + y), 255})
			g.Set(x, y, color.Gray{level(4*x - y)})
		}
	}
	if grey {
		return g
	}
	return m
}

func encode(t testing.TB, m image.Image, quality int) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, stdjpeg.Encode(&b, m, &stdjpeg.Options{Quality: quality}))
	return b.Bytes()
}

// decodeEither decodes a file as callers do.
func decodeEither(encoded []byte, size image.Point, shrink int) (image.Image, error) {
	m, err := Decode(encoded, size, shrink)
	if errors.Is(err, ErrRefused) {
		return Judge(encoded)
	}
	return m, err
}

func decodeBoth(t *testing.T, encoded []byte) (got, want image.Image) {
	t.Helper()
	got = must.Get(decodeEither(encoded, sizeOf(encoded), 1))(t)
	want = must.Get(stdjpeg.Decode(bytes.NewReader(encoded)))(t)
	return got, want
}

// Where chroma has half the resolution, one decoder repeats it and the other interpolates.
func TestPixelsAreNearThoseOfTheStandardLibrary(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {8, 8}, {16, 16}, {17, 9}, {50, 75}, {51, 33}} {
		for _, quality := range []int{50, 90, 100} {
			for _, grey := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v, quality %d, grey %v", size, quality, grey), func(t *testing.T) {
					got, want := decodeBoth(t, encode(t, drawing(size[0], size[1], 20, grey), quality))
					if _, ok := got.(*RGB); ok != hasTurbo {
						t.Errorf("is a %T", got)
					}
					most, mean := distance(t, got, want)
					if grey && most > 1 || !grey && mean > 5 {
						t.Errorf("levels differ by up to %d, %.2f on average", most, mean)
					}
				})
			}
		}
	}
}

// files are those of other encoders: other tables, sampling, progressive, CMYK.
func files(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("../imaging/testdata/*.jpg")
	if err != nil || len(names) < 5 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		if out[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestFilesOfOtherEncoders(t *testing.T) {
	for name, encoded := range files(t) {
		t.Run(name, func(t *testing.T) {
			got, want := decodeBoth(t, encoded)
			if _, ok := got.(*RGB); ok != (hasTurbo && name != "blocks_cmyk.jpg") {
				t.Errorf("is a %T", got)
			}
			most, mean := distance(t, got, want)
			exact := name == "blocks_444.jpg" || name == "blocks_grey.jpg" || name == "blocks_cmyk.jpg"
			if exact && most > 3 || mean > 5 {
				t.Errorf("levels differ by up to %d, %.2f on average", most, mean)
			}
		})
	}
}

// Every cut loses pixels or the mark of the end, and is refused as image/jpeg refuses it.
func TestFilesCutShort(t *testing.T) {
	sources := files(t)
	sources["small"] = encode(t, drawing(40, 30, 60, false), 80)
	for name, encoded := range sources {
		for cut := 0; cut < len(encoded); cut += 1 + len(encoded)/300 {
			if m, err := decodeEither(encoded[:cut], sizeOf(encoded), 1); err == nil || m != nil {
				t.Errorf("%s cut at %d of %d: image %T, error %v", name, cut, len(encoded), m, err)
			}
		}
		if _, err := decodeEither(encoded[:len(encoded)-1], sizeOf(encoded), 1); err == nil {
			t.Errorf("%s without its last byte is an image", name)
		}
	}
}

// What image/jpeg takes is taken, whatever libjpeg-turbo has to say.
func TestBrokenFiles(t *testing.T) {
	sources := files(t)
	sources["small"] = encode(t, drawing(40, 30, 60, false), 80)
	refused := 0
	for name, encoded := range sources {
		r := rng.New(2, "broken", int64(len(encoded)))
		for i := range 100 {
			broken := bytes.Clone(encoded)
			for range 1 + r.IntN(3) {
				broken[r.IntN(len(broken))] ^= byte(1 << r.IntN(8))
			}
			size := sizeOf(broken)
			if size.X*size.Y > 1<<20 {
				continue
			}
			_, err := decodeEither(broken, size, 1)
			if _, stdErr := stdjpeg.Decode(bytes.NewReader(broken)); err != nil && stdErr == nil {
				t.Errorf("%s, bits flipped, %d: %v", name, i, err)
			}
			if err != nil {
				refused++
			}
		}
	}
	if refused == 0 {
		t.Error("no broken file is refused")
	}
}

func TestStrayBytesAreNoFault(t *testing.T) {
	encoded := encode(t, drawing(40, 30, 20, false), 80)
	scan := bytes.Index(encoded, []byte{0xff, 0xda})
	stray := append(append(bytes.Clone(encoded[:scan]), 0, 0, 0), encoded[scan:]...)
	m := must.Get(decodeEither(stray, sizeOf(stray), 1))(t)
	if _, ok := m.(*RGB); ok {
		t.Error("what libjpeg-turbo warns of was not left to image/jpeg")
	}
}

func TestOnlyTheSizePassedInIsDecoded(t *testing.T) {
	encoded := encode(t, drawing(40, 30, 20, true), 80)
	for _, size := range []image.Point{{}, {40, 31}, {8, 8}, {-40, -30}} {
		m := must.Get(decodeEither(encoded, size, 1))(t)
		if _, ok := m.(*RGB); ok {
			t.Errorf("size %v: decoded by libjpeg-turbo", size)
		}
	}
}

func TestShrinking(t *testing.T) {
	if !hasTurbo {
		t.Skip("image/jpeg does not shrink")
	}
	for _, size := range []image.Point{{1, 1}, {3, 5}, {64, 48}, {101, 57}} {
		m := drawing(size.X, size.Y, 0, true)
		for _, shrink := range []int{1, 2, 4, MaxShrink} {
			got := must.Get(decodeEither(encode(t, m, 100), size, shrink))(t)
			want := image.Pt((size.X+shrink-1)/shrink, (size.Y+shrink-1)/shrink)
			if got.Bounds().Size() != want {
				t.Errorf("%v by %d: %v, want %v", size, shrink, got.Bounds().Size(), want)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, encoded := range files(f) {
		if len(encoded) < 4000 {
			f.Add(encoded)
		}
	}
	f.Add(encode(f, drawing(17, 9, 60, false), 80))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		size := sizeOf(encoded)
		if size.X*size.Y > 1<<20 {
			t.Skip("too large")
		}
		for _, shrink := range []int{1, 2, MaxShrink} {
			m, err := decodeEither(encoded, size, shrink)
			_, stdErr := stdjpeg.Decode(bytes.NewReader(encoded))
			switch rgb, ok := m.(*RGB); {
			case (m == nil) != (err != nil):
				t.Fatalf("image %T and error %v", m, err)
			case err != nil && stdErr == nil:
				t.Fatalf("image/jpeg decodes it, but: %v", err)
			case ok && len(rgb.Pix) != 3*rgb.Size.X*rgb.Size.Y:
				t.Fatalf("%d bytes for %v", len(rgb.Pix), rgb.Size)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	encoded := encode(b, drawing(500, 375, 40, false), 75)
	size := sizeOf(encoded)
	b.SetBytes(int64(len(encoded)))
	for b.Loop() {
		must.Get(decodeEither(encoded, size, 1))(b)
	}
}
