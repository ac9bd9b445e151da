//go:build cgo

package main

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/dotproduct"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// negatives counts the hardest negatives of mini-batches, a text for every image and an image for every text. The encoder's
// similarities choose them, as in experiment X1.
type negatives struct {
	all, untrue int // untrue: the text is true of the image, so that it is no negative
	left        int // of the untrue: those that no connection makes a positive
}

// embeddings reads the embeddings of a lane.
func embeddings(ctx context.Context, log *stream.Log, lane int) (map[schemas.PairID]*schemas.Embedding, error) {
	of := map[schemas.PairID]*schemas.Embedding{}
	for e, err := range stream.Values[*schemas.Embedding](ctx, log, schemas.Embeddings, lane) {
		if err != nil {
			return nil, fmt.Errorf("counting false negatives: %w", err)
		}
		if of[e.ID] == nil {
			of[e.ID] = e
		}
	}
	return of, nil
}

// members returns the embeddings of a mini-batch's samples.
func members(of map[schemas.PairID]*schemas.Embedding, samples []schemas.Sample) []*schemas.Embedding {
	var out []*schemas.Embedding
	for _, s := range samples {
		if e := of[s.ID]; e != nil {
			out = append(out, e)
		}
	}
	return out
}

// hardest finds the hardest negatives of a mini-batch and counts them. converted holds the image and the text of every
// connection.
func (t *truth) hardest(ctx context.Context, to *negatives, batch []*schemas.Embedding, converted map[[2]int32]bool) error {
	if len(batch) == 0 {
		return nil
	}
	image, number := make([]int32, len(batch)), map[schemas.ImageID]int32{}
	v, u := dotproduct.NewMatrix(len(batch), batch[0].V.Len()), dotproduct.NewMatrix(len(batch), batch[0].V.Len())
	for i, e := range batch {
		if _, known := number[e.ImageID]; !known {
			number[e.ImageID] = int32(len(number))
		}
		image[i] = number[e.ImageID]
		copy(v.Row(i), e.V.Floats())
		copy(u.Row(i), e.T.Floats())
	}
	texts, images, err := grouper.HardCandidates(ctx, v, u, image, 1)
	if err != nil {
		return err
	}
	count := func(image, text int32) {
		if image < 0 || text < 0 {
			return
		}
		to.all++
		if t.fits(batch[image].ImageID, batch[text].Caption) {
			to.untrue++
			if !converted[[2]int32{image, text}] {
				to.left++
			}
		}
	}
	for i := range batch {
		count(int32(i), texts[i])
		count(images[i], int32(i))
	}
	return nil
}

// remaining returns those that training takes for negatives all the same.
func (n negatives) remaining() float64 { return percent(n.left, n.all) }
