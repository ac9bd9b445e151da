package grouper

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/schemas"
)

// outcome returns what a run over one group decides, in parts.
func outcome(t *testing.T, o Options) map[string]string {
	t.Helper()
	l := newLog()
	l.addGroup(0, 203, 5)
	var order, first, texts, positives, candidates strings.Builder
	for _, b := range batches(drive(t, newTestLane(t, o), l)) {
		for _, s := range b.Samples {
			fmt.Fprintf(&order, "%d/%d:%d ", b.Epoch, b.Sequence, s.Position)
			if b.Epoch == 0 {
				fmt.Fprintf(&first, "%d:%d ", b.Sequence, s.Position)
			}
		}
		fmt.Fprint(&candidates, b.I2T, b.T2I)
	}
	// Texts and positives by pair, whatever the order.
	o.Strategy, o.Features = StrategyRandom, SourceTraining
	l = newLog()
	l.addGroup(0, 203, 5)
	of := map[string]schemas.Sample{}
	for _, b := range batches(drive(t, newTestLane(t, o), l)) {
		for _, s := range b.Samples {
			of[fmt.Sprint(b.Epoch, " ", s.Position)] = s
		}
	}
	for epoch := range o.Epochs {
		for p := range 203 {
			s := of[fmt.Sprint(epoch, " ", p)]
			fmt.Fprintln(&texts, s.Text, s.Replaced)
			if s.Positive != nil {
				fmt.Fprintln(&positives, s.Positive.ImageID)
			}
		}
	}
	return map[string]string{
		"order": order.String(), "first": first.String(), "texts": texts.String(), "positives": positives.String(), "candidates": candidates.String(),
	}
}

// Every setting changes what it is about, and no other part of a run over the same group.
func TestOptionsChangeWhatTheyShould(t *testing.T) {
	grit, gns := testOptions(StrategyGRIT), testOptions(StrategyGNS)
	learnable, mined := testOptions(StrategyJEST), testOptions(StrategyB3)
	shared, random := grit, testOptions(StrategyRandom)
	shared.Texts, shared.TextShare = TextShare, 0.1
	for _, c := range []struct {
		name   string
		base   Options
		change func(*Options)
		want   string // parts that change; "first" is the order of the first epoch
	}{
		{"strategy: random", grit, func(o *Options) { o.Strategy = StrategyRandom }, "order first candidates"},
		{"strategy: gns", grit, func(o *Options) { o.Strategy = StrategyGNS }, "order first candidates"},
		{"seed", grit, func(o *Options) { o.Seed++ }, "order first positives candidates"},
		{"L", grit, func(o *Options) { o.QueueSize = 128 }, "order first candidates"},
		{"M", grit, func(o *Options) { o.SearchSpace = 16 }, "order first candidates"},
		{"N", grit, func(o *Options) { o.BatchSize = 4 }, "order first positives candidates"},
		{"features", grit, func(o *Options) { o.Features = SourceEncoder }, "order candidates"},
		{"features, made anew", grit, func(o *Options) { o.Features = SourceCurrent }, "order candidates"},
		{"features, unshuffled", grit, func(o *Options) { o.Features = SourceUnshuffled }, "order first candidates"},
		{"c", gns, func(o *Options) { o.Clusters = 1 }, "order first candidates"},
		{"s", gns, func(o *Options) { o.PerCluster = 3 }, "order first candidates"},
		{"strategy: jest", random, func(o *Options) { o.Strategy = StrategyJEST }, "order candidates"},
		{"f", learnable, func(o *Options) { o.Filter = 0.75 }, "order candidates"},
		{"strategy: b3", grit, func(o *Options) { o.Strategy = StrategyB3 }, "order first candidates"},
		{"p", mined, func(o *Options) { o.Skip = 8 }, "order first candidates"},
		{"M of b3", mined, func(o *Options) { o.SearchSpace = 64 }, "order first candidates"},
		{"m", grit, func(o *Options) { o.Candidates = 1 }, "candidates"},
		{"texts: all", grit, func(o *Options) { o.Texts = TextAll }, "texts"},
		{"texts: none", grit, func(o *Options) { o.Texts = TextNone }, "texts"},
		{"texts: share", grit, func(o *Options) { o.Texts, o.TextShare = TextShare, 0.1 }, "texts"},
		{"share", shared, func(o *Options) { o.TextShare = 0.5 }, "texts"},
		{"captions of one image", grit, func(o *Options) { o.SameImage = true }, "order first positives candidates"},
		{"captions of one image, at random", random, func(o *Options) { o.SameImage = true }, "order first positives candidates"},
		{"workers", grit, func(o *Options) { o.Workers = 3 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := c.base
			c.change(&changed)
			before, after := outcome(t, c.base), outcome(t, changed)
			var parts []string
			for _, part := range []string{"order", "first", "texts", "positives", "candidates"} {
				if before[part] != after[part] {
					parts = append(parts, part)
				}
			}
			if got := strings.Join(parts, " "); got != c.want {
				t.Errorf("it changed %q, want %q", got, c.want)
			}
		})
	}
}

// The curriculum runs through the groups of a lane once. It does not begin anew with each.
func TestTheCurriculumIsTheLanes(t *testing.T) {
	o := testOptions(StrategyRandom)
	o.Epochs, o.CurriculumEpochs = 1, 4
	l := newLog()
	for seq := range int64(5) {
		l.addGroup(seq, 203, 5)
	}
	replaced := make([]int, 5)
	for _, b := range batches(drive(t, newTestLane(t, o), l)) {
		for _, s := range b.Samples {
			if s.Replaced {
				replaced[b.Group.Seq]++
			}
		}
	}
	if replaced[0] <= replaced[1] || replaced[1] <= replaced[2] || replaced[2] > 1 || replaced[3] != 0 || replaced[4] != 0 {
		t.Errorf("replaced texts by group: %v, want fewer with every group, and none after half of 4", replaced)
	}
}

// The curriculum ends at half of the epochs: a longer one changes the texts of the same epoch.
func TestTheCurriculumFollowsTheEpochs(t *testing.T) {
	replaced := func(epochs int) []int {
		o := testOptions(StrategyRandom)
		o.Epochs = epochs
		l := newLog()
		l.addGroup(0, 203, 5)
		counts := make([]int, epochs)
		for _, b := range batches(drive(t, newTestLane(t, o), l)) {
			for _, s := range b.Samples {
				if s.Replaced {
					counts[b.Epoch]++
				}
			}
		}
		return counts
	}
	short, long := replaced(4), replaced(8)
	if short[0] != long[0] || short[1] >= long[1] || long[1] >= long[0] || short[2] > 1 || short[3] != 0 || !slices.Equal(long[5:], []int{0, 0, 0}) {
		t.Errorf("replaced texts by epoch: %v of 4 epochs, %v of 8", short, long)
	}
}
