package main

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"math"
	"os"

	"github.com/pairstream/pairstream/internal/rng"
)

// The pictures of the decoding rows have the size of Flickr8k's pictures, and their files are about as large.
const (
	photoWidth   = 500
	photoHeight  = 375
	photoQuality = 88
)

// photoFile returns the path of a picture of a row.
func photoFile(j job, i int) string { return j.path(fmt.Sprintf("photo-%03d.jpg", i)) }

// writePhotos draws n pictures and encodes them.
func writePhotos(j job, n int) (bytesEach float64, err error) {
	for i := range n {
		var encoded bytes.Buffer
		if err := jpeg.Encode(&encoded, photo(int64(i)), &jpeg.Options{Quality: photoQuality}); err != nil {
			return 0, err
		}
		bytesEach += float64(encoded.Len()) / float64(n)
		if err := os.WriteFile(photoFile(j, i), encoded.Bytes(), 0o644); err != nil {
			return 0, err
		}
	}
	return bytesEach, nil
}

// photo returns a picture with detail at all scales. Detail falls off with the frequency as in photographs, and there is
// less of it in colour than in brightness.
func photo(key int64) image.Image {
	r := rng.New(1, "bench.photo", key)
	var planes [3][]float64 // brightness, blue against it, red against it
	for p, strength := range []float64{1, 0.35, 0.35} {
		planes[p] = make([]float64, photoWidth*photoHeight)
		for cell := 256; cell >= 2; cell /= 2 {
			across, down := photoWidth/cell+2, photoHeight/cell+2
			corners := make([]float64, across*down)
			for i := range corners {
				corners[i] = r.NormFloat64()
			}
			addSmooth(planes[p], corners, across, cell, strength*30*math.Pow(float64(cell)/128, 0.55))
		}
	}
	m := image.NewRGBA(image.Rect(0, 0, photoWidth, photoHeight))
	level := func(v float64) byte { return byte(min(255, max(0, v))) }
	for i := range photoWidth * photoHeight {
		y, b, r := 128+planes[0][i], planes[1][i], planes[2][i]
		m.Pix[4*i], m.Pix[4*i+1], m.Pix[4*i+2], m.Pix[4*i+3] = level(y+1.4*r), level(y-0.34*b-0.71*r), level(y+1.77*b), 255
	}
	return m
}

// addSmooth adds values that are given at the corners of cells and interpolated in between.
func addSmooth(plane, corners []float64, across, cell int, strength float64) {
	for y := range photoHeight {
		fy := float64(y%cell) / float64(cell)
		for x := range photoWidth {
			fx := float64(x%cell) / float64(cell)
			at := y/cell*across + x/cell
			top := corners[at]*(1-fx) + corners[at+1]*fx
			bottom := corners[at+across]*(1-fx) + corners[at+across+1]*fx
			plane[y*photoWidth+x] += strength * (top*(1-fy) + bottom*fy)
		}
	}
}
