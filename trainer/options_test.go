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
		"Dropout is 1, want":                                       func(o *Options) { o.Dropout = 1 },
		"MaskProbability":                                          func(o *Options) { o.MaskProbability = math.NaN() },
		"ITMWeight is -1":                                          func(o *Options) { o.ITMWeight = -1 },
		"are all 0, want one above":                                func(o *Options) { o.ITCWeight, o.ITMWeight, o.MLMWeight = 0, 0, 0 },
		"ECM.Low is 0.9, want 0..0.8":                              func(o *Options) { o.ECM.Low = 0.9 },
		"Uni is \"other\"":                                         func(o *Options) { o.Uni = "other" },
		"ITC.Targets is \"soft\"":                                  func(o *Options) { o.ITC.Targets = "soft" },
		"ITC.Alpha is 2":                                           func(o *Options) { o.ITC.Alpha = 2 },
		"which needs Momentum.Decay above 0":                       func(o *Options) { o.ITC.Targets = Distilled },
		"Momentum.Queue is 8, want 0 with":                         func(o *Options) { o.Momentum.Queue = 8 },
		"Momentum.Queue=8, want none":                              func(o *Options) { o.ITC.Targets, o.Momentum.Decay, o.Momentum.Queue = Consistency, 0.9, 8 },
		"Schedule.TotalSteps is 10, want more than":                func(o *Options) { o.Schedule.TotalSteps = 10 },
		"Schedule.Kind is \"step\"":                                func(o *Options) { o.Schedule.Kind = "step" },
		"Schedule.TotalSteps is 29, want at least":                 func(o *Options) { o.Schedule.Kind, o.Schedule.TotalSteps = ReferenceEpochs, 29 },
		"AdamW.Moments is 0.9,1,1e-08, want":                       func(o *Options) { o.AdamW.Beta2 = 1 },
		"ITC.Lambda is 1.5, want 0..1 for the con":                 func(o *Options) { o.ITC.Targets, o.ITC.Form, o.ITC.Lambda = Consistency, Mix, 1.5 },
		"ITMNegatives is \"nearest\", want":                        func(o *Options) { o.ITMNegatives = "nearest" },
		"Tries is 0, want at least 1":                              func(o *Options) { o.Tries = 0 },
		"MLMDistill is 0.4, which needs":                           func(o *Options) { o.MLMDistill = 0.4 },
		`ITC.Loss is "triple", which needs Momentum.Decay above 0`: func(o *Options) { o.ITC.Loss = Triple },
	} {
		o := MAFA()
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}
