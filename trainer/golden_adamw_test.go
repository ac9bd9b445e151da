package trainer

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// goldenSchedule is the configuration of a learning-rate table.
type goldenSchedule struct {
	LR           float64 `json:"lr"`
	MinLR        float64 `json:"min_lr"`
	WarmupLR     float64 `json:"warmup_lr"`
	WarmupEpochs int64   `json:"warmup_epochs"`
	Epochs       int64   `json:"epochs"`
}

func TestGoldenLearningRates(t *testing.T) {
	v := openVectors(t, "adamw.safetensors")
	var config struct {
		Schedule  goldenSchedule `json:"schedule"`
		Schedule2 goldenSchedule `json:"schedule2"`
		StepSize  int64          `json:"step_size"`
	}
	v.Config(&config)
	for prefix, c := range map[string]goldenSchedule{"lr": config.Schedule, "lr2": config.Schedule2} {
		s := Schedule{
			Kind: ReferenceEpochs, Rate: c.LR, Min: c.MinLR, WarmupRate: c.WarmupLR, WarmupSteps: c.WarmupEpochs,
			Epochs: c.Epochs, WarmupStride: config.StepSize, EpochSteps: 1_000_000,
		}
		var l invalid.List
		s.validate(&l)
		must.Do(t, l.Err())
		iterations := make([]float64, len(v.Float64s(prefix+".epoch0_iteration")))
		for i := range iterations {
			iterations[i] = s.At(int64(i))
		}
		golden.Close(t, prefix+".epoch0_iteration", iterations, v.Float64s(prefix+".epoch0_iteration"), 1e-12, 0)
		epochs := make([]float64, len(v.Float64s(prefix+".epoch")))
		for e := range epochs {
			epochs[e] = s.At(int64(e) * s.EpochSteps)
		}
		epochs[0] = s.Rate // the table's entry is the rate after the warm-up
		golden.Close(t, prefix+".epoch", epochs, v.Float64s(prefix+".epoch"), 1e-12, 0)
	}
	warmup := MAFA().Schedule
	warmup.Kind, warmup.WarmupSteps, warmup.WarmupStride = ReferenceEpochs, config.Schedule.WarmupEpochs, config.StepSize
	for k, want := range v.Float64s("lr.warmup_step") { // set after iteration k times the stride
		golden.Close(t, "lr.warmup_step", []float64{warmup.At(int64(k)*config.StepSize + 1)}, []float64{want}, 1e-12, 0)
	}
	if got, want := MAFA().Schedule.At(0), v.scalar("lr.initial"); got != want {
		t.Errorf("the first rate is %g by default, want %g", got, want)
	}
}

func TestGoldenAdamW(t *testing.T) {
	v := openVectors(t, "adamw.safetensors")
	var config struct {
		LR          float64    `json:"lr"`
		WeightDecay float64    `json:"weight_decay"`
		Betas       [2]float64 `json:"betas"`
		Eps         float64    `json:"eps"`
	}
	v.Config(&config)
	o := GRITVLP().AdamW
	if o != (AdamWOptions{Moments{config.Betas[0], config.Betas[1], config.Eps}, config.WeightDecay}) {
		t.Fatalf("the vectors are of %+v, the default is %+v", config, o)
	}
	model := openVectors(t, "grit_step.safetensors") // whose weights these are: the larger ones are left out here
	for _, tensor := range v.Names() {
		if name, ok := strings.CutPrefix(tensor, "decay."); ok {
			if got := decays(name, len(model.Must("w."+name).Shape)); got != v.Bools(tensor)[0] {
				t.Errorf("%s is decayed: %v", name, got)
			}
		}
	}
	onWorker(t, func(s *torch.Scope) error {
		var names []string
		var params, grads []*torch.Tensor
		var decay []bool
		for _, tensor := range v.Names() {
			name, ok := strings.CutPrefix(tensor, "in.grad.")
			if !ok {
				continue
			}
			p := s.Float32s(v.Float32s("w."+name), v.Must("w."+name).Shape...)
			p.SetRequiresGrad(true)
			names, params, decay = append(names, name), append(params, p), append(decay, decays(name, len(p.Shape())))
			grads = append(grads, s.Float32s(v.Float32s(tensor), p.Shape()...))
		}
		optimizer, err := torch.NewAdamW(params, decay, torch.AdamWOptions{Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, WeightDecay: o.WeightDecay})
		if err != nil {
			return err
		}
		defer optimizer.Free()
		for step, scale := range v.Float64s("in.grad_scale") {
			if err := optimizer.ZeroGrad(); err != nil {
				return err
			}
			for i, p := range params { // the gradient of sum(p * g) is g
				s.Backward(s.SumAll(s.Mul(p, s.MulScalar(grads[i], scale))))
			}
			if err := optimizer.Step(config.LR); err != nil {
				return err
			}
			for i, p := range params {
				if after := name("out.after%d.%s", step+1, names[i]); v.has(after) {
					golden.Close(t, after, p.Float64s(), v.Float64s(after), 0, 1e-6)
				}
			}
		}
		return nil
	})
}
