package torch_test

import (
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
)

// Operations on lists give the bits of the single ones on the CPU, whoever's kernels compute.
func TestLists(t *testing.T) {
	for name, o := range torchtest.Ways(torch.WorkerOptions{Threads: 2, Deterministic: true}) {
		run(t, workerOf(t, o), func(s *torch.Scope) {
			lists := func(shift int) (all []*torch.Tensor) {
				for _, n := range []int{1, 7, 3000} {
					all = append(all, s.Float32s(ramp(n + shift)[shift:], int64(n)))
				}
				return all
			}
			check := func(what string, got, want *torch.Tensor) {
				t.Helper()
				if !slices.Equal(got.Float32s(), want.Float32s()) {
					t.Errorf("%s: %s of %d values differs", name, what, want.Numel())
				}
			}
			into, averages, params, from := lists(0), lists(0), lists(0), lists(5)
			old := lists(0)
			for _, p := range params {
				p.SetRequiresGrad(true)
			}
			torch.AddAll(into, from)
			torch.AverageAll(averages, from, 0.995)
			torch.SetGrads(params, from, 0.25)
			for i := range old {
				check("a sum", into[i], s.Add(old[i], from[i]))
				check("an average", averages[i], s.Add(s.MulScalar(old[i], 0.995), s.MulScalar(from[i], 1-0.995)))
				check("a gradient", s.Grad(params[i]), s.MulScalar(from[i], 0.25))
				check("a parameter", params[i], old[i])
			}
			torch.AddAll(nil, nil)
			data := [][]float32{ramp(6), nil, ramp(1)}
			made := s.MakeAll(data, [][]int64{{2, 3}, nil, {}})
			if got := s.ReadAll(made); !slices.EqualFunc(got, data, slices.Equal) || got[1] != nil || !slices.Equal(made[0].Shape(), []int64{2, 3}) {
				t.Errorf("%s: %v, want %v", name, got, data)
			}
		})
	}
}
