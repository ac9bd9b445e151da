// Package knntest draws embeddings like those of a crawl, for benchmarks of searches, and holds the searches and
// clusterings that every engine must get right.
//
// The embeddings are a function of the generator, in a fixed order. A Crawl is for one goroutine.
package knntest

import (
	"math"
	"math/rand/v2"
)

// Crawl draws pairs one by one: images around centres that lie around topics, so that some centres are close to one
// another, and texts around their image.
type Crawl struct {
	r       *rand.Rand
	dim     int
	centres []float32 // row by row
}

// New draws the centres, perTopic around each topic, of vectors dim wide.
func New(r *rand.Rand, topics, perTopic, dim int) *Crawl {
	c := &Crawl{r: r, dim: dim}
	topic := make([]float32, dim)
	for i := range topics * perTopic {
		if i%perTopic == 0 {
			for j := range topic {
				topic[j] = float32(r.NormFloat64())
			}
		}
		for _, x := range topic {
			c.centres = append(c.centres, x+float32(0.7*r.NormFloat64()))
		}
	}
	return c
}

// With draws around the same centres, from another generator.
func (c *Crawl) With(r *rand.Rand) *Crawl { return &Crawl{r: r, dim: c.dim, centres: c.centres} }

// Next returns the unit vectors of an image and of its text.
func (c *Crawl) Next() (image, text []float32) {
	at := c.r.IntN(len(c.centres)/c.dim) * c.dim
	image = c.near(c.centres[at : at+c.dim])
	return image, c.near(image)
}

// near returns a unit vector around another vector, at 0.8 of its length from it.
func (c *Crawl) near(x []float32) []float32 {
	out, norm, scale := make([]float32, len(x)), 0.0, 0.0
	for _, v := range x {
		scale += float64(v) * float64(v)
	}
	scale = 0.8 * math.Sqrt(scale/float64(len(x)))
	for j, v := range x {
		out[j] = v + float32(scale*c.r.NormFloat64())
		norm += float64(out[j]) * float64(out[j])
	}
	for j := range out {
		out[j] /= float32(math.Sqrt(norm))
	}
	return out
}
