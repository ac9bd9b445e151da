package jpeg

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"os"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/rng"
)

// same compares with image/jpeg: the very pixels, or the very error.
func same(t *testing.T, name string, encoded []byte) {
	t.Helper()
	want, wantErr := stdjpeg.Decode(bytes.NewReader(encoded))
	got, err := Decode(encoded)
	switch {
	case fmt.Sprint(err) != fmt.Sprint(wantErr):
		t.Errorf("%s: error %v, want %v", name, err, wantErr)
	case err == nil && !samePixels(got, want):
		t.Errorf("%s: other pixels", name)
	}
}

func samePixels(a, b image.Image) bool {
	if a.Bounds() != b.Bounds() {
		return false
	}
	switch a := a.(type) {
	case *image.YCbCr:
		b, ok := b.(*image.YCbCr)
		return ok && a.SubsampleRatio == b.SubsampleRatio && a.YStride == b.YStride && a.CStride == b.CStride &&
			bytes.Equal(a.Y, b.Y) && bytes.Equal(a.Cb, b.Cb) && bytes.Equal(a.Cr, b.Cr)
	case *image.Gray:
		b, ok := b.(*image.Gray)
		return ok && a.Stride == b.Stride && bytes.Equal(a.Pix, b.Pix)
	}
	for y := a.Bounds().Min.Y; y < a.Bounds().Max.Y; y++ {
		for x := a.Bounds().Min.X; x < a.Bounds().Max.X; x++ {
			if a.At(x, y) != b.At(x, y) {
				return false
			}
		}
	}
	return true
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
	if err := stdjpeg.Encode(&b, m, &stdjpeg.Options{Quality: quality}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPixelsAreThoseOfTheStandardLibrary(t *testing.T) {
	for _, vector := range []bool{true, false} {
		if vector && !hasVector {
			continue
		}
		before := hasVector
		hasVector = vector
		for _, size := range [][2]int{{1, 1}, {8, 8}, {16, 16}, {17, 9}, {100, 75}, {257, 33}} {
			for _, strength := range []int{0, 30, 600} {
				for _, quality := range []int{1, 50, 90, 100} {
					for _, grey := range []bool{false, true} {
						name := fmt.Sprintf("%v, strength %d, quality %d, grey %v, vectors %v", size, strength, quality, grey, vector)
						encoded := encode(t, drawing(size[0], size[1], strength, grey), quality)
						if _, ok := plain(encoded); !ok {
							t.Errorf("%s: is left to the standard library", name)
						}
						same(t, name, encoded)
					}
				}
			}
		}
		hasVector = before
	}
}

// Files of other encoders: other tables, sampling, restarts, progressive, CMYK, turned, broken.
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
	plainOnes := 0
	for name, encoded := range files(t) {
		if _, ok := plain(encoded); ok {
			plainOnes++
		}
		same(t, name, encoded)
	}
	if plainOnes < 3 {
		t.Errorf("%d files are decoded here", plainOnes)
	}
}

// Whatever is broken must be noticed, as the standard library would go on differently, or complain.
func TestBrokenFiles(t *testing.T) {
	sources := files(t)
	sources["small"] = encode(t, drawing(40, 30, 60, false), 80)
	sources["restarts"] = withRestarts(t, encode(t, drawing(8, 8, 60, true), 80))
	for name, encoded := range sources {
		for cut := 0; cut < len(encoded); cut += 1 + len(encoded)/30 {
			same(t, fmt.Sprintf("%s cut at %d", name, cut), encoded[:cut])
		}
		r := rng.New(2, "broken", int64(len(encoded)))
		for range 50 {
			broken := bytes.Clone(encoded)
			for range 1 + r.IntN(3) {
				broken[r.IntN(len(broken))] ^= byte(1 << r.IntN(8))
			}
			if config, err := stdjpeg.DecodeConfig(bytes.NewReader(broken)); err == nil && config.Width*config.Height > 1<<20 {
				continue
			}
			same(t, name+", bits flipped", broken)
		}
	}
}

// withRestarts makes two units, with a restart between, of a grey file of one block.
func withRestarts(t *testing.T, encoded []byte) []byte {
	t.Helper()
	frame := bytes.Index(encoded, []byte{0xff, markerSOF0})
	scan := bytes.Index(encoded, []byte{0xff, markerSOS})
	head := bytes.Clone(encoded[:scan])
	head[frame+8] = 16 // twice as wide
	head = append(head, 0xff, markerDRI, 0, 4, 0, 1)
	header := encoded[scan : scan+2+int(encoded[scan+3])]
	data := encoded[scan+len(header) : len(encoded)-2]
	head = append(append(head, header...), data...)
	head = append(append(head, 0xff, markerRST0), data...)
	out := append(head, 0xff, markerEOI)
	if m, ok := plain(out); !ok || m.Bounds().Dx() != 16 {
		t.Errorf("a file with a restart is not decoded here")
	}
	return out
}

func FuzzDecode(f *testing.F) {
	for _, encoded := range files(f) {
		if len(encoded) < 4000 {
			f.Add(encoded)
		}
	}
	f.Add(encode(f, drawing(17, 9, 60, false), 80))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		if config, err := stdjpeg.DecodeConfig(bytes.NewReader(encoded)); err == nil && config.Width*config.Height > 1<<20 {
			t.Skip("too large")
		}
		same(t, "fuzzed", encoded)
	})
}

func BenchmarkDecode(b *testing.B) {
	encoded := encode(b, drawing(500, 375, 40, false), 75)
	b.SetBytes(int64(len(encoded)))
	for b.Loop() {
		if _, err := Decode(encoded); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStandardLibrary(b *testing.B) {
	encoded := encode(b, drawing(500, 375, 40, false), 75)
	b.SetBytes(int64(len(encoded)))
	for b.Loop() {
		if _, err := stdjpeg.Decode(bytes.NewReader(encoded)); err != nil {
			b.Fatal(err)
		}
	}
}
