package schemas

import (
	"math"
	"strings"
	"testing"
)

func TestBatchValidate(t *testing.T) {
	retext := func(b *Batch, i int, text string) {
		b.Samples[i].Text, b.Samples[i].ID = text, NewPairID(b.Samples[i].ImageID, text)
	}
	checkSpoiled(t, batch, []spoiled[Batch]{
		{"lane -1", func(b *Batch) { b.Group.Lane = -1 }, "group -1/70000"},
		{"no samples", func(b *Batch) { b.Samples, b.I2T, b.T2I = nil, nil, nil }, "batch of 0 samples"},
		{"too many samples", func(b *Batch) { b.Samples = make([]Sample, MaxBatch+1) }, "batch of 65537 samples"},
		{"epoch -1", func(b *Batch) { b.Epoch = -1 }, "epoch -1"},
		{"sequence -1", func(b *Batch) { b.Sequence = -1 }, "batch -1 of 9"},
		{"last of the epoch", func(b *Batch) { b.Sequence = 8 }, ""},
		{"after the last of the epoch", func(b *Batch) { b.Sequence = 9 }, "batch 9 of 9"},
		{"strategy unknown", func(b *Batch) { b.Strategy = "best" }, `strategy is "best", want one of random, grit, gns, jest, b3`},
		{"strategy missing", func(b *Batch) { b.Strategy = "" }, `strategy is ""`},
		{"m -1", func(b *Batch) { b.M = -1 }, "want 4 x -1"},
		{"m larger than the column", func(b *Batch) { b.M = math.MaxInt32 }, "want 4 x 2147483647"},
		{"i2t short", func(b *Batch) { b.I2T = b.I2T[:7] }, "7 and 8 candidates"},
		{"t2i short", func(b *Batch) { b.T2I = b.T2I[:7] }, "8 and 7 candidates"},
		{"no candidates", func(b *Batch) { b.M, b.I2T, b.T2I = 0, nil, nil }, ""},
		{"candidate is the anchor", func(b *Batch) { b.I2T[0] = 0 }, "i2t: invalid record: anchor 0 of 4 has candidate 0"},
		{"candidate is the last sample", func(b *Batch) { b.I2T[2], b.I2T[3] = 3, 0 }, ""},
		{"candidate after the last sample", func(b *Batch) { b.I2T[2] = 4 }, "anchor 1 of 4 has candidate 4"},
		{"candidate -2", func(b *Batch) { b.T2I[2] = -2 }, "t2i: invalid record: anchor 1 of 4 has candidate -2"},
		{"candidate twice", func(b *Batch) { b.I2T[1] = 1 }, "anchor 0 has candidate 1 twice"},
		{"candidate twice, other direction", func(b *Batch) { b.T2I[6] = 2 }, "anchor 3 has candidate 2 twice"},
		{"candidate is a partner", func(b *Batch) { b.I2T[0] = 3 }, "anchor 0 has candidate 3 twice, or as a partner too"},
		{"candidate is a partner, other direction", func(b *Batch) { b.T2I[0] = 3 }, "t2i: invalid record: anchor 0 has candidate 3"},
		{"candidate after -1", func(b *Batch) { b.I2T[2], b.I2T[3] = -1, 0 }, "anchor 1 has candidate 0 after -1"},
		{"partner is itself", func(b *Batch) { b.Samples[0].Partners[0] = 0 }, "sample 0 of 4 has partner 0"},
		{"partner -1", func(b *Batch) { b.Samples[0].Partners[0] = -1 }, "sample 0 of 4 has partner -1"},
		{"partner after the last sample", func(b *Batch) { b.Samples[0].Partners[0] = 4 }, "sample 0 of 4 has partner 4"},
		{"partner twice", func(b *Batch) { b.Samples[0].Partners = Int32s{3, 3} }, "partner 3, or twice"},
		{"partner shows another image", func(b *Batch) { b.Samples[0].Partners[0] = 1 }, "partner 1, which shows another image"},
		{"text empty", func(b *Batch) { retext(b, 0, "") }, "sample 0: invalid record: text is empty"},
		{"text longest", func(b *Batch) { retext(b, 0, strings.Repeat("x", MaxCaptionBytes)) }, ""},
		{"text too long", func(b *Batch) { retext(b, 0, strings.Repeat("x", MaxCaptionBytes+1)) }, "text has 8193"},
		{"text is another caption", func(b *Batch) { b.Samples[0].Text = "a cow runs" }, "sample 0: invalid record: pair id"},
		{"replaced text is another", func(b *Batch) { b.Samples[1].Text = "sofa" }, ""},
		{"no id", func(b *Batch) { b.Samples[1].ID = PairID{} }, "sample 1: invalid record: pair id is missing"},
		{"no image id", func(b *Batch) { b.Samples[1].ImageID = ImageID{} }, "sample 1: invalid record: image id is missing"},
		{"no image", func(b *Batch) { b.Samples[2].Image = ImageRef{} }, "sample 2: invalid record: image uri"},
		{"position -1", func(b *Batch) { b.Samples[0].Position = -1 }, "position -1"},
		{"positive without image", func(b *Batch) { b.Samples[2].Positive.Image.Size = 0 }, "sample 2: positive: invalid record: image size 0"},
		{"positive without id", func(b *Batch) { b.Samples[2].Positive.ImageID = ImageID{} }, "sample 2: positive: invalid record: image id"},
	})
}

// precise gives a batch a check whose connections are on, and spoils its precision.
func precise(spoil func(*Precision)) func(*ScoredBatch) {
	return func(s *ScoredBatch) {
		s.Check = &Check{Positives: 256, AUC: 0.9, Least: 0.4, Precision: &Precision{Above: 0.8, Value: 0.75, Low: 0.5, High: 0.9, Base: 0.1, Confirmed: 0.1, Candidates: 100, Negatives: 100}}
		if spoil != nil {
			spoil(s.Check.Precision)
		}
	}
}

func TestScoredBatchValidate(t *testing.T) {
	nan := float32(math.NaN())
	checkSpoiled(t, scoredBatch, []spoiled[ScoredBatch]{
		{"invalid batch", func(s *ScoredBatch) { s.Epoch = -1 }, "epoch -1"},
		{"prob_i2t short", func(s *ScoredBatch) { s.ProbI2T = s.ProbI2T[:7] }, "prob_i2t has 7 values for 8"},
		{"prob_t2i missing", func(s *ScoredBatch) { s.ProbT2I = nil }, "prob_t2i has 0 values for 8"},
		{"0 and 1", func(s *ScoredBatch) { s.ProbI2T[0], s.ProbI2T[1] = 0, 1 }, ""},
		{"below 0", func(s *ScoredBatch) { s.ProbI2T[0] = math.Nextafter32(0, -1) }, "prob_i2t holds -1"},
		{"above 1", func(s *ScoredBatch) { s.ProbT2I[0] = math.Nextafter32(1, 2) }, "prob_t2i holds 1.0000001"},
		{"NaN", func(s *ScoredBatch) { s.ProbT2I[0] = nan }, "prob_t2i holds NaN"},
		{"probability of no candidate", func(s *ScoredBatch) { s.ProbI2T[3] = 0.5 }, "prob_i2t holds 0.5 where there is no candidate"},
		{"ruled out, with probability 0", func(s *ScoredBatch) { s.ProbI2T[0], s.RuledOut = 0, 1 }, ""},
		{"more ruled out than have probability 0", func(s *ScoredBatch) { s.RuledOut = 8 }, "8 candidates are ruled out, and "},
		{"fewer than none ruled out", func(s *ScoredBatch) { s.RuledOut = -1 }, "-1 candidates are ruled out"},
		{"no model", func(s *ScoredBatch) { s.Model = "" }, "model is empty"},
		{"high below 0", func(s *ScoredBatch) { s.High = -0.1 }, "high is -0.1"},
		{"high above 1", func(s *ScoredBatch) { s.High = 1.1 }, "high is 1.1"},
		{"precision that is enough", precise(nil), ""},
		{"precision on the bound", precise(func(p *Precision) { p.Low = 0.4 }), "candidates, and connections are off"},
		{"precision above 1", precise(func(p *Precision) { p.High = 1.5 }), "precision with high 1.5"},
		{"precision that is NaN", precise(func(p *Precision) { p.Base = math.NaN() }), "precision with base NaN"},
		{"precision outside its interval", precise(func(p *Precision) { p.Value = 0.45 }), "precision of 0.45 is outside"},
		{"negative candidates", precise(func(p *Precision) { p.Candidates = -1 }), "precision of -1 candidates"},
		{"all that are judged are matches", precise(func(p *Precision) { p.Judged, p.Right = 3, 3 }), ""},
		{"more matches than judged", precise(func(p *Precision) { p.Judged, p.Right = 3, 4 }), "precision of 4 matches among 3 judged"},
		{"negative matches", precise(func(p *Precision) { p.Judged, p.Right = 3, -1 }), "precision of -1 matches"},
		{"candidates and confirmed ones", func(s *ScoredBatch) {
			precise(nil)(s)
			s.Check.Confirmed = scoredConfirmed().Check.Confirmed
		}, "want one kind"},
		{"model not UTF-8", func(s *ScoredBatch) { s.Model = "\xff" }, "model is not UTF-8"},
	})
}

func TestConfirmedValidate(t *testing.T) {
	with := func(spoil func(*Confirmed)) func(*ScoredBatch) {
		return func(s *ScoredBatch) { spoil(s.Check.Confirmed) }
	}
	checkSpoiled(t, scoredConfirmed, []spoiled[ScoredBatch]{
		{"the last sample", with(func(c *Confirmed) { c.Image[0], c.Text[1] = 3, 3 }), ""},
		{"0 and 1", with(func(c *Confirmed) { c.Probability[0], c.Probability[1] = 0, 1 }), ""},
		{"nothing", with(func(c *Confirmed) { *c = Confirmed{} }), "confirms 0 images"},
		{"a text less", with(func(c *Confirmed) { c.Text = c.Text[:1] }), "confirms 2 images, 1 texts"},
		{"a probability more", with(func(c *Confirmed) { c.Probability = append(c.Probability, 1) }), "and 3 probabilities"},
		{"sample -1", with(func(c *Confirmed) { c.Image[0] = -1 }), "image -1 and text 1"},
		{"behind the last sample", with(func(c *Confirmed) { c.Text[0] = 4 }), "text 4 of 4 samples"},
		{"its own text", with(func(c *Confirmed) { c.Text[0] = 0 }), "image 0 and text 0"},
		{"NaN", with(func(c *Confirmed) { c.Probability[1] = float32(math.NaN()) }), "a probability of NaN"},
	})
}

func TestScoredBatchValidatesMasks(t *testing.T) {
	mask := func(m ...Mask) func(*ScoredBatch) { return func(s *ScoredBatch) { s.Masked = m } }
	gone := func(sample int32) Mask { return Mask{Sample: sample, Reason: MaskMissing} }
	positive := func(sample int32) Mask { return Mask{Sample: sample, Positive: true, Reason: MaskMissing} }
	checkSpoiled(t, scoredMasked, []spoiled[ScoredBatch]{
		{"sample -1", mask(gone(-1)), "sample -1 of 4 is masked"},
		{"last sample's positive", mask(gone(1), positive(3)), ""},
		{"after the last sample", mask(gone(1), gone(4)), "sample 4 of 4 is masked"},
		{"sample twice", mask(gone(1), gone(1)), "mask 1 is of sample 1, after sample 1"},
		{"out of order", mask(gone(1), gone(0)), "mask 1 is of sample 0, after sample 1"},
		{"sample and positive", mask(gone(1), positive(1)), ""},
		{"positive before its sample", mask(positive(1), gone(1)), "mask 1 is of sample 1"},
		{"without reason", mask(Mask{Sample: 1}), "reason of a mask is empty"},
		{"reason of a later version", mask(Mask{Sample: 1, Reason: "melted"}), ""},
		{"anchor with a probability", func(s *ScoredBatch) { s.ProbI2T[2] = 0.5 }, "sample 1 or 0 is masked, but their probability is 0.5"},
		{"candidate with a probability", func(s *ScoredBatch) { s.ProbT2I[1] = 0.5 }, "sample 0 or 1 is masked"},
		{"only a positive is masked", func(s *ScoredBatch) { s.Masked = s.Masked[1:]; s.ProbI2T[2] = 0.5 }, ""},
	})
}

func TestFeatureBlockValidate(t *testing.T) {
	checkSpoiled(t, featureBlock, []spoiled[FeatureBlock]{
		{"group -1", func(f *FeatureBlock) { f.Group.Seq = -1 }, "group 3/-1"},
		{"no rows", func(f *FeatureBlock) { f.Positions = nil }, "0 rows of 4"},
		{"too many rows", func(f *FeatureBlock) { f.Positions = make(Int32s, MaxBatch+1) }, "65537 rows"},
		{"dim 0", func(f *FeatureBlock) { f.Dim, f.V, f.T = 0, nil, nil }, "rows of 0 values"},
		{"dim largest", func(f *FeatureBlock) { f.Dim, f.V, f.T = MaxDim, unit(3, MaxDim, 0, 1), unit(3, MaxDim, 0, 1) }, ""},
		{"dim too large", func(f *FeatureBlock) { f.Dim = MaxDim + 1 }, "rows of 4097 values"},
		{"epoch -1", func(f *FeatureBlock) { f.Epoch = -1 }, "epoch -1"},
		{"last row masked", func(f *FeatureBlock) { f.Masked = []Mask{{Sample: 2, Reason: MaskMissing}} }, ""},
		{"row 3 of 3 masked", func(f *FeatureBlock) { f.Masked = []Mask{{Sample: 3, Reason: MaskMissing}} }, "sample 3 of 3 is masked"},
		{"sequence -1", func(f *FeatureBlock) { f.Sequence = -1 }, "batch -1"},
		{"step -1", func(f *FeatureBlock) { f.Step = -1 }, "step -1"},
		{"position -1", func(f *FeatureBlock) { f.Positions[2] = -1 }, "position -1 of row 2"},
		{"a row missing in v", func(f *FeatureBlock) { f.V = f.V[:16] }, "v has 16 bytes, want 3 rows of 4"},
		{"a row too many in t", func(f *FeatureBlock) { f.T = unit(4, 4, 0, 1) }, "t has 32 bytes, want 3 rows of 4"},
		{"last row of t not a unit vector", func(f *FeatureBlock) { clear(f.T[16:]) }, "row 2 of t has norm 0"},
	})
}

func TestJudgementValidate(t *testing.T) {
	checkSpoiled(t, judgement, []spoiled[Judgement]{
		{"lane", func(j *Judgement) { j.Group.Lane = -1 }, "negative number"},
		{"image", func(j *Judgement) { j.Image = PairID{} }, "pair id is missing"},
		{"text", func(j *Judgement) { j.Text = PairID{} }, "pair id is missing"},
		{"probability 1", func(j *Judgement) { j.Probability = 1 }, ""},
		{"probability above 1", func(j *Judgement) { j.Probability = 1.125 }, "want 0..1"},
		{"probability not a number", func(j *Judgement) { j.Probability = float32(math.NaN()) }, "want 0..1"},
		{"sample", func(j *Judgement) { j.Sample = "all" }, `sample is "all"`},
		{"model", func(j *Judgement) { j.Model = "c0de" }, ""},
		{"model not UTF-8", func(j *Judgement) { j.Model = "\xff" }, "model is not UTF-8"},
		{"verdict", func(j *Judgement) { j.Verdict = "maybe" }, `verdict is "maybe"`},
	})
}

func TestProgressValidate(t *testing.T) {
	named := func(name string, v float64) func(*Progress) {
		return func(p *Progress) { p.Values = Measures{name: v} }
	}
	checkSpoiled(t, progress, []spoiled[Progress]{
		{"kind unknown", func(p *Progress) { p.Kind = "epoch" }, `kind is "epoch"`},
		{"step 0", func(p *Progress) { p.Step = 0 }, ""},
		{"step -1", func(p *Progress) { p.Step = -1 }, "step -1"},
		{"checkpoint without a file", func(p *Progress) { p.Kind = ProgressCheckpoint }, "checkpoint is empty"},
		{"longest file name", func(p *Progress) { p.Checkpoint = strings.Repeat("c", MaxURIBytes) }, ""},
		{"file name too long", func(p *Progress) { p.Checkpoint = strings.Repeat("c", MaxURIBytes+1) }, "2049 bytes"},
		{"file name not UTF-8", func(p *Progress) { p.Checkpoint = "\xff" }, "not UTF-8"},
		{"largest value", named("x", math.MaxFloat64), ""},
		{"NaN", named("x", math.NaN()), "x is NaN"},
		{"infinite", named("x", math.Inf(-1)), "x is -Inf"},
		{"no name", named("", 1), "name of a value is empty"},
		{"longest name", named(strings.Repeat("n", MaxNameBytes), 1), ""},
		{"name too long", named(strings.Repeat("n", MaxNameBytes+1), 1), "257 bytes"},
		{"name not UTF-8", named("\xff", 1), "not UTF-8"},
		{"most values", func(p *Progress) { p.Values = values(MaxMeasures) }, ""},
		{"too many values", func(p *Progress) { p.Values = values(MaxMeasures + 1) }, "257 values"},
		{"two errors, the first in order", func(p *Progress) { p.Values = Measures{"b": math.NaN(), "a": math.Inf(1)} }, "a is +Inf"},
	})
}

func values(n int) Measures {
	m := Measures{}
	for i := range n {
		m[strings.Repeat("v", i/2+1)+string(rune('a'+i%2))] = 1
	}
	return m
}
