package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"

	"github.com/pairstream/pairstream/internal/dot"
	"github.com/pairstream/pairstream/internal/knn"
	"github.com/pairstream/pairstream/internal/rng"
	"github.com/pairstream/pairstream/schemas"
)

// benchDim is the width of embeddings in the papers.
const benchDim = 256

// Files of the vectors of a row's pairs: float16 rows, as they travel.
const (
	imagesFile = "images.f16"
	textsFile  = "texts.f16"
)

// crawl draws pairs one by one: images around centres that lie around topics, so that some centres are close to one
// another, and texts around their image.
type crawl struct {
	r       *rand.Rand
	centres []float32
}

func newCrawl(seed uint64) *crawl {
	const topics, perTopic = 200, 10
	c := &crawl{r: rng.New(seed, "bench.crawl")}
	topic := make([]float32, benchDim)
	for i := range topics * perTopic {
		if i%perTopic == 0 {
			for j := range topic {
				topic[j] = float32(c.r.NormFloat64())
			}
		}
		for _, x := range topic {
			c.centres = append(c.centres, x+float32(0.7*c.r.NormFloat64()))
		}
	}
	return c
}

// near is a unit vector around another one.
func (c *crawl) near(x []float32, spread float64) []float32 {
	out, norm, scale := make([]float32, len(x)), 0.0, 0.0
	for _, v := range x {
		scale += float64(v) * float64(v)
	}
	scale = spread * math.Sqrt(scale/float64(len(x)))
	for j, v := range x {
		out[j] = v + float32(scale*c.r.NormFloat64())
		norm += float64(out[j]) * float64(out[j])
	}
	for j := range out {
		out[j] /= float32(math.Sqrt(norm))
	}
	return out
}

// next is an image and its text, as they travel.
func (c *crawl) next() (v, t schemas.Float16s) {
	at := c.r.IntN(len(c.centres)/benchDim) * benchDim
	image := c.near(c.centres[at:at+benchDim], 0.8)
	return schemas.NewFloat16s(image), schemas.NewFloat16s(c.near(image, 0.8))
}

// writePairs draws n pairs into the files of a folder.
func writePairs(j job, n int) error {
	c := newCrawl(1)
	var images, texts []byte
	for range n {
		v, t := c.next()
		images, texts = append(images, v...), append(texts, t...)
	}
	if err := os.WriteFile(j.path(imagesFile), images, 0o644); err != nil {
		return err
	}
	return os.WriteFile(j.path(textsFile), texts, 0o644)
}

// readHalves is a matrix of float16 rows from a file.
func readHalves(path string) (knn.Matrix, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return knn.Matrix{}, err
	}
	values := make([]uint16, len(raw)/2)
	for i := range values {
		values[i] = binary.LittleEndian.Uint16(raw[2*i:])
	}
	return knn.HalfMatrix(values, benchDim), nil
}

// readFloats is a matrix of float16 rows from a file, as the walk takes them.
func readFloats(path string) (*dot.Matrix, error) {
	halves, err := readHalves(path)
	if err != nil {
		return nil, err
	}
	m := dot.NewMatrix(halves.Rows, halves.Dim)
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
