package imaging_test

import (
	"bytes"
	"image"
	"image/jpeg"
	"image/png"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// photo is a picture of 500 x 375 with detail everywhere, as large as Flickr8k's.
func photo(b *testing.B) image.Image {
	im := decode(b, read(b, "picture.png")).Resize(500, 375)
	r := rng.New(1, "photo")
	m := image.NewRGBA(image.Rect(0, 0, im.W, im.H))
	for i := range im.W * im.H {
		noise := byte(r.IntN(24))
		for c := range 3 {
			m.Pix[4*i+c] = im.Pix[3*i+c]/8*7 + noise
		}
		m.Pix[4*i+3] = 255
	}
	return m
}

func photoJPEG(b *testing.B) []byte {
	var buf bytes.Buffer
	must.Do(b, jpeg.Encode(&buf, photo(b), &jpeg.Options{Quality: 80}))
	return buf.Bytes()
}

func BenchmarkJPEGOfTheStandardLibrary(b *testing.B) {
	encoded := photoJPEG(b)
	b.SetBytes(int64(len(encoded)))
	for b.Loop() {
		must.Get(jpeg.Decode(bytes.NewReader(encoded)))(b)
	}
}

func BenchmarkDecodeJPEG(b *testing.B) {
	encoded := photoJPEG(b)
	b.SetBytes(int64(len(encoded)))
	for b.Loop() {
		decode(b, encoded)
	}
}

func BenchmarkDecodePNG(b *testing.B) {
	var buf bytes.Buffer
	must.Do(b, png.Encode(&buf, photo(b)))
	for b.Loop() {
		decode(b, buf.Bytes())
	}
}

func BenchmarkPreprocess64(b *testing.B)  { benchmarkPreprocess(b, 64) }
func BenchmarkPreprocess224(b *testing.B) { benchmarkPreprocess(b, 224) }

func benchmarkPreprocess(b *testing.B, size int) {
	im := decode(b, photoJPEG(b))
	p := imaging.Preprocess{Size: size}
	dst := make([]float32, p.Values())
	for b.Loop() {
		p.Into(dst, im)
	}
}

func BenchmarkAugment64(b *testing.B)  { benchmarkAugment(b, 64) }
func BenchmarkAugment224(b *testing.B) { benchmarkAugment(b, 224) }

func benchmarkAugment(b *testing.B, size int) {
	im := decode(b, photoJPEG(b))
	r := rng.New(1, "bench")
	o := imaging.AugmentOptions{Size: size, MinScale: 0.5, Flip: 0.5, Color: 0.2}
	p := imaging.Preprocess{Size: size}
	dst := make([]float32, p.Values())
	for b.Loop() {
		p.Into(dst, imaging.Augment(im, o, r))
	}
}
