package trainer

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// vectors is one golden file.
type vectors struct{ *golden.File }

func openVectors(t *testing.T, name string) vectors {
	t.Helper()
	return vectors{golden.Open(t, name)}
}

func (v vectors) has(name string) bool {
	_, ok := v.Tensor(name)
	return ok
}

func (v vectors) scalar(name string) float64 { return v.Float64s(name)[0] }

// matrix puts a float64 tensor of the file on the scope.
func (v vectors) matrix(s *torch.Scope, name string) *torch.Tensor {
	return s.Float64s(v.Float64s(name), v.Must(name).Shape...)
}

// variable puts a tensor on the scope as matrix does, as an independent variable.
func (v vectors) variable(s *torch.Scope, name string) *torch.Tensor {
	x := v.matrix(s, name)
	x.SetRequiresGrad(true)
	return x
}

// onWorker runs fn on a worker of its own and checks that it gave every tensor back.
func onWorker(t *testing.T, fn func(s *torch.Scope) error) {
	t.Helper()
	before := torch.Live()
	w := newWorker(t)
	must.Do(t, w.Do(context.Background(), fn))
	if n := torch.Live() - before; n != 0 {
		t.Errorf("%d tensors were not given back", n)
	}
}

func newWorker(t *testing.T) *torch.Worker {
	t.Helper()
	w := must.Get(torch.NewWorker(torchtest.On(torch.WorkerOptions{Threads: 2, Deterministic: true})))(t)
	t.Cleanup(w.Close)
	return w
}

func wantInts(t *testing.T, what string, got, want []int64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func name(format string, args ...any) string { return fmt.Sprintf(format, args...) }
