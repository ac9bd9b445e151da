package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pairstream/pairstream/internal/torch"
)

// layersWorker applies large linear layers to many rows, to know how fast a model's products can be on the processor.
type layersWorker struct{ worker *torch.Worker }

func newLayersWorker(_ context.Context, j job) (worker, error) {
	w, err := j.tensors()
	return layersWorker{w}, err
}

// Close ends the worker.
func (w layersWorker) Close() error {
	w.worker.Close()
	return nil
}

func (w layersWorker) do(ctx context.Context, command string, a *answer) error {
	return unchecked(command, func() error { return w.run(ctx, a) })
}

func (w layersWorker) run(ctx context.Context, a *answer) error {
	const side, samples, times, value = 1024, 8, 20, 1.0 / 64
	return w.worker.Do(ctx, func(s *torch.Scope) (err error) {
		x := s.Full(value, torch.Float32, samples, side/samples, side)
		weight := s.Transpose(s.Full(value, torch.Float32, side, side), 0, 1) // as weights lie that are not trained
		if s.Precision() == torch.BFloat16 {
			weight = s.To(weight, torch.BFloat16)
		}
		started := time.Now()
		s.NoGrad(func() {
			for range times {
				err = s.Nest(func(s *torch.Scope) error {
					if got := s.Narrow(s.Reshape(s.Linear(x, weight, nil), -1), 0, 0, 1).Item(); got != side*value*value {
						return fmt.Errorf("an element of the product is %g, want %g", got, side*value*value)
					}
					return nil
				})
				if err != nil {
					return
				}
			}
		})
		a.Values["per_second"] = times * 2 * side * side * side / time.Since(started).Seconds()
		return err
	})
}
