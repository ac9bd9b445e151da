package trainer

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func gathered(o Options) Options {
	o.ITC.Gather = true
	return o
}

// prepareAll makes the first pass over the batches of a step, if it has one.
func prepareAll(t *testing.T, tr *Trainer, batches ...int) (blocks []*schemas.FeatureBlock) {
	t.Helper()
	if !tr.options.Gathers() {
		return nil
	}
	for _, i := range batches {
		block := must.Get(tr.Prepare(context.Background(), testBatch(4, i), testInput(4, i)))(t)
		blocks = append(blocks, block)
	}
	return blocks
}

// prepareOnRanks makes the first pass on all ranks, and gives the keys of each to all.
func prepareOnRanks(t *testing.T, ranks []*Trainer, batches []int) {
	t.Helper()
	if !ranks[0].options.Gathers() {
		return
	}
	all := make(map[int]Keys)
	for number, i := range batches {
		tr := ranks[number/(ranks[0].options.StepBatches/len(ranks))]
		must.Get(tr.PrepareAt(context.Background(), testBatch(4, i), testInput(4, i), number))(t)
	}
	for _, tr := range ranks {
		own := must.Get(tr.Prepared(context.Background()))(t)
		maps.Copy(all, own)
	}
	for _, tr := range ranks {
		must.Do(t, tr.Gather(context.Background(), all))
	}
}

// gradientOf learns from batches of n samples each and returns the mean gradient by parameter.
func gradientOf(t *testing.T, o Options, batches []*schemas.ScoredBatch, inputs []Input) [][]float32 {
	t.Helper()
	tr := testTrainer(t, o)
	if o.Gathers() {
		for i, b := range batches {
			must.Get(tr.Prepare(context.Background(), b, inputs[i]))(t)
		}
	}
	for i, b := range batches {
		must.Get(tr.Learn(context.Background(), b, inputs[i], i, nil))(t)
	}
	var share runs
	must.Get(tr.TakeShare(context.Background(), share.give(tr)))(t)
	for _, g := range share.all {
		for i := range g {
			g[i] /= float32(len(batches))
		}
	}
	return share.all
}

// ITC alone, over two batches that are gathered, has the gradient of one batch with the samples of both.
func TestGatheredBatchesAreOneLargeBatch(t *testing.T) {
	const n = 4
	whole, all := unscored(2*n), testInput(2*n, 0)
	// The third sample of the second batch shows the image of the first batch's second.
	whole.Samples[n+2].ImageID = whole.Samples[1].ImageID
	whole.Samples[n+2].Partners, whole.Samples[1].Partners = schemas.Int32s{1}, schemas.Int32s{n + 2}
	for i := range all.IDs {
		all.IDs[i] = slices.Concat(all.IDs[0][:3], []int32{int32(7 + i)}, []int32{3}) // of one length: no padding
	}
	pixels := len(all.Pixels) / 2
	var halves []*schemas.ScoredBatch
	var inputs []Input
	for k := range 2 {
		b := unscored(n)
		b.Sequence, b.Batches = int32(k), 2
		copy(b.Samples, whole.Samples[k*n:])
		for i := range b.Samples {
			b.Samples[i].Partners = nil
		}
		halves = append(halves, b)
		inputs = append(inputs, Input{Pixels: all.Pixels[k*pixels : (k+1)*pixels], IDs: all.IDs[k*n : (k+1)*n]})
	}
	base := MAFA()
	base.ITMWeight, base.MLMWeight, base.Dropout, base.StepBatches = 0, 0, 0, 2
	for name, change := range map[string]func(*Options){
		"one-hot":     func(o *Options) { o.ITC.Targets = OneHot },
		"smoothed":    func(o *Options) { o.ITC.Targets, o.ITC.SoftFromEpoch = Smoothed, 0 },
		"consistency": func(o *Options) { o.ITC.Targets = Consistency },
		"mix":         func(o *Options) { o.ITC.Targets, o.ITC.Form = Consistency, Mix },
		"distilled":   func(o *Options) { o.ITC.Targets, o.Momentum.Decay = Distilled, 0.995 },
	} {
		t.Run(name, func(t *testing.T) {
			o := base
			change(&o)
			want := gradientOf(t, o, []*schemas.ScoredBatch{whole}, []Input{all})
			got := gradientOf(t, gathered(o), halves, inputs)
			apart := gradientOf(t, o, halves, inputs)
			length, off, offApart := 0.0, 0.0, 0.0
			for i := range want {
				for k, g := range want[i] {
					length += float64(g) * float64(g)
					off += math.Pow(float64(got[i][k]-g), 2)
					offApart += math.Pow(float64(apart[i][k]-g), 2)
				}
			}
			if length == 0 || off > 1e-8*length {
				t.Errorf("the gradient of the gathered batches is off by %g of %g", math.Sqrt(off), math.Sqrt(length))
			}
			if offApart < 1e-2*length {
				t.Errorf("without gathering it is off by %g of %g only", math.Sqrt(offApart), math.Sqrt(length))
			}
		})
	}
}

// The first pass makes the features of the second, bit by bit, and a batch gives others the keys that it has itself.
func TestBothPassesAreAlike(t *testing.T) {
	for name, o := range map[string]Options{"own features": gathered(everything()), "momentum": gathered(withTCL())} {
		t.Run(name, func(t *testing.T) {
			o.StepBatches = 4
			o.Momentum.Queue = min(o.Momentum.Queue, 16)
			tr := testTrainer(t, o)
			blocks := prepareAll(t, tr, 0, 1, 2, 3)
			prepared := must.Get(tr.Prepared(context.Background()))(t)
			for i, block := range blocks {
				r := mustStep(t, tr, testBatch(4, i), testInput(4, i))
				if !reflect.DeepEqual(&r.Features, block) {
					t.Errorf("batch %d has other features in the second pass", i)
				}
			}
			if tr.Steps() != 1 {
				t.Fatalf("%d steps, want 1", tr.Steps())
			}
			if tr.momentum == nil {
				return
			}
			must.Do(t, tr.worker.Do(context.Background(), func(*torch.Scope) error {
				var want []float32
				for _, number := range []int{3, 2, 1, 0} { // newest first
					want = append(want, prepared[number].Text...)
				}
				if !slices.Equal(tr.momentum.text.Float32s(), want) {
					t.Error("the queue got other keys than the other batches")
				}
				return nil
			}))
		})
	}
}

// A gathered step differs from one that is not. A step of one batch has nothing to gather, and no first pass.
func TestWhatGatheringChanges(t *testing.T) {
	for name, o := range map[string]Options{"mafa": everything(), "tcl": withTCL()} {
		after := func(o Options) string {
			tr := testTrainer(t, o)
			for i := range o.StepBatches {
				prepareAll(t, tr, i)
			}
			for i := range o.StepBatches {
				mustStep(t, tr, testBatch(4, i), testInput(4, i))
			}
			return readFile(t, save(t, tr, t.TempDir(), "{}"))
		}
		for batches, same := range map[int]bool{1: true, 2: false} {
			o.StepBatches = batches
			if got := after(o) == after(gathered(o)); got != same {
				t.Errorf("%s: %d batches a step: the state is the same: %t, want %t", name, batches, got, same)
			}
		}
	}
}

// Columns are those of the batch, of the others in the order of the step, and of the queue. Masked samples have none.
func TestWhatIsGathered(t *testing.T) {
	o := gathered(withTCL())
	o.StepBatches = 4
	tr := testTrainer(t, o)
	prepareAll(t, tr, 0, 1, 2, 3)
	for i := range 4 {
		mustStep(t, tr, testBatch(4, i), testInput(4, i)) // fills the queue with 16
	}
	lost := testInput(4, 5)
	for i := range int32(4) {
		lost.Masked = append(lost.Masked, schemas.Mask{Sample: i, Reason: schemas.MaskForbidden})
	}
	some := testInput(4, 6)
	some.Masked = []schemas.Mask{{Sample: 1, Reason: schemas.MaskForbidden}}
	inputs := []Input{testInput(4, 4), lost, some}
	for i, in := range inputs {
		must.Get(tr.Prepare(context.Background(), testBatch(4, 4+i), in))(t)
	}
	must.Do(t, tr.worker.Do(context.Background(), func(s *torch.Scope) error {
		b := testBatch(4, 6)
		x, err := tr.receive(s, some)
		if err != nil {
			return err
		}
		if x.others, err = tr.open.others(2); err != nil {
			return err
		}
		f, err := tr.forward(s, b, x, masksOf(b, some), tr.masker(b))
		if err != nil {
			return err
		}
		for what, sim := range map[string]*torch.Tensor{"simI2T": f.simI2T, "simT2I": f.simT2I, "simI2I": f.simI2I, "simT2T": f.simT2T} {
			if shape := sim.Shape(); !slices.Equal(shape, []int64{3, 3 + 4 + 16}) {
				t.Errorf("%s is %v", what, shape)
			}
		}
		var want []schemas.ImageID
		for _, sample := range testBatch(4, 4).Samples {
			want = append(want, sample.ImageID)
		}
		if want = append(want, tr.momentum.ids...); !slices.Equal(f.keys.others, want) {
			t.Errorf("behind the batch are %v, want %v", f.keys.others, want)
		}
		return nil
	}))
	for i, in := range inputs {
		if r := mustStep(t, tr, testBatch(4, 4+i), in); r.Counts.Masked != len(in.Masked) {
			t.Errorf("batch %d: %+v", i, r.Counts)
		}
	}
	if done, err := tr.Finish(context.Background()); !done || err != nil || tr.Steps() != 2 || tr.Batches() != 7 {
		t.Errorf("the short step: %t, %v, %d steps of %d batches", done, err, tr.Steps(), tr.Batches())
	}
}

// An input that was sent serves both passes, and is given back when only the first one comes.
func TestAnInputServesBothPasses(t *testing.T) {
	o := gathered(inPairs(withTCL()))
	o.Momentum.Queue = 0
	sent, whole := testTrainer(t, o), testTrainer(t, o)
	prepareAll(t, whole, 0, 1)
	var inputs []Input
	for i := range 2 {
		in := must.Get(sent.Send(testInput(4, i)))(t)
		must.Get(sent.Prepare(context.Background(), testBatch(4, i), in))(t)
		inputs = append(inputs, in)
	}
	for i, in := range inputs {
		mustStep(t, sent, testBatch(4, i), in)
		mustStep(t, whole, testBatch(4, i), testInput(4, i))
	}
	if fingerprint(t, sent) != fingerprint(t, whole) {
		t.Error("an input that was sent trains other weights")
	}
	left := testTrainer(t, o)
	in := must.Get(left.Send(testInput(4, 2)))(t)
	must.Get(left.Prepare(context.Background(), testBatch(4, 2), in))(t)
	in.Free() // testTrainer counts what is left
}

// A step that is begun anew, from a checkpoint between its two passes, ends in the same state.
func TestAGatheredStepIsRepeated(t *testing.T) {
	o := gathered(inPairs(withQueue()))
	straight := testTrainer(t, o)
	prepareAll(t, straight, 0)
	resumed, _ := must.Get2(Resume(context.Background(), newWorker(t), save(t, straight, t.TempDir(), "{}"), o))(t)
	defer resumed.Free()
	prepareAll(t, straight, 1)
	prepareAll(t, resumed, 0, 1)
	for _, tr := range []*Trainer{straight, resumed} {
		mustStep(t, tr, testBatch(4, 0), testInput(4, 0))
		mustStep(t, tr, testBatch(4, 1), testInput(4, 1))
	}
	if readFile(t, save(t, straight, t.TempDir(), "{}")) != readFile(t, save(t, resumed, t.TempDir(), "{}")) {
		t.Error("a step that was begun anew ends in another state")
	}
}

func TestGatheringRefuses(t *testing.T) {
	tr := testTrainer(t, gathered(inPairs(everything())))
	broken := testInput(4, 0)
	broken.Pixels[0] = float32(math.NaN())
	_, notPrepared := tr.Step(context.Background(), testBatch(4, 0), testInput(4, 0))
	_, notFinite := tr.Prepare(context.Background(), testBatch(4, 0), broken)
	_, noPixels := tr.Prepare(context.Background(), testBatch(4, 0), Input{})
	for want, err := range map[string]error{
		"batch 0 of the step was not prepared":              notPrepared,
		"not a finite number: before any loss: the weights": notFinite,
		"0 pixel values for 4 images":                       noPixels,
		"keys of batch 2, want 0 to 1":                      tr.Gather(context.Background(), map[int]Keys{2: {}}),
		"batch 1: keys of 1 and 0 values for 0 images":      tr.Gather(context.Background(), map[int]Keys{1: {Image: []float32{1}}}),
	} {
		if err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if tr.Steps() != 0 || len(tr.open.prepared) != 0 {
		t.Error("what was refused has left something behind")
	}
}
