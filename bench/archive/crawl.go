package main

import (
	"math"
	"math/rand/v2"

	"github.com/x448/float16"

	"github.com/pairstream/pairstream/internal/knn"
	"github.com/pairstream/pairstream/internal/rng"
)

// crawl draws pairs. Noise comes from a table, from a place that is drawn, so that ten million pairs take minutes.
type crawl struct {
	centres []float32 // rows
	noise   []float32 // normal
}

const (
	topics   = 500
	perTopic = 20
	spread   = 0.8 // of a vector's length: the noise around it
)

func newCrawl() *crawl {
	r := rng.New(7, "bench.archive.centres")
	c := &crawl{noise: make([]float32, 1<<22)}
	for i := range c.noise {
		c.noise[i] = float32(r.NormFloat64())
	}
	topic := make([]float32, dim)
	for i := range topics * perTopic {
		for j := range topic {
			if i%perTopic == 0 {
				topic[j] = float32(r.NormFloat64())
			}
			c.centres = append(c.centres, topic[j]+float32(0.7*r.NormFloat64()))
		}
	}
	return c
}

// around writes a unit vector around another vector.
func (c *crawl) around(x, out []float32, at int) {
	norm := float32(0)
	for _, v := range x {
		norm += v * v
	}
	scale, sum := spread*float32(math.Sqrt(float64(norm)/dim)), float32(0)
	for j, noise := range c.noise[at : at+dim] {
		out[j] = x[j] + scale*noise
		sum += out[j] * out[j]
	}
	scale = 1 / float32(math.Sqrt(float64(sum)))
	for j := range out {
		out[j] *= scale
	}
}

func (c *crawl) image(r *rand.Rand, out []float32) {
	at := r.IntN(topics*perTopic) * dim
	c.around(c.centres[at:at+dim], out, r.IntN(len(c.noise)-dim))
}

// queries draws images that no group has.
func (c *crawl) queries() [][]float32 {
	r := rng.New(7, "bench.archive.queries")
	all := make([][]float32, queries)
	for i := range all {
		all[i] = make([]float32, dim)
		c.image(r, all[i])
	}
	return all
}

// draw draws the images and texts of a group.
func (c *crawl) draw(number int64, n int) (v, t knn.Matrix) {
	r := rng.New(7, "bench.archive.group", number)
	image, text := make([]float32, dim), make([]float32, dim)
	images, texts := make([]uint16, n*dim), make([]uint16, n*dim)
	for i := range n {
		c.image(r, image)
		c.around(image, text, r.IntN(len(c.noise)-dim))
		for j := range dim {
			images[i*dim+j] = float16.Fromfloat32(image[j]).Bits()
			texts[i*dim+j] = float16.Fromfloat32(text[j]).Bits()
		}
	}
	return knn.HalfMatrix(images, dim), knn.HalfMatrix(texts, dim)
}
