package torch_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// oracle is AdamW as in its paper, in float64.
type oracle struct{ p, m, v []float64 }

func (a *oracle) step(g []float64, step int, rate float64, decay bool, o torch.AdamWOptions) {
	for i := range a.p {
		if decay {
			a.p[i] *= 1 - rate*o.WeightDecay
		}
		a.m[i] = o.Beta1*a.m[i] + (1-o.Beta1)*g[i]
		a.v[i] = o.Beta2*a.v[i] + (1-o.Beta2)*g[i]*g[i]
		mean := a.m[i] / (1 - math.Pow(o.Beta1, float64(step)))
		square := a.v[i] / (1 - math.Pow(o.Beta2, float64(step)))
		a.p[i] -= rate * mean / (math.Sqrt(square) + o.Eps)
	}
}

// trained returns two parameters with an optimiser; one decays and one does not.
func trained(s *torch.Scope, dtype torch.DType) []*torch.Tensor {
	a := s.To(s.Float32s(ramp(40000), 200, 200), dtype)
	b := s.To(s.Float32s(ramp(17), 17), dtype)
	a.SetRequiresGrad(true)
	b.SetRequiresGrad(true)
	return []*torch.Tensor{a, b}
}

// gradients gives every parameter p the gradient p² * scale (of the loss p³/3 * scale).
func gradients(s *torch.Scope, params []*torch.Tensor, scale float64) {
	for _, p := range params {
		p.ZeroGrad()
		s.Backward(s.MulScalar(s.SumAll(s.Mul(p, s.Square(p))), scale/3))
	}
}

func TestAdamWIsThePapers(t *testing.T) {
	o := torch.AdamWOptions{Beta1: 0.8, Beta2: 0.95, Eps: 1e-6, WeightDecay: 0.1}
	way := torchtest.Ways(torch.WorkerOptions{Threads: 2, Deterministic: true})
	for _, test := range []struct {
		on        torch.WorkerOptions
		dtype     torch.DType
		tolerance float64
	}{{way["device"], torch.Float32, 1e-6}, {way["device"], torch.Float64, 1e-12}, {way["portable"], torch.Float32, 1e-6}} {
		must.Do(t, workerOf(t, test.on).Do(context.Background(), func(s *torch.Scope) error {
			params := trained(s, test.dtype)
			optimiser, err := torch.NewAdamW(params, []bool{true, false}, o)
			if err != nil {
				return err
			}
			defer optimiser.Free()
			var want []oracle
			for _, p := range params {
				v := p.Float64s()
				want = append(want, oracle{p: v, m: make([]float64, len(v)), v: make([]float64, len(v))})
			}
			for step := 1; step <= 4; step++ {
				gradients(s, params, float64(step))
				for i := range want {
					want[i].step(s.Grad(params[i]).Float64s(), step, 0.01, i == 0, o)
				}
				if err := optimiser.Step(0.01); err != nil {
					return err
				}
				for i, p := range params {
					near(t, test.dtype.String(), p.Float64s(), want[i].p, test.tolerance)
				}
			}
			return nil
		}))
	}
}

func TestAdamWLeavesParametersWithoutGradientAlone(t *testing.T) {
	must.Do(t, do(t, func(s *torch.Scope) error {
		params := trained(s, torch.Float32)
		optimiser, err := torch.NewAdamW(params, []bool{true, true}, torch.DefaultAdamW)
		if err != nil {
			return err
		}
		defer optimiser.Free()
		before := params[1].Float32s()
		gradients(s, params[:1], 1)
		if err := optimiser.Step(0.1); err != nil {
			return err
		}
		if !slices.Equal(params[1].Float32s(), before) {
			t.Error("it moved")
		}
		if steps := optimiser.State().Steps; !slices.Equal(steps, []int64{1, 0}) {
			t.Errorf("steps %v", steps)
		}
		if err := optimiser.ZeroGrad(); err != nil || s.Grad(params[0]) != nil {
			t.Errorf("ZeroGrad: %v", err)
		}
		return nil
	}))
}

// Two steps equal one step, a new optimiser with its state, and one more step.
func TestAdamWGoesOnFromItsState(t *testing.T) {
	train := func(restart bool) (out []float32) {
		must.Do(t, do(t, func(s *torch.Scope) error {
			params := trained(s, torch.Float32)
			optimiser, err := torch.NewAdamW(params, []bool{true, false}, torch.DefaultAdamW)
			if err != nil {
				return err
			}
			defer func() { optimiser.Free() }()
			for range 2 {
				gradients(s, params, 1)
				if err := optimiser.Step(0.1); err != nil {
					return err
				}
				if restart {
					state := optimiser.State()
					optimiser.Free()
					if optimiser, err = torch.NewAdamW(params, []bool{true, false}, torch.DefaultAdamW); err != nil {
						return err
					}
					if err := optimiser.SetState(state); err != nil {
						return err
					}
				}
			}
			out = params[0].Float32s()
			return nil
		}))
		return out
	}
	if !slices.Equal(train(false), train(true)) {
		t.Error("the restart changed the weights")
	}
}

func TestAdamWRefuses(t *testing.T) {
	w := newWorker(t, 1)
	must.Do(t, w.Do(context.Background(), func(s *torch.Scope) error {
		params := trained(s, torch.Float32)
		if _, err := torch.NewAdamW(params, []bool{true}, torch.DefaultAdamW); err == nil {
			t.Error("flags missing")
		}
		optimiser, err := torch.NewAdamW(params, []bool{true, true}, torch.DefaultAdamW)
		if err != nil {
			return err
		}
		defer optimiser.Free()
		state := optimiser.State()
		for name, change := range map[string]func(*torch.AdamWState){
			"a parameter less": func(s *torch.AdamWState) { s.Steps = s.Steps[:1] },
			"a short moment":   func(s *torch.AdamWState) { s.Means = [][]float32{{1}, s.Means[1]} },
			"negative steps":   func(s *torch.AdamWState) { s.Steps = []int64{-1, 0} },
		} {
			wrong := state
			change(&wrong)
			if err := optimiser.SetState(wrong); err == nil {
				t.Errorf("%s: accepted", name)
			}
		}
		return nil
	}))
}
