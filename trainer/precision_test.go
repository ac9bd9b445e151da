package trainer

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// The options of workers in full and in mixed precision.
var (
	inFloat32  = torch.WorkerOptions{Threads: 2, Deterministic: true}
	inBFloat16 = torch.WorkerOptions{Threads: 2, Deterministic: true, Precision: torch.BFloat16}
)

func workerOf(t *testing.T, o torch.WorkerOptions) *torch.Worker {
	t.Helper()
	w := must.Get(torch.NewWorker(o))(t)
	t.Cleanup(w.Close)
	return w
}

func preciseTrainer(t *testing.T, w torch.WorkerOptions, o Options) *Trainer {
	t.Helper()
	before := torch.Live()
	t.Cleanup(func() {
		if n := torch.Live() - before; n != 0 {
			t.Errorf("%d tensors were not given back", n)
		}
	})
	m := must.Get(model.New(context.Background(), workerOf(t, w), testConfig, 7))(t)
	m.Vocab = testVocab()
	tr := must.Get(New(context.Background(), m, o))(t)
	t.Cleanup(tr.Free)
	return tr
}

// objectives returns the settings of the papers, each with losses that no other has. Dropout is off, because libtorch's
// own operations draw in another way.
func objectives() map[string]Options {
	fine, distilled := RetrievalFineTuning(), withQueue()
	fine.Momentum.Queue, distilled.ITC.AlphaRampSteps = 20, 0
	all := map[string]Options{"GRIT-VLP": GRITVLP(), "MAFA": MAFA(), "with GPN-S": everything(), "distilled": distilled, "fine-tuning": fine}
	for name, o := range all {
		o.Dropout = 0
		all[name] = o
	}
	return all
}

// choiceless returns a batch with one candidate for each anchor, so that roundings cannot choose another.
func choiceless(n int) *schemas.ScoredBatch {
	b := testBatch(n, 0)
	m := int(b.M)
	first := func(k int) bool { return k%m == 0 }
	keep := func(list schemas.Int32s, prob schemas.Floats32) (schemas.Int32s, schemas.Floats32) {
		var l schemas.Int32s
		var p schemas.Floats32
		for k := range list {
			if first(k) {
				l, p = append(l, list[k]), append(p, prob[k])
			}
		}
		return l, p
	}
	b.I2T, b.ProbI2T = keep(b.I2T, b.ProbI2T)
	b.T2I, b.ProbT2I = keep(b.T2I, b.ProbT2I)
	b.M = 1
	return b
}

// gradients runs a batch forward and backward.
func gradients(t *testing.T, tr *Trainer, b *schemas.ScoredBatch, in Input) (losses Losses, all []float64) {
	t.Helper()
	must.Do(t, tr.worker.Do(context.Background(), func(s *torch.Scope) error {
		f, err := tr.forwardOf(s, b, in, tr.masker(b))
		if err != nil {
			return err
		}
		total := f.total(s, tr.options)
		losses = f.losses(s, total)
		s.Backward(total)
		for _, p := range tr.model.Params() {
			g := s.Grad(p.Tensor)
			switch {
			case g == nil:
			case g.DType() != torch.Float32:
				t.Errorf("the gradient of %s is of %s", p.Name, g.DType())
			default:
				all = append(all, g.Float64s()...)
			}
		}
		return nil
	}))
	return losses, all
}

// Losses are within half a hundredth of float32's. The whole gradient points the same way: it is off by less than a
// twentieth of its length.
func TestAStepInMixedPrecision(t *testing.T) {
	b, in := choiceless(8), testInput(8, 0)
	for name, o := range objectives() {
		want, wantGradient := gradients(t, preciseTrainer(t, torchtest.On(inFloat32), o), b, in)
		for way, w := range torchtest.Ways(inBFloat16) {
			t.Run(name+", "+way, func(t *testing.T) {
				got, gradient := gradients(t, preciseTrainer(t, w, o), b, in)
				for loss, pair := range map[string][2]float64{
					"ITC": {got.ITC, want.ITC}, "ITM": {got.ITM, want.ITM}, "MLM": {got.MLM, want.MLM},
					"L_uni": {got.Uni, want.Uni}, "total": {got.Total, want.Total},
				} {
					if math.Abs(pair[0]-pair[1]) > 0.005*pair[1] {
						t.Errorf("%s is %v, want %v", loss, pair[0], pair[1])
					}
				}
				if got == want {
					t.Error("the losses have the bits of float32")
				}
				if len(gradient) != len(wantGradient) {
					t.Fatalf("gradients of %d values, want %d", len(gradient), len(wantGradient))
				}
				off, length := 0.0, 0.0
				for i, v := range wantGradient {
					off += (gradient[i] - v) * (gradient[i] - v)
					length += v * v
				}
				t.Logf("losses %+v and %+v, gradient off by %.4f", got, want, math.Sqrt(off/length))
				if math.Sqrt(off/length) > 0.05 {
					t.Errorf("the gradient is off by %.3f of its length", math.Sqrt(off/length))
				}
			})
		}
	}
}

func TestMixedPrecisionConverges(t *testing.T) {
	o := MAFA()
	o.Dropout = 0
	o.Schedule = Schedule{Kind: CosineSteps, Rate: 3e-3, WarmupRate: 3e-3, TotalSteps: 80}
	const steps = 60
	train := func(w torch.WorkerOptions) (first, last float64) {
		tr := preciseTrainer(t, w, o)
		for i := range steps {
			r := mustStep(t, tr, testBatch(8, i%2), testInput(8, i%2))
			switch {
			case i < 2:
				first += r.Losses.Total / 2
			case i >= steps-2:
				last += r.Losses.Total / 2
			}
		}
		return first, last
	}
	first, want := train(torchtest.On(inFloat32))
	for way, w := range torchtest.Ways(inBFloat16) {
		_, got := train(w)
		t.Logf("%s: from %.3f to %.3f, in float32 to %.3f", way, first, got, want)
		// It may as well end lower than float32 does.
		if fell := first - want; fell < 1 || got-want > 0.1*fell {
			t.Errorf("%s: %d steps end at a loss of %.3f, from %.3f; in float32 at %.3f", way, steps, got, first, want)
		}
	}
}

// Checkpoints are independent of the precision: master weights and moments are in float32. Training resumes from one as
// if it had never stopped.
func TestCheckpointsInMixedPrecision(t *testing.T) {
	o := withQueue()
	types := func(path string) (all []string) {
		f := must.Get(safetensors.Open(path))(t)
		for _, name := range f.Names() {
			tensor, _ := f.Tensor(name)
			all = append(all, fmt.Sprint(name, tensor.DType, tensor.Shape))
		}
		return all
	}
	trained := func(w torch.WorkerOptions) (*Trainer, string) {
		tr := preciseTrainer(t, torchtest.On(w), o)
		mustStep(t, tr, testBatch(8, 0), testInput(8, 0))
		return tr, save(t, tr, t.TempDir(), "{}")
	}
	_, full := trained(inFloat32)
	mixed, path := trained(inBFloat16)
	if got, want := types(path), types(full); !slices.Equal(got, want) {
		t.Errorf("a checkpoint of %v, want %v", got, want)
	}
	resumed, positions := must.Get2(Resume(context.Background(), workerOf(t, torchtest.On(inBFloat16)), path, o))(t)
	defer resumed.Free()
	if !json.Valid(positions) {
		t.Errorf("positions %s", positions)
	}
	for _, tr := range []*Trainer{mixed, resumed} {
		mustStep(t, tr, testBatch(8, 1), testInput(8, 1))
	}
	if readFile(t, save(t, mixed, t.TempDir(), "{}")) != readFile(t, save(t, resumed, t.TempDir(), "{}")) {
		t.Error("the checkpoints of a straight and of an interrupted run differ")
	}
}
