package trainer

import (
	"strings"
	"testing"
)

// affected returns the names of the losses that differ.
func affected(a, b Losses) string {
	var names []string
	for _, l := range []struct {
		name string
		a, b float64
	}{{"ITC", a.ITC, b.ITC}, {"ITM", a.ITM, b.ITM}, {"MLM", a.MLM, b.MLM}, {"uni", a.Uni, b.Uni}, {"total", a.Total, b.Total}} {
		if l.a != l.b {
			names = append(names, l.name)
		}
	}
	return strings.Join(names, " ")
}

// smoothed returns MAFA's settings with softening from the first epoch, and with L_uni on.
func smoothed() Options {
	o := everything()
	o.ITC.SoftFromEpoch = 0
	return o
}

func undropped() Options {
	o := smoothed()
	o.Dropout = 0
	return o
}

func consistent() Options {
	o := smoothed()
	o.ITC.Targets = Consistency
	return o
}

// In a first step on the same batch, every option changes the losses that it is about, and no other.
func TestOptionsChangeWhatTheyShould(t *testing.T) {
	for _, c := range []struct {
		name   string
		base   Options
		change func(*Options)
		want   string
	}{
		{"targets: one-hot", smoothed(), func(o *Options) { o.ITC.Targets = OneHot }, "ITC total"},
		{"targets: consistency", smoothed(), func(o *Options) { o.ITC.Targets = Consistency }, "ITC total"},
		{"alpha", smoothed(), func(o *Options) { o.ITC.Alpha = 0.1 }, "ITC total"},
		{"first softened epoch", smoothed(), func(o *Options) { o.ITC.SoftFromEpoch = 1 }, "ITC total"},
		{"lambda", consistent(), func(o *Options) { o.ITC.Lambda = 0.4 }, "ITC total"},
		{"consistency as a mix", consistent(), func(o *Options) { o.ITC.Form = Mix }, "ITC total"},
		{"consistency to the letter", consistent(), func(o *Options) { o.ITC.Form = Literal }, "ITC total"},
		{"consistency as a divergence", consistent(), func(o *Options) { o.ITC.ReportKL = true }, "ITC total"},
		{"ECM on ITC", smoothed(), func(o *Options) { o.ECM.ITC = false }, "ITC total"},
		{"ECM on ITM", smoothed(), func(o *Options) { o.ECM.ITM = false }, "ITM total"},
		{"ECM on MLM", smoothed(), func(o *Options) { o.ECM.MLM = false }, "MLM total"},
		{"ECM-E", smoothed(), func(o *Options) { o.ECM.Eliminate = true }, "ITC ITM MLM total"},
		{"high threshold", smoothed(), func(o *Options) { o.ECM.High = 1 }, "ITC ITM MLM total"},
		{"low threshold", smoothed(), func(o *Options) { o.ECM.Low = 0.8 }, "ITM total"},
		{"masking probability", smoothed(), func(o *Options) { o.MaskProbability = 0.15 }, "MLM total"},
		{"seed", smoothed(), func(o *Options) { o.Seed = 1 }, "ITC ITM MLM total"},
		{"seed without dropout", undropped(), func(o *Options) { o.Seed = 1 }, "MLM total"},
		{"dropout", smoothed(), func(o *Options) { o.Dropout = 0.5 }, "ITC ITM MLM total"},
		{"L_uni off", smoothed(), func(o *Options) { o.UniWeight = 0 }, "uni total"},
		{"L_uni as printed", smoothed(), func(o *Options) { o.Uni = UniPrinted }, "uni total"},
		{"L_uni with the positive", smoothed(), func(o *Options) { o.Uni = UniWithPositive }, "uni total"},
		{"weight of ITC", smoothed(), func(o *Options) { o.ITCWeight = 2 }, "total"},
		{"weight of ITM", smoothed(), func(o *Options) { o.ITMWeight = 2 }, "total"},
		{"weight of MLM", smoothed(), func(o *Options) { o.MLMWeight = 2 }, "total"},
		{"weight of L_uni", smoothed(), func(o *Options) { o.UniWeight = 2 }, "total"},
		{"ITC off", smoothed(), func(o *Options) { o.ITCWeight = 0 }, "ITC total"},
		{"ITM off", smoothed(), func(o *Options) { o.ITMWeight = 0 }, "ITM total"},
		{"MLM off", smoothed(), func(o *Options) { o.MLMWeight = 0 }, "MLM total"},
		{"rate", smoothed(), func(o *Options) { o.Schedule.WarmupRate = 1e-4 }, ""},
		{"weight decay", smoothed(), func(o *Options) { o.AdamW.WeightDecay = 0 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := c.base
			c.change(&changed)
			b, in := testBatch(8, 0), testInput(8, 0)
			before, after := mustStep(t, testTrainer(t, c.base), b, in), mustStep(t, testTrainer(t, changed), b, in)
			if got := affected(before.Losses, after.Losses); got != c.want {
				t.Errorf("it changed %q, want %q\nbefore %+v\nafter  %+v", got, c.want, before.Losses, after.Losses)
			}
		})
	}
}

// The next step shows what a step has learned.
func TestOptionsChangeWhatIsLearned(t *testing.T) {
	base := smoothed()
	base.Schedule = Schedule{Kind: CosineSteps, Rate: 1e-2, WarmupRate: 1e-2, TotalSteps: 60}
	distilled := base
	distilled.ITC.Targets, distilled.Momentum.Decay = Distilled, 0.995
	for _, c := range []struct {
		name   string
		base   Options
		change func(*Options)
		want   string
	}{
		{"rate", base, func(o *Options) { o.Schedule.Rate = 1e-3 }, "ITC ITM MLM uni total"},
		{"schedule", base, func(o *Options) {
			o.Schedule.Kind, o.Schedule.Epochs, o.Schedule.EpochSteps, o.Schedule.WarmupStride = ReferenceEpochs, 2, 1, 1
		}, "ITC ITM MLM uni total"},
		{"lowest rate", base, func(o *Options) { o.Schedule.TotalSteps, o.Schedule.Min = 1, 1e-3 }, "ITC ITM MLM uni total"},
		{"weight decay", base, func(o *Options) { o.AdamW.WeightDecay = 0.5 }, "ITC ITM MLM uni total"},
		{"AdamW's first decay", base, func(o *Options) { o.AdamW.Beta1 = 0.5 }, "ITC ITM MLM uni total"},
		{"AdamW's second decay", base, func(o *Options) { o.AdamW.Beta2 = 0.5 }, "ITC ITM MLM uni total"},
		{"AdamW's epsilon", base, func(o *Options) { o.AdamW.Eps = 1e-3 }, "ITC ITM MLM uni total"},
		{"momentum encoder", base, func(o *Options) { o.Momentum.Decay = 0.995 }, "ITC ITM MLM uni total"},
		{"momentum decay", distilled, func(o *Options) { o.Momentum.Decay = 0.1 }, "ITC ITM MLM uni total"},
		{"queue", distilled, func(o *Options) { o.Momentum.Queue = 16 }, "ITC ITM MLM uni total"},
		{"alpha's ramp", distilled, func(o *Options) { o.ITC.AlphaRampSteps = 100 }, "ITC ITM MLM uni total"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := c.base
			c.change(&changed)
			run := func(o Options) Losses {
				tr := testTrainer(t, o)
				var r *Result
				for i := range 3 {
					r = mustStep(t, tr, testBatch(8, i), testInput(8, i))
				}
				return r.Losses
			}
			if before, after := run(c.base), run(changed); affected(before, after) != c.want {
				t.Errorf("it changed %q, want %q", affected(before, after), c.want)
			}
		})
	}
}

// The queue's rows are further negatives of the second step's ITC.
func TestQueueHoldsTheLatestKeys(t *testing.T) {
	o := RetrievalFineTuning()
	o.Momentum.Queue = 10
	tr := testTrainer(t, o)
	for i, want := range []int{4, 8, 10, 10} {
		b := testBatch(4, i)
		for j := range b.Samples {
			b.Samples[j].ImageID[2] = byte(i)
		}
		r := mustStep(t, tr, b, testInput(4, i))
		if r.Losses.MLM != 0 || r.Losses.ITC <= 0 || r.Losses.ITM <= 0 {
			t.Errorf("losses %+v, want ITC and ITM alone", r.Losses)
		}
		a := tr.momentum
		if len(a.ids) != want || a.image.Size(0) != int64(want) || a.text.Size(0) != int64(want) {
			t.Fatalf("%d entries after step %d, want %d", len(a.ids), i, want)
		}
		for j, id := range a.ids { // newest first, four from every step
			if id[2] != byte(i-j/4) {
				t.Errorf("entry %d after step %d is of step %d, want %d", j, i, id[2], i-j/4)
			}
		}
	}
}
