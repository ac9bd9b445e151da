package main

import (
	"encoding/binary"
	"math"
	"os"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/dotproduct"
	"github.com/pairstream/pairstream/internal/knn"
	"github.com/pairstream/pairstream/internal/knn/knntest"
	"github.com/pairstream/pairstream/internal/rng"
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
