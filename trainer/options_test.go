package trainer

import (
	"math"
	"strings"
	"testing"
)

func TestPresetsAreValid(t *testing.T) {
	for name, o := range map[string]Options{"GRIT-VLP": GRITVLP(), "MAFA": MAFA(), "retrieval": RetrievalFineTuning()} {
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"MaskProbability":                   func(o *Options) { o.MaskProbability = math.NaN() },
		"ITMWeight -1":                      func(o *Options) { o.ITMWeight = -1 },
		"all loss weights are 0":            func(o *Options) { o.ITCWeight, o.ITMWeight, o.MLMWeight = 0, 0, 0 },
		"ECM.Low 0.9, want 0..0.8":          func(o *Options) { o.ECM.Low = 0.9 },
		"Uni \"other\"":                     func(o *Options) { o.Uni = "other" },
		"ITC.Targets \"soft\"":              func(o *Options) { o.ITC.Targets = "soft" },
		"ITC.Alpha 2":                       func(o *Options) { o.ITC.Alpha = 2 },
		"without Momentum.Enabled":          func(o *Options) { o.ITC.Targets = Distilled },
		"Momentum.Queue 8 without":          func(o *Options) { o.Momentum.Queue = 8 },
		"with a queue of 8, want none":      func(o *Options) { o.ITC.Targets, o.Momentum.Enabled, o.Momentum.Queue = Consistency, true, 8 },
		"TotalSteps 10, want more than":     func(o *Options) { o.Schedule.TotalSteps = 10 },
		"Kind \"step\"":                     func(o *Options) { o.Schedule.Kind = "step" },
		"EpochSteps 0":                      func(o *Options) { o.Schedule.Kind, o.Schedule.EpochSteps = ReferenceEpochs, 0 },
		"AdamW.Beta2 1,":                    func(o *Options) { o.AdamW.Beta2 = 1 },
		"Lambda 1.5, want 0..1 for the con": func(o *Options) { o.ITC.Targets, o.ITC.Form, o.ITC.Lambda = Consistency, Mix, 1.5 },
	} {
		o := MAFA()
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}
