package trainer

import (
	"context"
	"math"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// weightsOf copies one weight matrix out of the model and out of its average.
func weightsOf(t *testing.T, tr *Trainer, name string) (own, average []float64) {
	t.Helper()
	err := tr.worker.Do(context.Background(), func(*torch.Scope) error {
		for i, p := range tr.model.Params() {
			if p.Name == name {
				own, average = p.Tensor.Float64s(), tr.momentum.model.Params()[i].Tensor.Float64s()
			}
		}
		return nil
	})
	if err != nil || own == nil {
		t.Fatalf("reading %s: %v", name, err)
	}
	return own, average
}

// The average moves before every step. So after the second step it has seen the weights that the first one made.
func TestMomentumFollowsTheWeights(t *testing.T) {
	o := withQueue()
	o.Schedule = Schedule{Kind: CosineSteps, Rate: 1e-2, WarmupRate: 1e-2, TotalSteps: 60}
	tr := testTrainer(t, o)
	const name = "visual_encoder.blocks.1.mlp.fc1.weight"
	start, average := weightsOf(t, tr, name)
	for i := range start {
		if start[i] != average[i] {
			t.Fatalf("weight %d starts as %v, its average as %v", i, start[i], average[i])
		}
	}
	mustStep(t, tr, testBatch(8, 0), testInput(8, 0))
	first, _ := weightsOf(t, tr, name)
	mustStep(t, tr, testBatch(8, 1), testInput(8, 1))
	_, average = weightsOf(t, tr, name)
	for i := range average {
		if want := 0.9*start[i] + 0.1*first[i]; math.Abs(average[i]-want) > 1e-6 {
			t.Fatalf("the average of weight %d is %v, want %v", i, average[i], want)
		}
	}
}

// In the first step average and weights are the same. So the keys in the queue are the published features.
func TestQueueHoldsFeatures(t *testing.T) {
	o := withQueue()
	o.Dropout = 0 // or the two would drop different elements
	tr := testTrainer(t, o)
	r := mustStep(t, tr, testBatch(8, 0), testInput(8, 0))
	var image, text []float32
	must.Do(t, tr.worker.Do(context.Background(), func(*torch.Scope) error {
		image, text = tr.momentum.image.Float32s(), tr.momentum.text.Float32s()
		return nil
	}))
	near := func(what string, got, want []float32) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
		}
		for i := range got {
			if math.Abs(float64(got[i]-want[i])) > 1e-3 { // the features travel as float16
				t.Errorf("%s: value %d is %v, want %v", what, i, got[i], want[i])
			}
		}
	}
	near("image keys", image, r.Features.V.Floats())
	near("text keys", text, r.Features.T.Floats())
}
