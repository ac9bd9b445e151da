package trainer

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

var testConfig = model.Config{
	ImageSize: 32, PatchSize: 16, VisionDim: 32, VisionDepth: 2, VisionHeads: 2,
	TextHidden: 32, TextLayers: 4, FusionLayer: 2, TextHeads: 2, TextIntermediate: 64,
	VocabSize: 40, MaxPositions: 16, EmbedDim: 16, TextTokens: 12,
}

func testModel(t *testing.T) *model.Model {
	t.Helper()
	m := must.Get(model.New(context.Background(), newWorker(t), testConfig, 7))(t)
	m.Vocab = testVocab()
	return m
}

func testVocab() []string {
	vocab := make([]string, testConfig.VocabSize)
	copy(vocab, []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
	for i := 5; i < len(vocab); i++ {
		vocab[i] = name("word%d", i)
	}
	return vocab
}

func testTrainer(t *testing.T, o Options) *Trainer {
	t.Helper()
	before := torch.Live()
	t.Cleanup(func() {
		if n := torch.Live() - before; n != 0 {
			t.Errorf("%d tensors were not given back", n)
		}
	})
	tr := must.Get(New(context.Background(), testModel(t), o))(t)
	t.Cleanup(tr.Free)
	return tr
}

// testInput returns n samples of noise, others for every sequence.
func testInput(n, sequence int) Input {
	r := rng.New(1, "input", int64(sequence))
	noise := func() []float32 {
		pixels := make([]float32, n*3*testConfig.ImageSize*testConfig.ImageSize)
		for i := range pixels {
			pixels[i] = float32(r.NormFloat64())
		}
		return pixels
	}
	in := Input{Pixels: noise(), Positives: noise()}
	for range n {
		ids := []int32{2}
		for range 3 + r.IntN(6) {
			ids = append(ids, int32(5+r.IntN(35)))
		}
		in.IDs = append(in.IDs, append(ids, 3))
	}
	in.Second = noise()
	return in
}

// testBatch returns n samples with three candidates each. Con-D takes some for connections and some for ambiguous.
func testBatch(n, sequence int) *schemas.ScoredBatch {
	b := unscored(n)
	b.Sequence, b.Batches, b.M = int32(sequence), 100, int32(min(3, n-1))
	r := rng.New(1, "batch", int64(sequence))
	for anchor := range n {
		for k := range int(b.M) {
			b.I2T = append(b.I2T, int32((anchor+1+k)%n))
			b.T2I = append(b.T2I, int32((anchor+n-1-k)%n))
			b.ProbI2T = append(b.ProbI2T, r.Float32())
			b.ProbT2I = append(b.ProbT2I, r.Float32())
		}
	}
	return b
}

func mustStep(t *testing.T, tr *Trainer, b *schemas.ScoredBatch, in Input) *Result {
	t.Helper()
	r := must.Get(tr.Step(context.Background(), b, in))(t)
	return r
}

func fingerprint(t *testing.T, tr *Trainer) string {
	t.Helper()
	f := must.Get(tr.model.Fingerprint(context.Background()))(t)
	return f
}

func everything() Options {
	o := MAFA()
	o.UniWeight = 1
	return o
}

func TestStepsRepeat(t *testing.T) {
	a, b := testTrainer(t, everything()), testTrainer(t, everything())
	for i := range 3 {
		ra, rb := mustStep(t, a, testBatch(8, i), testInput(8, i)), mustStep(t, b, testBatch(8, i), testInput(8, i))
		if ra.Losses != rb.Losses || !slices.Equal(ra.Features.V, rb.Features.V) {
			t.Fatalf("step %d: %+v and %+v", i, ra.Losses, rb.Losses)
		}
	}
	if fa, fb := fingerprint(t, a), fingerprint(t, b); fa != fb {
		t.Errorf("the same steps end in weights %s and %s", fa, fb)
	}
}

func TestStepReports(t *testing.T) {
	tr := testTrainer(t, everything())
	for i := range 2 {
		b := testBatch(8, i)
		r := mustStep(t, tr, b, testInput(8, i))
		if r.Step != int64(i) || r.Rate != tr.options.Schedule.At(int64(i)) {
			t.Errorf("step %d at rate %g", r.Step, r.Rate)
		}
		l, c := r.Losses, r.Counts
		if l.ITC <= 0 || l.ITM <= 0 || l.MLM <= 0 || l.Uni <= 0 || math.Abs(l.ITC+l.ITM+l.MLM+l.Uni-l.Total) > 1e-4 {
			t.Errorf("losses %+v", l)
		}
		if c.Samples != 8 || c.Candidates != 48 || c.Negatives+c.Ambiguous+c.Connections+c.Alone != 16 ||
			c.MatchPairs != 24 || c.MaskedRows != 8+c.Connections || c.MaskedTokens == 0 || c.Connections == 0 || c.Ambiguous == 0 {
			t.Errorf("counts %+v", c)
		}
		if err := r.Features.Validate(); err != nil {
			t.Errorf("features: %v", err)
		}
		if r.Features.Step != int64(i) || r.Features.Sequence != b.Sequence || !slices.Equal(r.Features.Positions, schemas.Int32s{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Errorf("features %+v", r.Features)
		}
	}
	if tr.Steps() != 2 {
		t.Errorf("%d steps done, want 2", tr.Steps())
	}
}

// Every loss goes into the total with its own weight.
func TestTotalWeighsEachLoss(t *testing.T) {
	o := everything()
	o.ITCWeight, o.ITMWeight, o.MLMWeight, o.UniWeight = 2, 3, 5, 7
	l := mustStep(t, testTrainer(t, o), testBatch(8, 0), testInput(8, 0)).Losses
	if want := 2*l.ITC + 3*l.ITM + 5*l.MLM + 7*l.Uni; math.Abs(l.Total-want) > 1e-5*want {
		t.Errorf("losses %+v add up to %g, want %g", l, l.Total, want)
	}
}

func TestLossesFallOnOneBatch(t *testing.T) {
	o := MAFA()
	o.ITC.Targets = OneHot
	o.Schedule = Schedule{Kind: CosineSteps, Rate: 3e-3, WarmupRate: 3e-3, TotalSteps: 60}
	tr := testTrainer(t, o)
	b, in := testBatch(8, 0), testInput(8, 0)
	var first, last *Result
	for i := range 40 {
		last = mustStep(t, tr, b, in)
		if i == 0 {
			first = last
		}
	}
	for name, pair := range map[string][2]float64{
		"ITC": {first.Losses.ITC, last.Losses.ITC}, "ITM": {first.Losses.ITM, last.Losses.ITM}, "MLM": {first.Losses.MLM, last.Losses.MLM},
	} {
		if pair[1] > 0.9*pair[0] {
			t.Errorf("%s fell from %.3f to %.3f only", name, pair[0], pair[1])
		}
	}
}

func TestStepOfOddBatches(t *testing.T) {
	connected := testBatch(6, 0)
	for i := range connected.ProbI2T {
		connected.ProbI2T[i], connected.ProbT2I[i] = 0.95, 0.95
	}
	partners := unscored(2)
	partners.Samples[0].Partners, partners.Samples[1].Partners = schemas.Int32s{1}, schemas.Int32s{0}
	for _, c := range []struct {
		name  string
		batch *schemas.ScoredBatch
		want  Counts
	}{
		{"one sample", unscored(1), Counts{Samples: 1, Alone: 2, MatchPairs: 1, Dropped: 2, MaskedRows: 1}},
		{
			"every candidate is a connection", connected,
			Counts{Samples: 6, Candidates: 36, Confirmed: 36, Anchors: 12, Connections: 12, MatchPairs: 18, MaskedRows: 18},
		},
		{"all show the same image", partners, Counts{Samples: 2, Alone: 4, MatchPairs: 2, Dropped: 4, MaskedRows: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustStep(t, testTrainer(t, MAFA()), c.batch, testInput(c.want.Samples, 0))
			r.Counts.MaskedTokens, r.Counts.HardestScored = 0, 0
			if r.Counts != c.want {
				t.Errorf("counts %+v, want %+v", r.Counts, c.want)
			}
			if c.want.Samples == 1 && r.Losses.ITC != 0 {
				t.Errorf("ITC of one candidate is %g, want 0", r.Losses.ITC)
			}
		})
	}
}

func TestStepWithoutAMaskedToken(t *testing.T) {
	o := MAFA()
	o.MaskProbability = 0
	if r := mustStep(t, testTrainer(t, o), testBatch(4, 0), testInput(4, 0)); r.Losses.MLM != 0 || r.Counts.MaskedTokens != 0 {
		t.Errorf("MLM without a masked token: %+v, %+v", r.Losses, r.Counts)
	}
	o.ITCWeight, o.ITMWeight = 0, 0
	tr := testTrainer(t, o)
	before := fingerprint(t, tr)
	if r := mustStep(t, tr, testBatch(4, 0), testInput(4, 0)); r.Losses != (Losses{}) || fingerprint(t, tr) != before {
		t.Errorf("a step with nothing to learn: %+v", r.Losses)
	}
}

func TestFeaturesThatAreNoNumbersEndTheStep(t *testing.T) {
	tr := testTrainer(t, MAFA())
	before := fingerprint(t, tr)
	in := testInput(4, 0)
	in.Pixels[0] = float32(math.NaN())
	if _, err := tr.Step(context.Background(), testBatch(4, 0), in); !errors.Is(err, ErrNotFinite) || !strings.Contains(err.Error(), "the weights are broken") {
		t.Fatalf("error %v, want %v", err, ErrNotFinite)
	}
	if fingerprint(t, tr) != before || tr.Steps() != 0 {
		t.Error("the weights or the step changed")
	}
}

func TestStepRefuses(t *testing.T) {
	tr := testTrainer(t, everything())
	for want, change := range map[string]func(b *schemas.ScoredBatch, in *Input){
		"pixel values for 4 images":     func(_ *schemas.ScoredBatch, in *Input) { in.Pixels = in.Pixels[1:] },
		"pixel values for 4 positives":  func(_ *schemas.ScoredBatch, in *Input) { in.Positives = nil },
		"3 texts for 4 samples":         func(_ *schemas.ScoredBatch, in *Input) { in.IDs = in.IDs[1:] },
		"text 0 has token id 40":        func(_ *schemas.ScoredBatch, in *Input) { in.IDs[0] = []int32{2, 40} },
		"text 0 has 0 tokens":           func(_ *schemas.ScoredBatch, in *Input) { in.IDs[0] = nil },
		"want 4 x 2":                    func(b *schemas.ScoredBatch, _ *Input) { b.M = 2 },
		"anchor 0 of 4 has candidate 4": func(b *schemas.ScoredBatch, _ *Input) { b.T2I[0] = 4 },
		"anchor 1 of 4 has candidate 1": func(b *schemas.ScoredBatch, _ *Input) { b.I2T[3] = 1 },
		"sample 2 of 4 has partner 2":   func(b *schemas.ScoredBatch, _ *Input) { b.Samples[2].Partners = schemas.Int32s{2} },
		"batch without samples":         func(b *schemas.ScoredBatch, _ *Input) { b.Samples = nil },
	} {
		b, in := testBatch(4, 0), testInput(4, 0)
		change(b, &in)
		if _, err := tr.Step(context.Background(), b, in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}
