package experiments

import (
	"reflect"
	"testing"

	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/trainer"
)

func TestSeenByHand(t *testing.T) {
	for word, counts := range map[string]bool{"red": true, "black": true, "two": true, "circle": false, "a": false, "": false, "[MASK]": false} {
		if seeing.VisionWords(word) != counts {
			t.Errorf("%q counts as a colour or number: %v", word, !counts)
		}
	}
	r := &eval.Report{
		ITM:    &eval.Retrieval{TR: eval.Recalls{R1: 10, R5: 20, R10: 30}, IR: eval.Recalls{R1: 1, R5: 2, R10: 3}},
		Vision: []eval.Usage{{Share: 0.5, With: eval.Accuracy{Top1: 60, Top5: 90}, Without: eval.Accuracy{Top1: 45, Top5: 80}}},
	}
	want := []evidence.Measure{
		{Arm: "a", Name: "itm_rsum", Value: 66}, {Arm: "a", X: 50, Name: "words", Value: 60}, {Arm: "a", X: 50, Name: "uov", Value: 15},
	}
	if got := seen("a", r); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := seen("a", &eval.Report{}); got != nil {
		t.Errorf("nothing was asked, and %+v is reported", got)
	}
}

// The arms of GRIT-VLP's Table 1 differ from ALBEF-Base by what they are named for.
func TestAlbefArms(t *testing.T) {
	s := newSetup(t, 6)
	base := s.training(10)
	got := map[string]trainer.Options{}
	for _, a := range newMasks(true, 1).Arms {
		got[a.Name] = a.options(base)
	}
	albef := got["base 15"]
	if albef.ITC.Targets != trainer.OneHot || albef.ITCWeight != 1 || albef.MaskProbability != 0.15 || albef.ITMNegatives != trainer.HardestNegatives || albef.Momentum.Enabled() {
		t.Errorf("ALBEF-Base has %+v", albef)
	}
	for name, change := range map[string]func(*trainer.Options){
		"itm random":     func(o *trainer.Options) { o.ITCWeight, o.ITMNegatives = 0, trainer.RandomNegatives },
		"itm random itc": func(o *trainer.Options) { o.ITMNegatives = trainer.RandomNegatives },
		"itm hard":       func(o *trainer.Options) { o.ITCWeight = 0 },
		"base 75":        func(o *trainer.Options) { o.MaskProbability = 0.75 },
	} {
		want := albef
		change(&want)
		if !reflect.DeepEqual(got[name], want) {
			t.Errorf("%s: %+v, want %+v", name, got[name], want)
		}
	}
}
