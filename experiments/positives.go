package experiments

import (
	"sync"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/nouns"
	"github.com/pairstream/pairstream/internal/scenes"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// positives says what an arm takes from GPN-S, beside its strategy, and on which backbone.
type positives struct {
	TCL   bool             `json:"tcl"` // as backbone, else ALBEF
	Uni   bool             `json:"uni"` // uni-modal positives (eq. 10)
	Texts grouper.TextRule `json:"texts"`
	Share float64          `json:"share,omitempty"` // of the captions that [grouper.TextShare] replaces
}

const (
	positivesClusters   = 2 // c of GN-S: with 3 of each a quarter of 24 pairs
	positivesPerCluster = 3
)

// newPositives returns X7: GPN-S's ways to sample, alone and together, on noisy scenes.
func newPositives(short bool, scale int) comparison {
	c := comparison{
		Sizes: trainingSizes(short, scale), Kinds: scenes.Kinds{Shapes: 12, Objects: 2, Large: true, Plain: true},
		Wrong: 0.2, Irrelevant: 0.1, revised: true,
	}
	c.Sizes.Batch = 24
	if short {
		c.Sizes.Scenes, c.Sizes.HeldOut, c.Sizes.Batch, c.Sizes.Epochs = 80*scale, 40, 8, 4
	}
	for _, backbone := range []string{"albef", "tcl"} {
		add := func(name string, strategy grouper.Strategy, p positives) {
			p.TCL = backbone == "tcl"
			c.Arms = append(c.Arms, arm{Name: backbone + name, Strategy: strategy, Positives: &p})
		}
		add("", grouper.StrategyRandom, positives{Texts: grouper.TextNone})
		add(" uni", grouper.StrategyRandom, positives{Uni: true, Texts: grouper.TextNone})
		add(" cross", grouper.StrategyRandom, positives{Texts: grouper.TextCurriculum})
		add(" uni cross", grouper.StrategyRandom, positives{Uni: true, Texts: grouper.TextCurriculum})
		add(" gns", grouper.StrategyGNS, positives{Texts: grouper.TextNone})
		add(" full", grouper.StrategyGNS, positives{Uni: true, Texts: grouper.TextCurriculum})
	}
	// Figure 6: texts alone, by a fixed rule.
	c.Arms = append(c.Arms,
		arm{Name: "albef share", Strategy: grouper.StrategyRandom, Positives: &positives{Texts: grouper.TextShare, Share: 0.1}},
		arm{Name: "albef all", Strategy: grouper.StrategyRandom, Positives: &positives{Texts: grouper.TextAll}})
	return c
}

// sampling returns the grouper's settings.
func (p positives) sampling(o grouper.Options) grouper.Options {
	o.Texts, o.TextShare = p.Texts, p.Share
	o.Clusters, o.PerCluster = positivesClusters, min(positivesPerCluster, o.BatchSize/positivesClusters)
	return o
}

// options returns the trainer's settings: those of ALBEF or TCL without a queue, and the loss of eq. 10.
func (p positives) options(o trainer.Options) trainer.Options {
	o.ITC.Targets, o.ITC.Alpha, o.ITC.Triple = trainer.Distilled, 0.4, p.TCL
	o.Momentum.Enabled = true
	o.MLMDistill, o.MaskProbability, o.ITMNegatives = 0.4, 0.15, trainer.MultinomialNegatives
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
