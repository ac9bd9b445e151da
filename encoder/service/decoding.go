package service

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

// Decoding is the way to reduce a JPEG that is larger than the model's input. It shapes the vectors, so embeddings name
// it beside the weights ([Decoding.Mark]).
type Decoding string

// The ways to decode.
const (
	DecodeExact  Decoding = "exact"  // at twice the input or more, then by averages, as Con-D and the trainer see it
	DecodeScaled Decoding = "scaled" // the decoder goes on to the smallest of 1/2, 1/4 and 1/8 that is not below the input
)

// want returns the needs of a model whose input has side pixels.
func (d Decoding) want(side int) imaging.Want {
	if d == DecodeExact {
		return imaging.Want{MinSide: 2 * side}
	}
	return imaging.ForModel(side)
}

// Mark returns the model that embeddings name: the fingerprint of its weights, which stands alone for exact pixels.
func (d Decoding) Mark(fingerprint string) string {
	if d == DecodeExact {
		return fingerprint
	}
	return fingerprint + "-" + string(d)
}

// marked is a model of a Decoding.
type marked struct {
	encoder.Model
	decode Decoding
}

// Fingerprint implements [encoder.Model]. Embeddings of different marks never share a group.
func (m marked) Fingerprint() string { return m.decode.Mark(m.Model.Fingerprint()) }

// newCore returns an encoder that reads images from a cache.
func newCore(m encoder.Model, pre imaging.Preprocess, cache *shard.Images, d Decoding, batch int) (*encoder.Encoder, error) {
	source := &images{cache: cache.Reduced(d.want(m.ImageSize())), pre: pre}
	return encoder.New(marked{m, d}, source, encoder.Options{BatchSize: batch, Workers: dataset.Readers()})
}

// images gives the core the pixels of a pair by reference.
type images struct {
	cache *shard.Images
	pre   imaging.Preprocess
}

// Load implements [encoder.Images]. An image whose size is not wanted is not embedded.
func (i *images) Load(ctx context.Context, p *schemas.Pair, wanted encoder.Wanted, dst []byte) (encoder.Loaded, error) {
	im, how, err := i.cache.GetReduced(ctx, *p.Image, p.ImageID)
	switch {
	case shard.Permanent(err):
		return encoder.Loaded{}, fmt.Errorf("%w: %w", encoder.ErrUnusable, err)
	case err != nil:
		return encoder.Loaded{}, err
	}
	if err := wanted(p, how.Width, how.Height); err != nil {
		return encoder.Loaded{}, err
	}
	i.pre.Bytes(dst, im)
	return encoder.Loaded{Ref: *p.Image, Width: how.Width, Height: how.Height}, nil
}
