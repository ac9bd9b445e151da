package trainer

import (
	"context"
	"math"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func clipped(o Options, norm float64) Options {
	o.ClipNorm = norm
	return o
}

// momentLength returns the length of the first moments, which is 1 - Beta1 of the gradient's after the first step.
func momentLength(t *testing.T, tr *Trainer) float64 {
	t.Helper()
	var state torch.AdamWState
	must.Do(t, tr.worker.Do(context.Background(), func(*torch.Scope) error {
		state = tr.optimizer.State()
		return nil
	}))
	sum := 0.0
	for _, mean := range state.Means {
		for _, x := range mean {
			sum += float64(x) * float64(x)
		}
	}
	return math.Sqrt(sum)
}

// A gradient above the limit is scaled to it, one below it stays as it is, to the bit.
func TestGradientsAreClipped(t *testing.T) {
	step := func(o Options) *Trainer {
		tr := testTrainer(t, o)
		for i := range o.StepBatches {
			mustStep(t, tr, testBatch(4, i), testInput(4, i))
		}
		return tr
	}
	for name, o := range map[string]Options{"one batch": everything(), "two batches": inPairs(everything())} {
		t.Run(name, func(t *testing.T) {
			free := step(o)
			length := momentLength(t, free) / (1 - o.AdamW.Beta1)
			if loose := step(clipped(o, 2*length)); fingerprint(t, loose) != fingerprint(t, free) || momentLength(t, loose) != momentLength(t, free) {
				t.Error("a limit above the gradient's length changes the step")
			}
			tight := step(clipped(o, length/8))
			if got := momentLength(t, tight) / (1 - o.AdamW.Beta1); math.Abs(got/(length/8)-1) > 1e-3 {
				t.Errorf("the gradient's length is %g, want %g", got, length/8)
			}
		})
	}
}
