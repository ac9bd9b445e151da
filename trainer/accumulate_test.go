package trainer

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func inPairs(o Options) Options {
	o.StepBatches = 2
	return o
}

// The sum of four gradients is that of two sums, whatever a float32 makes of another order.
func TestGradientsAreSummedAlongATree(t *testing.T) {
	for name, c := range map[string]struct {
		leaves []float32 // NaN: the batch was set aside
		want   float32
	}{
		"four": {[]float32{1e8, 1, -1e8, 1}, 0},
		// In turn, ((1e8 + 1) - 1e8) + 1, the sum is 1.
		"one set aside":   {[]float32{1e8, float32(math.NaN()), -1e8, 1}, 0},
		"two set aside":   {[]float32{1e8, 1, float32(math.NaN()), float32(math.NaN())}, 1e8},
		"three of four":   {[]float32{1, 1e8, -1e8}, 0},
		"more than there": {[]float32{3}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			before := torch.Live()
			err := newWorker(t).Do(context.Background(), func(s *torch.Scope) error {
				var o openStep
				for _, x := range c.leaves {
					if x != x {
						o.add(nil)
						continue
					}
					o.add([]*torch.Tensor{s.Keep(s.Float32s([]float32{x}, 1)), nil})
				}
				for len(o.sums) > 1 {
					o.merge()
				}
				if got := o.sums[0].grads[0].Float32s(); got[0] != c.want || o.sums[0].grads[1] != nil {
					t.Errorf("the sum is %v, want %g", got, c.want)
				}
				o.free()
				return nil
			})
			if n := torch.Live() - before; err != nil || n != 0 {
				t.Errorf("%d tensors were not given back, %v", n, err)
			}
		})
	}
}

// The mean of a gradient with itself is that gradient. So two equal batches make the step that one makes.
func TestAStepOfTwoBatches(t *testing.T) {
	one, two := testTrainer(t, everything()), testTrainer(t, inPairs(everything()))
	start := fingerprint(t, two)
	mustStep(t, one, testBatch(4, 0), testInput(4, 0))
	first := mustStep(t, two, testBatch(4, 0), testInput(4, 0))
	if first.Updated || first.Step != 0 || two.Steps() != 0 || fingerprint(t, two) != start {
		t.Error("half a step changed the weights")
	}
	second := mustStep(t, two, testBatch(4, 0), testInput(4, 0))
	if !second.Updated || second.Step != 0 || two.Steps() != 1 || two.Batches() != 2 || second.Features.Step != 1 {
		t.Errorf("after two batches: %+v, %d steps of %d batches, features of batch %d", second, two.Steps(), two.Batches(), second.Features.Step)
	}
	if fingerprint(t, one) != fingerprint(t, two) {
		t.Error("two equal batches make another step than one of them")
	}
	mustStep(t, two, testBatch(4, 1), testInput(4, 1))
	if other := fingerprint(t, two); other != fingerprint(t, one) {
		t.Error("a third batch changed the weights")
	}
}

// A batch that is set aside has no part in the mean, and its step counts it.
func TestABatchOfAStepIsSetAside(t *testing.T) {
	o := withQueue()
	one := testTrainer(t, o)
	mustStep(t, one, testBatch(4, 1), testInput(4, 1))
	two := testTrainer(t, inPairs(o))
	two.options.MLMWeight = math.Inf(1)
	if r := mustStep(t, two, testBatch(4, 0), testInput(4, 0)); r.SetAside == "" || r.Updated {
		t.Fatalf("the first batch: %+v", r)
	}
	two.options.MLMWeight = o.MLMWeight
	if r := mustStep(t, two, testBatch(4, 1), testInput(4, 1)); r.SetAside != "" || !r.Updated || two.Steps() != 1 || len(two.momentum.ids) != 4 {
		t.Fatalf("the second batch: %+v", r)
	}
	if fingerprint(t, one) != fingerprint(t, two) || !slices.Equal(one.momentum.ids, two.momentum.ids) {
		t.Error("a batch that was set aside has a part in the step")
	}
}

// A step that is made again, with the masks that its features have in the log, leaves the same batch out of the mean.
func TestAStepWithABatchSetAsideIsRepeated(t *testing.T) {
	first, again := testTrainer(t, inPairs(everything())), testTrainer(t, inPairs(everything()))
	weight := first.options.MLMWeight
	first.options.MLMWeight = math.Inf(1)
	r := mustStep(t, first, testBatch(4, 0), testInput(4, 0))
	first.options.MLMWeight = weight
	known := testInput(4, 0)
	known.Masked = r.Features.Masked
	mustStep(t, again, testBatch(4, 0), known)
	for _, tr := range []*Trainer{first, again} {
		if mustStep(t, tr, testBatch(4, 1), testInput(4, 1)); tr.Steps() != 1 {
			t.Fatalf("%d steps", tr.Steps())
		}
	}
	if readFile(t, save(t, first, t.TempDir(), "{}")) != readFile(t, save(t, again, t.TempDir(), "{}")) {
		t.Error("the step that was made again ends in another state")
	}
}

// A checkpoint within a step is one of its beginning. A step that gets no more batches ends with those that it has.
func TestAnOpenStep(t *testing.T) {
	o := inPairs(withQueue())
	train := func(tr *Trainer, from, to int) {
		for i := from; i < to; i++ {
			mustStep(t, tr, testBatch(4, i), testInput(4, i))
		}
	}
	straight := testTrainer(t, o)
	train(straight, 0, 4)
	stopped := testTrainer(t, o)
	train(stopped, 0, 3)
	resumed, _ := must.Get2(Resume(context.Background(), newWorker(t), save(t, stopped, t.TempDir(), "{}"), o))(t)
	defer resumed.Free()
	if resumed.Steps() != 1 || resumed.Batches() != 2 {
		t.Fatalf("resumed at %d steps and %d batches, want 1 and 2", resumed.Steps(), resumed.Batches())
	}
	train(straight, 4, 5)
	train(resumed, 2, 5)
	for _, tr := range []*Trainer{straight, resumed} {
		before := fingerprint(t, tr)
		if done, err := tr.Finish(context.Background()); !done || err != nil || tr.Steps() != 3 || tr.Batches() != 5 || fingerprint(t, tr) == before {
			t.Errorf("finishing the third step: %t, %v, %d steps, %d batches", done, err, tr.Steps(), tr.Batches())
		}
		if done, err := tr.Finish(context.Background()); done || err != nil {
			t.Errorf("finishing again: %t, %v", done, err)
		}
	}
	if readFile(t, save(t, straight, t.TempDir(), "{}")) != readFile(t, save(t, resumed, t.TempDir(), "{}")) {
		t.Error("a run that was interrupted within a step differs from a straight one")
	}
}
