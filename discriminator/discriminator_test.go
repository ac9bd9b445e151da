package discriminator

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
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

var smallConfig = model.Config{
	ImageSize: 32, PatchSize: 16, VisionDim: 32, VisionDepth: 2, VisionHeads: 2,
	TextHidden: 32, TextLayers: 4, FusionLayer: 2, TextHeads: 2, TextIntermediate: 64,
	VocabSize: 40, MaxPositions: 16, EmbedDim: 16, TextTokens: 12,
}

func newConD(t *testing.T, part int) *Discriminator {
	t.Helper()
	d, _ := conDOn(t, part, torchtest.On(torch.WorkerOptions{Threads: 2, Deterministic: true}))
	return d
}

func conDOn(t *testing.T, part int, o torch.WorkerOptions) (*Discriminator, *torch.Worker) {
	t.Helper()
	before := torch.Live()
	w := must.Get(torch.NewWorker(o))(t)
	t.Cleanup(func() {
		w.Close()
		if n := torch.Live() - before; n != 0 {
			t.Errorf("%d tensors were not given back", n)
		}
	})
	m := must.Get(model.New(context.Background(), w, smallConfig, 7))(t)
	t.Cleanup(m.Free)
	m.Vocab = make([]string, smallConfig.VocabSize)
	m.Vocab[0] = "[PAD]"
	matcher := must.Get(model.NewMatcher(context.Background(), m))(t)
	d := must.Get(New(matcher, Options{Part: part}))(t)
	return d, w
}

// randomInput is n samples of noise.
func randomInput(n int) Input {
	r := rng.New(1, "input", int64(n))
	in := Input{Pixels: make([]float32, n*3*smallConfig.ImageSize*smallConfig.ImageSize)}
	for i := range in.Pixels {
		in.Pixels[i] = float32(r.NormFloat64())
	}
	for range n {
		ids := []int32{1}
		for range 3 + r.IntN(8) {
			ids = append(ids, int32(4+r.IntN(36)))
		}
		in.IDs = append(in.IDs, ids)
	}
	return in
}

// allCandidates is a batch with the N-1 others as candidates.
func allCandidates(n int) *schemas.Batch {
	b := &schemas.Batch{Samples: make([]schemas.Sample, n), M: int32(n - 1), Batches: 1}
	for anchor := range int32(n) {
		for j := range int32(n) {
			if j != anchor {
				b.I2T, b.T2I = append(b.I2T, j), append(b.T2I, j)
			}
		}
	}
	return b
}

func score(t *testing.T, d *Discriminator, b *schemas.Batch, in Input) *schemas.ScoredBatch {
	t.Helper()
	scored := must.Get(d.Score(context.Background(), b, in))(t)
	return scored
}

func TestBothDirectionsShareAPairsValue(t *testing.T) {
	const n = 7
	scored := score(t, newConD(t, 16), allCandidates(n), randomInput(n))
	if scored.Model == "" {
		t.Error("the scored batch does not name Con-D's weights")
	}
	value := map[model.Pair]float32{}
	for k, j := range scored.I2T {
		value[model.Pair{Image: int32(k / (n - 1)), Text: j}] = scored.ProbI2T[k]
	}
	distinct := map[float32]bool{}
	for k, j := range scored.T2I {
		p := model.Pair{Image: j, Text: int32(k / (n - 1))}
		if scored.ProbT2I[k] != value[p] {
			t.Errorf("pair %v: %v from the text, %v from the image", p, scored.ProbT2I[k], value[p])
		}
		distinct[value[p]] = true
	}
	if len(distinct) < n {
		t.Errorf("%d different probabilities for %d pairs", len(distinct), n*(n-1))
	}
}

// The value of a pair has to be the same bits whatever the other pairs of its part hold: here all other images and
// texts change, while pair (0, 1) keeps its place.
func TestAPairsValueDependsOnNoOther(t *testing.T) {
	const n = 9
	d := newConD(t, 16)
	in := randomInput(n)
	other := Input{Pixels: slices.Clone(in.Pixels), IDs: slices.Clone(in.IDs)}
	image := len(in.Pixels) / n
	for i := image; i < len(other.Pixels); i++ {
		other.Pixels[i] = -other.Pixels[i]
	}
	for i := range other.IDs {
		if i != 1 {
			other.IDs[i] = slices.Clone(other.IDs[i])
			other.IDs[i][1] = 3
		}
	}
	a, b := score(t, d, allCandidates(n), in), score(t, d, allCandidates(n), other)
	if !torchtest.Same(a.ProbI2T[0], b.ProbI2T[0]) {
		t.Errorf("image 0, text 1: %v among some pairs, %v among others", a.ProbI2T[0], b.ProbI2T[0])
	}
	if a.ProbI2T[1] == b.ProbI2T[1] {
		t.Errorf("image 0, text 2: %v before and after text 2 changed", a.ProbI2T[1])
	}
}

// With fewer candidates and with parts of another size a pair stands in another place: the same bits nevertheless.
func TestFewerCandidatesGetTheSameValues(t *testing.T) {
	const n = 9
	in := randomInput(n)
	d := newConD(t, 16)
	all := score(t, d, allCandidates(n), in)
	value := map[model.Pair]float32{}
	for k, j := range all.I2T {
		value[model.Pair{Image: int32(k / (n - 1)), Text: j}] = all.ProbI2T[k]
	}
	few := &schemas.Batch{Samples: make([]schemas.Sample, n), M: 2, Batches: 1}
	for anchor := range int32(n) {
		few.I2T = append(few.I2T, (anchor+5)%n, (anchor+2)%n)
		few.T2I = append(few.T2I, -1, (anchor+8)%n)
	}
	for name, scored := range map[string]*schemas.ScoredBatch{
		"few": score(t, d, few, in), "parts of 5": score(t, newConD(t, 5), few, in), "one part": score(t, newConD(t, 500), few, in),
	} {
		check := func(p model.Pair, got float32) {
			t.Helper()
			want := value[p]
			if p.Image < 0 {
				want = 0
			}
			if !torchtest.Same(got, want) {
				t.Errorf("%s: pair %v: %v, want %v", name, p, got, want)
			}
		}
		for k := range few.I2T {
			anchor := int32(k / 2)
			check(model.Pair{Image: anchor, Text: few.I2T[k]}, scored.ProbI2T[k])
			check(model.Pair{Image: few.T2I[k], Text: anchor}, scored.ProbT2I[k])
		}
	}
}

// TestMaskedSamplesAreNotScored masks a sample: it has no probabilities, and those of all others keep their bits.
func TestMaskedSamplesAreNotScored(t *testing.T) {
	const n, lost = 7, 3
	d, in, batch := newConD(t, 16), randomInput(n), allCandidates(n)
	all := score(t, d, batch, in)
	image := len(in.Pixels) / n
	in.Pixels = slices.Clone(in.Pixels)
	clear(in.Pixels[lost*image : (lost+1)*image])
	in.Masked = []schemas.Mask{{Sample: 1, Positive: true, Reason: schemas.MaskMissing}, {Sample: lost, Reason: schemas.MaskChanged}}
	got := score(t, d, batch, in)
	if !slices.Equal(got.Masked, in.Masked) {
		t.Errorf("the record masks %v, want %v", got.Masked, in.Masked)
	}
	check := func(way string, k int, candidate int32, prob, want float32) {
		if k/(n-1) == lost || candidate == lost {
			want = 0
		}
		if !torchtest.Same(prob, want) {
			t.Errorf("%s: anchor %d, candidate %d: %v, want %v", way, k/(n-1), candidate, prob, want)
		}
	}
	for k := range batch.I2T {
		check("i2t", k, batch.I2T[k], got.ProbI2T[k], all.ProbI2T[k])
		check("t2i", k, batch.T2I[k], got.ProbT2I[k], all.ProbT2I[k])
	}
}

func TestScoringTwiceGivesTheSameBits(t *testing.T) {
	in, batch := randomInput(9), allCandidates(9)
	a, b := score(t, newConD(t, 16), batch, in), score(t, newConD(t, 16), batch, in)
	if !slices.Equal(a.ProbI2T, b.ProbI2T) || !slices.Equal(a.ProbT2I, b.ProbT2I) || a.Model != b.Model {
		t.Error("the same batch got two scores")
	}
}

func TestScoreOddBatches(t *testing.T) {
	d := newConD(t, 16)
	one := score(t, d, &schemas.Batch{Samples: make([]schemas.Sample, 1), Batches: 1}, randomInput(1))
	if len(one.ProbI2T) != 0 {
		t.Errorf("a batch of one has probabilities %v", one.ProbI2T)
	}
	none := &schemas.Batch{Samples: make([]schemas.Sample, 2), M: 1, I2T: []int32{-1, -1}, T2I: []int32{-1, -1}, Batches: 1}
	if got := score(t, d, none, randomInput(2)); !slices.Equal(got.ProbI2T, schemas.Floats32{0, 0}) {
		t.Errorf("a batch without candidates has probabilities %v", got.ProbI2T)
	}
}

func TestScoreRefuses(t *testing.T) {
	d := newConD(t, 16)
	good := randomInput(3)
	for name, change := range map[string]func(in *Input){
		"3 texts":      func(in *Input) { in.IDs = in.IDs[:2] },
		"pixel values": func(in *Input) { in.Pixels = in.Pixels[1:] },
		"token id 40":  func(in *Input) { in.IDs = [][]int32{{1, 40}, {1}, {1}} },
		"0 tokens":     func(in *Input) { in.IDs = [][]int32{{}, {1}, {1}} },
		"17 tokens":    func(in *Input) { in.IDs = [][]int32{make([]int32, 17), {1}, {1}} },
	} {
		in := good
		change(&in)
		_, err := d.Score(context.Background(), allCandidates(3), in)
		if !errors.Is(err, model.ErrInput) || !strings.Contains(err.Error(), strings.TrimPrefix(name, "3 ")) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Probabilities in mixed precision are those of float32 within a hundredth. Where the package's own kernels multiply
// they are as independent of the other candidates.
func TestScoresInMixedPrecision(t *testing.T) {
	const n = 9
	in := randomInput(n)
	want := score(t, newConD(t, 16), allCandidates(n), in)
	for name, o := range torchtest.Ways(torch.WorkerOptions{Threads: 2, Deterministic: true, Precision: torch.BFloat16}) {
		d, _ := conDOn(t, 16, o)
		got := score(t, d, allCandidates(n), in)
		for k, p := range got.ProbI2T {
			if math.Abs(float64(p-want.ProbI2T[k])) > 0.01 {
				t.Errorf("%s: candidate %d has %v, in float32 %v", name, k, p, want.ProbI2T[k])
			}
		}
		if slices.Equal(got.ProbI2T, want.ProbI2T) || got.Model != want.Model {
			t.Errorf("%s: the bits of float32, or another Con-D", name)
		}
		if o.Portable || !torchtest.OnCPU() {
			continue // libtorch's own operations promise no bits at another place
		}
		d, _ = conDOn(t, 5, o)
		if parts := score(t, d, allCandidates(n), in); !slices.Equal(parts.ProbT2I, got.ProbT2I) {
			t.Errorf("%s: parts of another size change the scores", name)
		}
	}
}
