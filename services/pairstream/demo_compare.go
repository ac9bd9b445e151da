//go:build cgo

package main

import (
	"context"

	"github.com/pairstream/pairstream/internal/eval"
)

// reranked is the number of candidates that the matching head ranks again.
const reranked = 16

// measure evaluates the first model and the last checkpoint of every run. All are asked about the hard negatives that the
// first model finds, without captions that are true of the picture.
func (d *demo) measure(ctx context.Context) error {
	w, err := d.newWorker()
	if err != nil {
		return err
	}
	defer w.Close()
	hard := eval.Options{TopK: reranked, Matches: d.matches()}
	if d.before, err = d.evaluate(ctx, w, d.weights(), hard); err != nil {
		return err
	}
	hard.Mining = &d.before.Sim
	for _, a := range d.arms() {
		if a.report, err = d.evaluate(ctx, w, a.checkpoint, hard); err != nil {
			return err
		}
	}
	return nil
}

// matches tells which held-out captions are true of which pictures. nil: nobody knows.
func (d *demo) matches() func(image, text int) bool {
	if d.known == nil || !d.known.held {
		return nil
	}
	return func(image, text int) bool {
		_, id := d.held.Image(image)
		caption, _, _ := d.held.Pair(text)
		return d.known.fits(id, caption)
	}
}
