package experiments

import (
	"sync"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/content/nouns"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// positives says what an arm takes from GPN-S, beside its strategy.
type positives struct {
	Uni   bool             `json:"uni"` // uni-modal positives (eq. 10)
	Texts grouper.TextRule `json:"texts"`
	Share float64          `json:"share,omitempty"` // of the captions that [grouper.TextShare] replaces
	Rate  float64          `json:"rate"`
}

const (
	positivesClusters   = 4 // c of GN-S: with 3 of each a quarter of 48 pairs
	positivesPerCluster = 3
)

// newPositives returns X7: GPN-S's ways to sample, alone and together, on noisy scenes. As in the paper a converged
// model finds the neighbours, and the arms begin with one that has learned nothing.
func newPositives(short bool, scale int) comparison {
	c := newMAFA(short, scale)
	c.Arms, c.Wrong, c.Irrelevant, c.revised = nil, noisyWrong, noisyIrrelevant, true
	early := newModel()
	c.Regime.Conds, c.Regime.Start, c.Sizes.Epochs = nil, &early, 4
	if short {
		early = briefModel()
	} else {
		c.Sizes.Scenes = 4100 * scale
	}
	add := func(name string, strategy grouper.Strategy, p positives) {
		p.Rate = firstRate
		c.Arms = append(c.Arms, arm{Name: name, Strategy: strategy, Alone: true, Targets: oneHot, Positives: &p})
	}
	add("captions", grouper.StrategyRandom, positives{Texts: grouper.TextNone})
	add("uni", grouper.StrategyRandom, positives{Uni: true, Texts: grouper.TextNone})
	add("cross", grouper.StrategyRandom, positives{Texts: grouper.TextCurriculum})
	add("uni cross", grouper.StrategyRandom, positives{Uni: true, Texts: grouper.TextCurriculum})
	add("gns", grouper.StrategyGNS, positives{Texts: grouper.TextNone})
	add("full", grouper.StrategyGNS, positives{Uni: true, Texts: grouper.TextCurriculum})
	// Figure 6: texts alone, by a fixed rule.
	add("share", grouper.StrategyRandom, positives{Texts: grouper.TextShare, Share: 0.1})
	add("all", grouper.StrategyRandom, positives{Texts: grouper.TextAll})
	return c
}

// newModel returns how a model is made that has learned nothing.
func newModel() FirstModel {
	f := firstModel()
	f.Seed, f.Steps = 1003, 10
	return f
}

// sampling returns the grouper's settings.
func (p positives) sampling(o grouper.Options) grouper.Options {
	o.Texts, o.TextShare = p.Texts, p.Share
	o.Clusters, o.PerCluster = positivesClusters, min(positivesPerCluster, o.BatchSize/positivesClusters)
	return o
}

// options adds the loss of eq. 10 to the trainer's settings.
func (p positives) options(o trainer.Options) trainer.Options {
	o.Schedule.Rate, o.Schedule.Min, o.Schedule.WarmupRate = p.Rate, p.Rate/20, p.Rate/10
	if p.Uni {
		o.UniWeight = 1
	}
	return o
}

var tagger = sync.OnceValues(nouns.Load)

// countTexts counts the nouns of a mini-batch's texts, captions and obj(v), against the objects of their scenes.
func (d *data) countTexts(to *retrieval, b *schemas.Batch) error {
	t, err := tagger()
	if err != nil {
		return err
	}
	for _, s := range b.Samples {
		to.nouns(d.shows[s.ImageID], t.Nouns(s.Text))
	}
	return nil
}
