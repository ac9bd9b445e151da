package service

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/trainer"
)

// batches returns a source of n batches whose lanes count up from 0. load loads them.
func batches(n int, load func(lane int) error) func(context.Context) (*work, error) {
	next := 0
	return func(context.Context) (*work, error) {
		if next == n {
			return nil, nil
		}
		w := &work{lane: next}
		w.load = func(context.Context) error {
			w.input = trainer.Input{IDs: [][]int32{{int32(w.lane)}}}
			return load(w.lane)
		}
		next++
		return w, nil
	}
}

// Several batches load at once: the first is not there before the others have begun. Yet they come in order.
func TestBatchesLoadTogetherAndComeInOrder(t *testing.T) {
	const n = 3 * loading
	var begun sync.WaitGroup
	begun.Add(loading)
	out := make(chan work, n)
	must.Do(t, loadAhead(t.Context(), batches(n, func(lane int) error {
		if lane < loading {
			begun.Done()
			begun.Wait()
		}
		return nil
	}), out))
	close(out)
	want := 0
	for w := range out {
		if w.lane != want || int(w.input.IDs[0][0]) != want {
			t.Errorf("batch %d with the input of %v came as number %d", w.lane, w.input.IDs, want)
		}
		want++
	}
	if want != n {
		t.Errorf("%d batches came, want %d", want, n)
	}
}

// What was loaded before a batch that cannot be loaded still comes.
func TestALoadThatFailsEndsTheRest(t *testing.T) {
	out := make(chan work, 10)
	failed := errors.New("no such image")
	err := loadAhead(t.Context(), batches(10, func(lane int) error {
		if lane == 2 {
			return failed
		}
		return nil
	}), out)
	if !errors.Is(err, failed) || len(out) != 2 {
		t.Errorf("%d batches came before the error %v, want 2", len(out), err)
	}
}

// Whoever ends early gets no batch, and nothing is left loading.
func TestLoadingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var loads sync.WaitGroup
	err := loadAhead(ctx, batches(100, func(lane int) error {
		loads.Add(1)
		defer loads.Done()
		if lane == 1 {
			cancel()
		}
		return nil
	}), make(chan work))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	loads.Wait()
}
