package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/model/model"
)

// ErrNoModel is the answer to queries before the encoder has loaded its model, and after it has ended.
var ErrNoModel = errors.New("the encoder has no model now: it is loading, or has ended")

// Queries embeds single captions and images with the model of an encoder that runs in the same process. It is safe for
// concurrent use. Queries are answered one at a time, so the encoder waits for one of them at most between two batches.
type Queries struct {
	turn   chan struct{} // holds one token, which its owner takes out
	model  *model.Encoder
	decode Decoding // of images
}

// NewQueries has no model until [RunWithQueries] lends it one.
func NewQueries() *Queries {
	q := &Queries{turn: make(chan struct{}, 1)}
	q.turn <- struct{}{}
	return q
}

// lend gives queries a model. It takes the last one away with nil, after the query in hand.
func (q *Queries) lend(m *model.Encoder, d Decoding) {
	<-q.turn
	q.model, q.decode = m, d
	q.turn <- struct{}{}
}

// EmbedText returns the unit vector of a caption.
func (q *Queries) EmbedText(ctx context.Context, caption string) ([]float32, error) {
	return q.embed(ctx, func(m *model.Encoder) ([]float32, error) { return m.EncodeTexts(ctx, []string{caption}) })
}

// EmbedImage returns the unit vector of an encoded image, as the encoder would embed it. Decoding is bounded by
// [imaging.Decode]'s limits.
func (q *Queries) EmbedImage(ctx context.Context, encoded []byte) ([]float32, error) {
	return q.embed(ctx, func(m *model.Encoder) ([]float32, error) {
		im, _, err := imaging.DecodeReduced(encoded, q.decode.want(m.ImageSize()))
		if err != nil {
			return nil, err
		}
		pixels := make([]byte, m.Preprocessing().Values())
		m.Preprocessing().Bytes(pixels, im)
		return m.EncodeImages(ctx, pixels, 1)
	})
}

func (q *Queries) embed(ctx context.Context, work func(*model.Encoder) ([]float32, error)) ([]float32, error) {
	select {
	case <-q.turn:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for earlier queries: %w", ctx.Err())
	}
	defer func() { q.turn <- struct{}{} }()
	if q.model == nil {
		return nil, ErrNoModel
	}
	return work(q.model)
}
