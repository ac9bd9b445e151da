package trainer

import (
	"context"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func TestOnlySamples(t *testing.T) {
	b := batchOf(4, 2, []int32{1, 2, 0, 3, 3, 1, 2, 0}, []float32{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8})
	b.Samples[0].Partners, b.Samples[3].Partners = schemas.Int32s{3, 1}, schemas.Int32s{0}
	got := onlySamples(b, []int64{0, 2, 3})
	if want := (schemas.Int32s{1, -1, 2, -1, 1, 0}); !reflect.DeepEqual(got.I2T, want) || !reflect.DeepEqual(got.T2I, want) {
		t.Errorf("candidates %v and %v, want %v", got.I2T, got.T2I, want)
	}
	if want := (schemas.Floats32{0.2, 0, 0.5, 0, 0.7, 0.8}); !reflect.DeepEqual(got.ProbI2T, want) {
		t.Errorf("probabilities %v, want %v", got.ProbI2T, want)
	}
	if p := got.Samples[0].Partners; !reflect.DeepEqual(p, schemas.Int32s{2}) {
		t.Errorf("partners %v, want 2 alone", p)
	}
	if len(b.Samples) != 4 || len(b.I2T) != 8 {
		t.Error("the batch itself was changed")
	}
}

// maskSamples masks samples as Con-D's record does, without any verdict about them.
func maskSamples(b *schemas.ScoredBatch, samples ...int32) *schemas.ScoredBatch {
	for _, i := range samples {
		b.Masked = append(b.Masked, schemas.Mask{Sample: i, Reason: schemas.MaskMissing})
	}
	for k := range b.I2T {
		for _, i := range samples {
			anchor := int32(k) / b.M
			if anchor == i || b.I2T[k] == i {
				b.ProbI2T[k] = 0
			}
			if anchor == i || b.T2I[k] == i {
				b.ProbT2I[k] = 0
			}
		}
	}
	return b
}

// withoutRows takes samples out of an input.
func withoutRows(in Input, n int, gone ...int) Input {
	image := len(in.Pixels) / n
	out := Input{}
	for i := range n {
		if !slices.Contains(gone, i) {
			out.Pixels = append(out.Pixels, in.Pixels[i*image:(i+1)*image]...)
			out.Positives = append(out.Positives, in.Positives[i*image:(i+1)*image]...)
			out.IDs = append(out.IDs, in.IDs[i])
		}
	}
	return out
}

// A masked sample has no part in any loss. The losses are those of the batch without it, and its pixels do not change
// the weights. Its features still travel.
func TestMaskedSamplesTakeNoPart(t *testing.T) {
	o := everything()
	o.Dropout = 0 // which is keyed by an element's place
	o.Momentum = MomentumOptions{Decay: 0.9, Queue: 20}
	in := testInput(8, 0)
	whole := testTrainer(t, o)
	r := mustStep(t, whole, maskSamples(testBatch(8, 0), 2, 5), in)
	shorter := testTrainer(t, o)
	b := onlySamples(maskSamples(testBatch(8, 0), 2, 5), []int64{0, 1, 3, 4, 6, 7})
	want := mustStep(t, shorter, b, withoutRows(in, 8, 2, 5))
	for name, pair := range map[string][2]float64{
		"ITC": {r.Losses.ITC, want.Losses.ITC}, "ITM": {r.Losses.ITM, want.Losses.ITM},
		"MLM": {r.Losses.MLM, want.Losses.MLM}, "Uni": {r.Losses.Uni, want.Losses.Uni},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-5 || pair[0] == 0 {
			t.Errorf("%s is %g with masks and %g without the samples", name, pair[0], pair[1])
		}
	}
	if r.Counts.Samples != 6 || r.Counts.Masked != 2 || r.Counts.MaskedRows < 6 {
		t.Errorf("counts %+v", r.Counts)
	}
	if len(r.Features.Positions) != 8 || !reflect.DeepEqual(r.Features.Masked, maskSamples(testBatch(8, 0), 2, 5).Masked) {
		t.Errorf("features of %d samples with masks %v", len(r.Features.Positions), r.Features.Masked)
	}
	must.Check(t, r.Features.Validate())

	black := testInput(8, 0)
	image := len(black.Pixels) / 8
	clear(black.Pixels[2*image : 3*image])
	clear(black.Pixels[5*image : 6*image])
	other := testTrainer(t, o)
	mustStep(t, other, maskSamples(testBatch(8, 0), 2, 5), black)
	if fingerprint(t, other) != fingerprint(t, whole) {
		t.Error("the pixels of masked samples move the weights")
	}
}

// A mask of the input counts like a mask of the batch, and the mask of a positive takes no sample out.
func TestMasksOfTheInput(t *testing.T) {
	a, b := testTrainer(t, everything()), testTrainer(t, everything())
	in := testInput(8, 0)
	in.Masked = []schemas.Mask{{Sample: 1, Positive: true, Reason: "missing"}, {Sample: 5, Reason: "missing"}, {Sample: 2, Reason: "changed"}}
	batch := maskSamples(testBatch(8, 0), 2)
	for k := range batch.I2T { // Con-D scored sample 5 while it was still there
		batch.ProbI2T[k], batch.ProbT2I[k] = 0, 0
	}
	r := mustStep(t, a, batch, in)
	both := maskSamples(testBatch(8, 0), 2, 5)
	both.ProbI2T, both.ProbT2I = batch.ProbI2T, batch.ProbT2I
	mustStep(t, b, both, testInput(8, 0))
	if fingerprint(t, a) != fingerprint(t, b) {
		t.Error("a mask of the input trains otherwise than one of the batch")
	}
	want := []schemas.Mask{{Sample: 1, Positive: true, Reason: "missing"}, {Sample: 2, Reason: "missing"}, {Sample: 5, Reason: "missing"}}
	if !reflect.DeepEqual(r.Features.Masked, want) || r.Counts.Masked != 2 {
		t.Errorf("masks %v and %d samples left out, want %v and 2", r.Features.Masked, r.Counts.Masked, want)
	}
}

// A batch whose images are all gone changes nothing, and its features travel.
func TestABatchOfMasks(t *testing.T) {
	tr := testTrainer(t, everything())
	before := fingerprint(t, tr)
	r := mustStep(t, tr, maskSamples(unscored(3), 0, 1, 2), testInput(3, 0))
	if r.Losses != (Losses{}) || r.Counts.Masked != 3 || fingerprint(t, tr) != before || tr.Steps() != 1 {
		t.Errorf("losses %+v, counts %+v, %d steps", r.Losses, r.Counts, tr.Steps())
	}
	must.Check(t, r.Features.Validate())
}

// setBias overwrites the matching head's bias. With NaN every ITM loss is NaN, and the features are as before.
func setBias(t *testing.T, tr *Trainer, values []float64) (old []float64) {
	t.Helper()
	must.Do(t, tr.worker.Do(context.Background(), func(*torch.Scope) error {
		for _, p := range tr.model.Params() {
			if p.Name == "itm_head.bias" {
				old = p.Tensor.Float64s()
				p.Tensor.SetFloat64s(values)
			}
		}
		return nil
	}))
	return old
}

// A batch whose loss is not a finite number is set aside after some tries. The weights stay, its step counts, and its
// features travel, all masked. The next batch trains.
func TestALossThatIsNotFiniteIsSetAside(t *testing.T) {
	o := MAFA()
	o.Momentum = MomentumOptions{Decay: 0.9, Queue: 20}
	tr := testTrainer(t, o)
	old := setBias(t, tr, []float64{math.NaN(), 0})
	before := fingerprint(t, tr)
	r := mustStep(t, tr, testBatch(4, 0), testInput(4, 0))
	if r.SetAside == "" || len(r.Features.Masked) != 4 || r.Features.Masked[3] != (schemas.Mask{Sample: 3, Reason: "not_finite"}) || r.Features.Step != 0 {
		t.Errorf("set aside because %q, features %+v", r.SetAside, r.Features)
	}
	must.Check(t, r.Features.Validate())
	if fingerprint(t, tr) != before || tr.Steps() != 1 || len(tr.momentum.ids) != 0 {
		t.Errorf("weights changed, or %d steps, or %d entries in the queue", tr.Steps(), len(tr.momentum.ids))
	}
	setBias(t, tr, old)
	if r = mustStep(t, tr, testBatch(4, 1), testInput(4, 1)); r.SetAside != "" || r.Step != 1 || r.Losses.Total <= 0 || len(tr.momentum.ids) != 4 {
		t.Errorf("the next batch: %+v", r)
	}
}
