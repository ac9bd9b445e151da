package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/jpeg"
	"math"
	"os"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/knntest"
	"github.com/pairstream/pairstream/schemas"
)

// benchDim is the width of embeddings in the papers.
const benchDim = 256

// These files hold the vectors of a row's pairs: float16 rows, as they travel.
const (
	imagesFile = "images.f16"
	textsFile  = "texts.f16"
)

// newCrawl draws the pairs of every row that searches among them: around two thousand centres.
func newCrawl(dim int) *knntest.Crawl { return knntest.New(rng.New(1, "bench.crawl"), 200, 10, dim) }

// writePairs draws n pairs into the files of a folder, on all processors: each part has a generator of its own.
func writePairs(j job, n int) error {
	const part = 10_000
	c, row := newCrawl(j.option("dim")), 2*j.option("dim")
	images, texts := make([]byte, n*row), make([]byte, n*row)
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for from := 0; from < n; from += part {
		group.Go(func() error {
			own := c.With(rng.New(1, "bench.crawl.part", int64(from)))
			for i := from; i < min(n, from+part); i++ {
				v, t := own.Next()
				copy(images[i*row:], schemas.NewFloat16s(v))
				copy(texts[i*row:], schemas.NewFloat16s(t))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := os.WriteFile(j.path(imagesFile), images, 0o644); err != nil {
		return err
	}
	return os.WriteFile(j.path(textsFile), texts, 0o644)
}

// readHalves reads a matrix of float16 rows from a file.
func readHalves(j job, name string) (knn.Matrix, error) {
	raw, err := os.ReadFile(j.path(name))
	if err != nil {
		return knn.Matrix{}, err
	}
	values := make([]uint16, len(raw)/2)
	for i := range values {
		values[i] = binary.LittleEndian.Uint16(raw[2*i:])
	}
	return knn.HalfMatrix(values, j.option("dim")), nil
}

// readFloats reads a matrix of float16 rows from a file, as the walk takes them.
func readFloats(j job, name string) (*dotproduct.Matrix, error) {
	halves, err := readHalves(j, name)
	if err != nil {
		return nil, err
	}
	m := dotproduct.NewMatrix(halves.Rows, halves.Dim)
	for i := range halves.Rows {
		halves.Row(i, m.Row(i)[:0])
	}
	return m, nil
}

// writeInts writes numbers for a peer to look at.
func writeInts(path string, values []int32) error {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(v))
	}
	return os.WriteFile(path, raw, 0o644)
}

// writeFloats writes values for a peer to read.
func writeFloats(path string, values []float32) error {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return os.WriteFile(path, raw, 0o644)
}

// readPairs reads both files of vectors, as they travel.
func readPairs(j job) (images, texts []byte, err error) {
	if images, err = os.ReadFile(j.path(imagesFile)); err != nil {
		return nil, nil, err
	}
	texts, err = os.ReadFile(j.path(textsFile))
	return images, texts, err
}

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

// photo returns a picture with detail at all scales. Detail falls off with the frequency as in photographs, and there
// is less of it in colour than in brightness.
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
