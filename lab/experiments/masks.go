package experiments

import (
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/trainer"
)

// albef varies ALBEF-Base, which is ALBEF without a momentum encoder, as GRIT-VLP's section 3 does.
type albef struct {
	Negatives  trainer.Negatives `json:"negatives"` // of ITM
	WithoutITC bool              `json:"without_itc,omitempty"`
	Masked     float64           `json:"masked"` // probability with which MLM hides a word
}

// options returns the trainer's settings.
func (a albef) options(o trainer.Options) trainer.Options {
	o.ITC.Targets, o.ITMNegatives, o.MaskProbability = trainer.OneHot, a.Negatives, a.Masked
	if a.WithoutITC {
		o.ITCWeight = 0
	}
	return o
}

// newMasks returns X6: random and hard negatives of ITM, and how many words are hidden, on random mini-batches.
func newMasks(short bool, scale int) comparison {
	c := comparison{Sizes: trainingSizes(short, scale), Kinds: scenes.Kinds{Shapes: 6, Large: true, Plain: true}, seeing: true}
	c.Sizes.Batch = 24
	if short {
		c.Sizes.Batch = 8
	}
	add := func(name string, a albef) {
		c.Arms = append(c.Arms, arm{Name: name, Strategy: grouper.StrategyRandom, Albef: &a})
	}
	add("itm random", albef{Negatives: trainer.RandomNegatives, WithoutITC: true, Masked: 0.15})
	add("itm random itc", albef{Negatives: trainer.RandomNegatives, Masked: 0.15})
	add("itm hard", albef{Negatives: trainer.HardestNegatives, WithoutITC: true, Masked: 0.15})
	for _, masked := range []float64{0.15, 0.35, 0.5, 0.75} {
		add(fmt.Sprintf("base %.0f", 100*masked), albef{Negatives: trainer.HardestNegatives, Masked: masked})
	}
	return c
}

// seeing asks for the colours and numbers that a model tells, and lets its matching head rank the 16 most similar.
var seeing = eval.Options{TopK: 16, Vision: true, VisionWords: func(word string) bool {
	return slices.Contains(scenes.Colours, scenes.Colour(word)) || scenes.IsCount(word)
}}

// seen returns what was asked with seeing: how well hidden words are told with the image, and the usage of vision, over
// the probability with which words were hidden.
func seen(arm string, r *eval.Report) (out []evidence.Measure) {
	if r.ITM != nil {
		out = append(out, evidence.Measure{Arm: arm, Name: "itm_rsum", Value: r.ITM.RSUM()})
	}
	for _, u := range r.Vision {
		out = append(out, evidence.Measure{Arm: arm, X: 100 * u.Share, Name: "words", Value: u.With.Top1},
			evidence.Measure{Arm: arm, X: 100 * u.Share, Name: "uov", Value: u.With.Top1 - u.Without.Top1})
	}
	return out
}
