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
		"DROPOUT is 1, want":                       func(o *Options) { o.Dropout = 1 },
		"MLM_PROBABILITY":                          func(o *Options) { o.MaskProbability = math.NaN() },
		"ITM_WEIGHT is -1":                         func(o *Options) { o.ITMWeight = -1 },
		"are all 0, want one above":                func(o *Options) { o.ITCWeight, o.ITMWeight, o.MLMWeight = 0, 0, 0 },
		"ECM_LOW is 0.9, want 0..0.8":              func(o *Options) { o.ECM.Low = 0.9 },
		"UNI_READING is \"other\"":                 func(o *Options) { o.Uni = "other" },
		"ITC_TARGETS is \"soft\"":                  func(o *Options) { o.ITC.Targets = "soft" },
		"ITC_ALPHA is 2":                           func(o *Options) { o.ITC.Alpha = 2 },
		"needs MOMENTUM=true":                      func(o *Options) { o.ITC.Targets = Distilled },
		"MOMENTUM_QUEUE is 8, want 0 without":      func(o *Options) { o.Momentum.Queue = 8 },
		"MOMENTUM_QUEUE=8, want none":              func(o *Options) { o.ITC.Targets, o.Momentum.Enabled, o.Momentum.Queue = Consistency, true, 8 },
		"LR_TOTAL_STEPS is 10, want more than":     func(o *Options) { o.Schedule.TotalSteps = 10 },
		"LR_SCHEDULE is \"step\"":                  func(o *Options) { o.Schedule.Kind = "step" },
		"LR_EPOCH_STEPS is 0":                      func(o *Options) { o.Schedule.Kind, o.Schedule.EpochSteps = ReferenceEpochs, 0 },
		"ADAMW_BETA2 is 1,":                        func(o *Options) { o.AdamW.Beta2 = 1 },
		"ITC_LAMBDA is 1.5, want 0..1 for the con": func(o *Options) { o.ITC.Targets, o.ITC.Form, o.ITC.Lambda = Consistency, Mix, 1.5 },
	} {
		o := MAFA()
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}
