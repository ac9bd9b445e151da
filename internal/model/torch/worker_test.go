package torch_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func newWorker(t testing.TB, threads int) *torch.Worker {
	t.Helper()
	return torchtest.NewWorker(t, torch.WorkerOptions{Threads: threads, Deterministic: true})
}

func TestNewWorkerRefuses(t *testing.T) {
	tests := []struct {
		name    string
		options torch.WorkerOptions
		want    string
	}{
		{"an unknown device", torch.WorkerOptions{Device: "abacus"}, "device abacus"},
		{"a negative number of threads", torch.WorkerOptions{Threads: -1}, "-1 threads"},
		{"an unknown multiplier", torch.WorkerOptions{Multiplier: "abacus"}, "no abacus to multiply"},
		{"cuda where there is none", torch.WorkerOptions{Device: "cuda"}, "device cuda: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.options.Device == "cuda" && torch.CUDAAvailable() {
				t.Skip("this machine has CUDA")
			}
			w, err := torch.NewWorker(test.options)
			if err == nil {
				w.Close()
				t.Fatal("a worker started")
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, test.want)
			}
		})
	}
}

func TestDoRefuses(t *testing.T) {
	w := newWorker(t, 1)
	nothing := func(*torch.Scope) error { return nil }
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.Do(cancelled, nothing); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	var inner error
	if err := w.Do(context.Background(), func(*torch.Scope) error {
		inner = w.Do(context.Background(), nothing)
		return nil
	}); err != nil || inner == nil || !strings.Contains(inner.Error(), "inside Do") {
		t.Errorf("inside Do: %v, %v", err, inner)
	}
	w.Close()
	if err := w.Do(context.Background(), nothing); !errors.Is(err, torch.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	w.Close()
}

func TestDoSurvivesTheEndOfAGoroutine(t *testing.T) {
	w := newWorker(t, 1)
	before := torch.Live()
	if err := w.Do(context.Background(), func(s *torch.Scope) error {
		s.Zeros(torch.Float32, 3)
		runtime.Goexit()
		return nil
	}); err == nil || !strings.Contains(err.Error(), "Goexit") {
		t.Errorf("Do returned %v", err)
	}
	if err := w.Do(context.Background(), func(s *torch.Scope) error {
		s.Zeros(torch.Float32, 3)
		return nil
	}); err != nil {
		t.Errorf("the next Do returned %v", err)
	}
	if n := torch.Live() - before; n != 0 {
		t.Errorf("%d handles were not given back", n)
	}
}

func TestDoRunsOneJobAtATimeOnOneThread(t *testing.T) {
	w := newWorker(t, 2)
	var running, most, jobs int // guarded by the worker, as the race detector confirms
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				must.Check(t, w.Do(context.Background(), func(s *torch.Scope) error {
					running++
					most = max(most, running)
					s.MatMul(s.Full(1, torch.Float32, 8, 8), s.Full(1, torch.Float32, 8, 8))
					running--
					jobs++
					return nil
				}))
			}
		})
	}
	all.Wait()
	if most != 1 || jobs != 160 {
		t.Errorf("%d jobs, up to %d at a time", jobs, most)
	}
}

// Two workers share the pool: one finds it taken, and works alone.
func TestTwoWorkers(t *testing.T) {
	a, b := newWorker(t, 3), newWorker(t, 3)
	x, y := ramp(300*40), ramp(50*40)
	product := func(w *torch.Worker) (out []float32) {
		must.Check(t, w.Do(context.Background(), func(s *torch.Scope) error {
			out = s.Linear(s.Float32s(x, 300, 40), s.Float32s(y, 50, 40), nil).Float32s()
			return nil
		}))
		return out
	}
	want := product(a)
	var all sync.WaitGroup
	for _, w := range []*torch.Worker{a, b} {
		all.Go(func() {
			for range 50 {
				if !slices.Equal(product(w), want) {
					t.Error("another result")
				}
			}
		})
	}
	all.Wait()
}

func TestScopes(t *testing.T) {
	w := newWorker(t, 1)
	before := torch.Live()
	var kept, leaked *torch.Tensor
	var ended *torch.Scope
	must.Do(t, w.Do(context.Background(), func(s *torch.Scope) error {
		if err := s.Nest(func(inner *torch.Scope) error {
			kept = inner.Keep(inner.Full(7, torch.Float32, 1))
			leaked = inner.Full(8, torch.Float32, 1)
			ended = inner
			return nil
		}); err != nil {
			return err
		}
		if n := torch.Live() - before; n != 1 {
			t.Errorf("%d handles after the inner scope, want the kept one", n)
		}
		if kept.Item() != 7 {
			t.Errorf("the kept tensor is %v", kept.Item())
		}
		mustPanic(t, "a freed tensor", func() { s.Neg(leaked) })
		mustPanic(t, "an ended scope", func() { ended.Zeros(torch.Float32, 1) })
		s.Adopt(kept)
		return nil
	}))
	if n := torch.Live() - before; n != 0 {
		t.Errorf("%d handles were not given back", n)
	}
	kept.Free()
}

func mustPanic(t *testing.T, what string, fn func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s could be used", what)
		}
	}()
	fn()
}

func TestTensorsRefuse(t *testing.T) {
	tests := map[string]func(s *torch.Scope){
		"values that do not fill the shape": func(s *torch.Scope) { s.Float32s([]float32{1, 2}, 3) },
		"a negative size":                   func(s *torch.Scope) { s.Float32s(nil, -1, 0) },
		"a size that overflows":             func(s *torch.Scope) { s.Float32s(nil, 1<<62, 4, 0) },
		"writing too few values":            func(s *torch.Scope) { s.Zeros(torch.Float32, 3).SetFloat32s([]float32{1}) },
		"the item of many":                  func(s *torch.Scope) { s.Zeros(torch.Float32, 3).Item() },
		"joining nothing":                   func(s *torch.Scope) { s.Cat(0) },
		"no layers":                         func(s *torch.Scope) { s.Linears(s.Zeros(torch.Float32, 1, 1), nil, nil) },
		"a layer of another width":          func(s *torch.Scope) { s.Linear(s.Zeros(torch.Float32, 1, 2), s.Zeros(torch.Float32, 3, 4), nil) },
		"heads that do not divide":          func(s *torch.Scope) { s.SelfAttention(s.Zeros(torch.Float32, 1, 2, 12), nil, 3, 1, 0) },
		"a mask of another length": func(s *torch.Scope) {
			s.SelfAttention(s.Zeros(torch.Float32, 1, 2, 12), s.Zeros(torch.Float32, 1, 1, 3), 2, 1, 0)
		},
		"a copy of another shape": func(s *torch.Scope) { s.Zeros(torch.Float32, 2).CopyFrom(s.Zeros(torch.Float32, 3)) },
		"an index out of range":   func(s *torch.Scope) { s.Embedding(s.Zeros(torch.Float32, 2, 2), s.Int64s([]int64{2}, 1), -1) },
	}
	if torchtest.OnGPU() {
		delete(tests, "an index out of range") // a kernel finds it there, and the process gets no more work done on that GPU
	}
	for name, fn := range tests {
		err := do(t, func(s *torch.Scope) error {
			fn(s)
			return nil
		})
		if _, ok := errors.AsType[*torch.Error](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
