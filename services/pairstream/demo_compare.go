//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/eval"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// outcomes are the evaluations of the first model and of what training made of it. All are asked about the same hard
// negatives.
type outcomes struct {
	before *eval.Report
	random *eval.Report // nil: the losses want more than random mini-batches have
	after  *eval.Report
}

// trainRandom trains the first model on random mini-batches, with the settings of the trainer and as many steps. It returns
// no path where the losses want more than that.
func (d *demo) trainRandom(ctx context.Context, w *torch.Worker) (string, error) {
	steps := d.steps.count()
	fmt.Fprintf(d.out, "training the first model on random mini-batches, for %d steps as well\n", steps)
	var done atomic.Int64
	stop := watch(d.out, d.terminal, []*gauge{{name: "random", unit: "steps", done: done.Load, all: func() int64 { return steps }}})
	defer stop()
	path := filepath.Join(d.dir, "random.safetensors")
	err := bootstrap.TrainFurther(ctx, w, d.images, d.train, bootstrap.Further{
		Start: d.weights(), Trainer: d.settings.Trainer.Options(), Batches: steps, Batch: demoBatch,
		Augment: dataset.Augmentation(d.settings.Trainer.Augment), Report: func(*trainer.Result) { done.Add(1) },
	}, path)
	if errors.Is(err, bootstrap.ErrPlainPairs) {
		fmt.Fprintf(d.out, "there is no such training to compare with: %v\n", err)
		return "", nil
	}
	return path, err
}

// measure evaluates the first model, the one of random mini-batches (unless random is empty) and the pipeline's. The hard
// negatives are those that the two trained models together find hardest, without captions that are true of the picture.
func (d *demo) measure(ctx context.Context, w *torch.Worker, random, after string) (o outcomes, err error) {
	hard := eval.Options{TopK: eval.NoRerank, Matches: d.matches()}
	for _, path := range []string{random, after} {
		if path == "" {
			continue
		}
		r, err := d.evaluate(ctx, w, path, eval.Options{TopK: eval.NoRerank})
		if err != nil {
			return o, err
		}
		if hard.Mining == nil {
			hard.Mining = &r.Sim
			continue
		}
		for i, v := range r.Sim.Data {
			hard.Mining.Data[i] += v
		}
	}
	for _, m := range []struct {
		path string
		to   **eval.Report
	}{{d.weights(), &o.before}, {random, &o.random}, {after, &o.after}} {
		if m.path == "" {
			continue
		}
		if *m.to, err = d.evaluate(ctx, w, m.path, hard); err != nil {
			return o, err
		}
	}
	return o, nil
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
