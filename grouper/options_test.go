package grouper

import (
	"math"
	"strings"
	"testing"
)

func TestDefaultsAreValid(t *testing.T) {
	for _, s := range []Strategy{StrategyRandom, StrategyGRIT, StrategyGNS, StrategyJEST, "jest:0.5", StrategyB3, "b3:70"} {
		o := Defaults()
		o.Strategy = s
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string // "": valid
	}{
		"strategy":                 {func(o *Options) { o.Strategy = "gnp" }, `Strategy is "gnp"`},
		"no epochs":                {func(o *Options) { o.Epochs = 0 }, "Epochs is 0, want at least 1"},
		"no batch size":            {func(o *Options) { o.BatchSize = 0 }, "BatchSize (N) is 0"},
		"batch size":               {func(o *Options) { o.BatchSize = 1<<16 + 1 }, "BatchSize (N) is 65537"},
		"all others":               {func(o *Options) { o.Candidates = 95 }, ""},
		"more than all others":     {func(o *Options) { o.Candidates = 96 }, "Candidates (m) is 96, want 0..95"},
		"texts":                    {func(o *Options) { o.Texts = "some" }, `Texts is "some"`},
		"share above one":          {func(o *Options) { o.Texts, o.TextShare = TextShare, 1.01 }, "Texts is share:1.01, want a share of 0..1"},
		"share that is none":       {func(o *Options) { o.Texts, o.TextShare = TextShare, math.NaN() }, "Texts is share:NaN"},
		"share of everything":      {func(o *Options) { o.Texts, o.TextShare = TextShare, 1 }, ""},
		"curriculum of one epoch":  {func(o *Options) { o.Texts, o.Epochs = TextCurriculum, 1 }, "Texts is curriculum over 1 epochs, want at least 4"},
		"curriculum of three":      {func(o *Options) { o.Texts, o.CurriculumEpochs = TextCurriculum, 3 }, "Texts is curriculum over 3 epochs, want at least 4"},
		"curriculum over groups":   {func(o *Options) { o.Texts, o.Epochs, o.CurriculumEpochs = TextCurriculum, 1, 4 }, ""},
		"curriculum of less":       {func(o *Options) { o.CurriculumEpochs = -1 }, "Texts is curriculum:-1, want at least 4 epochs"},
		"order of epochs":          {func(o *Options) { o.EpochOrder = "pair" }, `EpochOrder is "pair", want group or lane`},
		"window of no groups":      {func(o *Options) { o.EpochOrder, o.EpochGroups = OrderLane, 0 }, "EpochGroups is 0, want at least 1"},
		"no workers":               {func(o *Options) { o.Workers = 0 }, "Workers is 0"},
		"features":                 {func(o *Options) { o.Features = "momentum" }, `Features is "momentum"`},
		"queue of no spaces":       {func(o *Options) { o.QueueSize = 5000 }, "QueueSize (L) is 5000, want a multiple of SearchSpace, 4800"},
		"search space of no cuts":  {func(o *Options) { o.SearchSpace = 1000 }, "SearchSpace (M) is 1000, want a multiple of BatchSize, 96"},
		"search space of one":      {func(o *Options) { o.SearchSpace, o.BatchSize, o.Candidates = 1, 1, 0 }, "SearchSpace (M) is 1, want 0 or more than 1"},
		"the group at once":        {func(o *Options) { o.QueueSize, o.SearchSpace = 0, 0 }, ""},
		"spaces in the group":      {func(o *Options) { o.QueueSize = 0 }, ""},
		"queue without spaces":     {func(o *Options) { o.QueueSize, o.SearchSpace = 960, 0 }, ""},
		"queue of no mini-batches": {func(o *Options) { o.QueueSize, o.SearchSpace = 1000, 0 }, "QueueSize (L) is 1000, want a multiple of BatchSize, 96"},
		"clusters":                 {func(o *Options) { o.Strategy, o.Clusters = StrategyGNS, 0 }, "Clusters (c) is 0"},
		"samples of a cluster":     {func(o *Options) { o.Strategy, o.PerCluster = StrategyGNS, 1 }, "PerCluster (s) is 1"},
		"exactly full of clusters": {func(o *Options) { o.Strategy, o.Clusters = StrategyGNS, 32 }, ""},
		"too many clusters":        {func(o *Options) { o.Strategy, o.Clusters = StrategyGNS, 33 }, "want c * s of at most BatchSize, 96"},
		"filter of nothing":        {func(o *Options) { o.Strategy = "jest:0" }, `Strategy is "jest:0", want random, grit, gns, jest, jest:F with a filter ratio above 0 and below 1, b3 or b3:P with 1 or more ranks`},
		"filter of everything":     {func(o *Options) { o.Strategy = "jest:1" }, "Strategy is jest:1, want a filter ratio above 0 and below 1"},
		"filter that is none":      {func(o *Options) { o.Strategy = "jest:NaN" }, "Strategy is jest:NaN"},
		"a giant super-batch":      {func(o *Options) { o.Strategy, o.BatchSize, o.SearchSpace, o.QueueSize = "jest:0.9", 1<<14, 0, 0 }, "a super-batch has 163840 pairs, want at most 131072"},
		"ranks of none":            {func(o *Options) { o.Strategy = "b3:-1" }, "Strategy is b3:-1, want 1 or more ranks to leave out"},
		"half a rank":              {func(o *Options) { o.Strategy = "b3:1.5" }, `Strategy is "b3:1.5"`},
		"more ranks than pairs":    {func(o *Options) { o.Strategy = "b3:4800" }, "SearchSpace (M) is 4800, want more than the 4800 ranks that Strategy leaves out"},
		"as many ranks as can be":  {func(o *Options) { o.Strategy = "b3:4799" }, ""},
		"ranks of the group":       {func(o *Options) { o.Strategy, o.SearchSpace = "b3", 0 }, "SearchSpace (M) is 0, want more than the 30 ranks"},
		"ranks in no mini-batches": {func(o *Options) { o.Strategy, o.SearchSpace = "b3", 1000 }, "and a multiple of BatchSize, 96"},
		"another strategy's":       {func(o *Options) { o.Clusters, o.PerCluster = 0, 0 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := Defaults()
			c.change(&o)
			err := o.Validate()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if lane, laneErr := NewLane(o, 0); (laneErr == nil) != (err == nil) || (lane == nil) != (err != nil) {
				t.Errorf("Validate says %v, NewLane %v", err, laneErr)
			}
		})
	}
	err := Options{}.Validate()
	for _, want := range []string{"Strategy", "Epochs", "BatchSize", "Texts", "Workers"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no options at all: %v says nothing about %s", err, want)
		}
	}
}

// TestNumbersStandBesideTheirWords reads what a setting says in one text. Marks hold words and numbers apart.
func TestNumbersStandBesideTheirWords(t *testing.T) {
	for text, want := range map[TextRule]Options{
		"none": {Texts: TextNone}, "all": {Texts: TextAll}, "share": {Texts: TextShare}, "curriculum": {Texts: TextCurriculum},
		"share:0.25":    {Texts: TextShare, TextShare: 0.25},
		"curriculum:30": {Texts: TextCurriculum, CurriculumEpochs: 30},
		"curriculum:x":  {Texts: "curriculum:x"}, "curriculum:4.5": {Texts: "curriculum:4.5"}, "all:1": {Texts: "all:1"},
	} {
		if got := (Options{Texts: text}).Normal(); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	if got := (Options{Strategy: "jest:0.25"}).Normal(); got != (Options{Strategy: StrategyJEST, Filter: 0.25}) {
		t.Errorf("jest:0.25: %+v", got)
	}
	if got := (Options{Strategy: "b3:70"}).Normal(); got != (Options{Strategy: StrategyB3, Skip: 70}) {
		t.Errorf("b3:70: %+v", got)
	}
	if got := (Options{EpochGroups: 3}).Normal(); got.EpochOrder != OrderLane {
		t.Errorf("three groups together: order %q, want %q", got.EpochOrder, OrderLane)
	}
	if one := (Options{EpochGroups: 1, EpochOrder: OrderGroup}); one.Normal() != one {
		t.Errorf("one group at a time: %+v, want %+v", one.Normal(), one)
	}
}
