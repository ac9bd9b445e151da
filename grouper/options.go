package grouper

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/schemas"
)

// Strategy is how the pairs of an epoch are put into mini-batches.
type Strategy string

// The strategies.
const (
	StrategyRandom Strategy = "random" // see [Random]
	StrategyGRIT   Strategy = "grit"   // see [GRIT]
	StrategyGNS    Strategy = "gns"    // see [GNS]
)

// Source is where the features come from by which GRIT groups the epochs after the first. The first epoch is grouped by
// the encoder's vectors in any case, as in the paper's experiments (supplement 2.3).
type Source string

// The sources of features.
const (
	SourceTraining Source = "training" // the training model's in the epoch before, collected in training order
	SourceEncoder  Source = "encoder"  // the encoder's vectors in every epoch, collected in random order
)

// TextRule decides which captions are replaced by the objects of their image (GPN-S section 3.3.1).
type TextRule string

// The rules for texts.
const (
	TextCurriculum TextRule = "curriculum" // similarity <= alpha of the epoch, eq. (8)
	TextShare      TextRule = "share"      // the same share of the group, that of the lowest similarity, in every epoch
	TextAll        TextRule = "all"
	TextNone       TextRule = "none"
)

// Options are the settings of a [Lane]. The defaults are those of [Defaults].
type Options struct {
	Seed      uint64   `env:"SEED" envDefault:"0" desc:"seed of the run: keys every shuffle, mask, augmentation and initial weight"`
	Strategy  Strategy `env:"STRATEGY" envDefault:"grit" desc:"how mini-batches are formed: random, grit (GRIT-VLP) or gns (GPN-S)"`
	Epochs    int      `env:"EPOCHS" envDefault:"20" desc:"E: times that a group is trained on"`
	BatchSize int      `env:"BATCH_SIZE" envDefault:"96" desc:"N: pairs of a mini-batch"`

	QueueSize       int    `env:"QUEUE_SIZE" envDefault:"48000" desc:"L of grit: pairs collected before they are grouped; 0: the whole group"`
	SearchSpace     int    `env:"SEARCH_SPACE" envDefault:"4800" desc:"M of grit: pairs of a walk; 0: the whole queue"`
	StartAsReleased bool   `env:"GRIT_START_AS_RELEASED" envDefault:"false" desc:"never start a walk at the last pair, as GRIT-VLP's released code"` // see [GRITRule]
	Features        Source `env:"GRIT_FEATURES" envDefault:"training" desc:"features that group the epochs after the first: training or encoder"`

	Clusters   int `env:"GNS_CLUSTERS" envDefault:"8" desc:"c of gns: clusters that a mini-batch draws from"`
	PerCluster int `env:"GNS_PER_CLUSTER" envDefault:"3" desc:"s of gns: pairs drawn from each of them"`

	Candidates int      `env:"CANDIDATES" envDefault:"2" desc:"m: hardest candidates of each pair and direction that Con-D scores"`
	Texts      TextRule `env:"TEXTS" envDefault:"curriculum" desc:"captions replaced by obj(v): curriculum (GPN-S eq. 8), share, all or none"`
	TextShare  float64  `env:"TEXT_SHARE" envDefault:"0" desc:"share of captions replaced by TEXTS=share"`

	Workers int `env:"GROUPER_WORKERS" envDefault:"1" desc:"goroutines for similarities; changes no mini-batch"`
}

// Defaults are the papers' settings: N = 96 and L = 48,000 of GRIT-VLP, M = 4,800 and m = 2 of MAFA, and c * s = N/4
// with s = 3 of GPN-S. The number of epochs is MAFA's 20.
func Defaults() Options {
	return Options{
		Strategy: StrategyGRIT, Epochs: 20, BatchSize: 96,
		QueueSize: 48_000, SearchSpace: 4_800, Features: SourceTraining,
		Clusters: 8, PerCluster: 3,
		Candidates: 2, Texts: TextCurriculum, Workers: 1,
	}
}

// Validate reports every setting that cannot be used, all at once. Settings of other strategies than the chosen one are
// not looked at.
func (o Options) Validate() error {
	var problems []error
	want := func(ok bool, format string, values ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, values...))
		}
	}
	want(slices.Contains([]Strategy{StrategyRandom, StrategyGRIT, StrategyGNS}, o.Strategy),
		"STRATEGY is %q, want random, grit or gns", o.Strategy)
	want(o.Epochs >= 1, "EPOCHS is %d, want at least 1", o.Epochs)
	want(o.BatchSize >= 1 && o.BatchSize <= schemas.MaxBatch, "BATCH_SIZE (N) is %d, want 1..%d", o.BatchSize, schemas.MaxBatch)
	want(o.Candidates >= 0 && o.Candidates < max(o.BatchSize, 1),
		"CANDIDATES (m) is %d, want 0..%d, one less than BATCH_SIZE", o.Candidates, max(o.BatchSize, 1)-1)
	want(slices.Contains([]TextRule{TextCurriculum, TextShare, TextAll, TextNone}, o.Texts),
		"TEXTS is %q, want curriculum, share, all or none", o.Texts)
	want(o.Texts != TextShare || o.TextShare >= 0 && o.TextShare <= 1, "TEXT_SHARE is %g, want 0..1", o.TextShare)
	want(o.Workers >= 1, "GROUPER_WORKERS is %d, want at least 1", o.Workers)
	switch o.Strategy {
	case StrategyGRIT:
		problems = append(problems, o.validateGRIT()...)
	case StrategyGNS:
		want(o.Clusters >= 1, "GNS_CLUSTERS (c) is %d, want at least 1", o.Clusters)
		want(o.PerCluster >= 2, "GNS_PER_CLUSTER (s) is %d, want at least 2", o.PerCluster)
		want(int64(o.Clusters)*int64(o.PerCluster) <= int64(o.BatchSize),
			"GNS_CLUSTERS (c) is %d and GNS_PER_CLUSTER (s) %d, want c * s of at most BATCH_SIZE, %d", o.Clusters, o.PerCluster, o.BatchSize)
	case StrategyRandom:
	}
	return errors.Join(problems...)
}

func (o Options) validateGRIT() []error {
	var problems []error
	want := func(ok bool, format string, values ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, values...))
		}
	}
	batch := max(o.BatchSize, 1)
	want(o.Features == SourceTraining || o.Features == SourceEncoder, "GRIT_FEATURES is %q, want training or encoder", o.Features)
	want(o.QueueSize >= 0, "QUEUE_SIZE (L) is %d, want 0 or more", o.QueueSize)
	want(o.SearchSpace == 0 || o.SearchSpace > 1, "SEARCH_SPACE (M) is %d, want 0 or more than 1", o.SearchSpace)
	want(o.SearchSpace%batch == 0, "SEARCH_SPACE (M) is %d, want a multiple of BATCH_SIZE, %d", o.SearchSpace, batch)
	if o.SearchSpace > 0 {
		want(o.QueueSize%o.SearchSpace == 0, "QUEUE_SIZE (L) is %d, want a multiple of SEARCH_SPACE, %d", o.QueueSize, o.SearchSpace)
	} else {
		want(o.QueueSize%batch == 0, "QUEUE_SIZE (L) is %d, want a multiple of BATCH_SIZE, %d", o.QueueSize, batch)
	}
	return problems
}

// needsFeatures says whether the plan of an epoch waits for the features of the epoch before.
func (o Options) needsFeatures(epoch int) bool {
	return o.Strategy == StrategyGRIT && o.Features == SourceTraining && epoch > 0
}

// needsVectors says whether the encoder's vectors are used at all.
func (o Options) needsVectors() bool { return o.Strategy == StrategyGRIT || o.Candidates > 0 }
