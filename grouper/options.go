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

// Options are the settings of a [Lane].
type Options struct {
	Seed      uint64
	Strategy  Strategy
	Epochs    int // E, for every group
	BatchSize int // N

	QueueSize       int    // grit: L; 0: the whole group
	SearchSpace     int    // grit: M; 0: the whole queue
	StartAsReleased bool   // grit: see [GRITRule]
	Features        Source // grit

	Clusters   int // gns: c
	PerCluster int // gns: s

	Candidates int // m, for each sample and direction
	Texts      TextRule
	TextShare  float64 // for TextShare: 0..1

	Workers int // goroutines for similarities; the mini-batches do not depend on it
}

// Defaults are the papers' settings: N = 96 and L = 48,000 of GRIT-VLP, M = 4,800 and m = 2 of MAFA, and c * s = N/4
// with s = 3 of GPN-S. The seed is 1, the number of epochs MAFA's 20.
func Defaults() Options {
	return Options{
		Seed: 1, Strategy: StrategyGRIT, Epochs: 20, BatchSize: 96,
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
		"strategy is %q, want random, grit or gns", o.Strategy)
	want(o.Epochs >= 1, "epochs is %d, want at least 1", o.Epochs)
	want(o.BatchSize >= 1 && o.BatchSize <= schemas.MaxBatch, "batch size (N) is %d, want 1..%d", o.BatchSize, schemas.MaxBatch)
	want(o.Candidates >= 0 && o.Candidates < max(o.BatchSize, 1),
		"candidates (m) is %d, want 0..%d, one less than the batch size", o.Candidates, max(o.BatchSize, 1)-1)
	want(slices.Contains([]TextRule{TextCurriculum, TextShare, TextAll, TextNone}, o.Texts),
		"texts is %q, want curriculum, share, all or none", o.Texts)
	want(o.Texts != TextShare || o.TextShare >= 0 && o.TextShare <= 1, "text share is %g, want 0..1", o.TextShare)
	want(o.Workers >= 1, "workers is %d, want at least 1", o.Workers)
	switch o.Strategy {
	case StrategyGRIT:
		problems = append(problems, o.validateGRIT()...)
	case StrategyGNS:
		want(o.Clusters >= 1, "clusters (c) is %d, want at least 1", o.Clusters)
		want(o.PerCluster >= 2, "samples per cluster (s) is %d, want at least 2", o.PerCluster)
		want(int64(o.Clusters)*int64(o.PerCluster) <= int64(o.BatchSize),
			"clusters (c) is %d and samples per cluster (s) %d, want c * s of at most the batch size %d", o.Clusters, o.PerCluster, o.BatchSize)
	case StrategyRandom:
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("checking the grouper's options: %w", errors.Join(problems...))
}

func (o Options) validateGRIT() []error {
	var problems []error
	want := func(ok bool, format string, values ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, values...))
		}
	}
	batch := max(o.BatchSize, 1)
	want(o.Features == SourceTraining || o.Features == SourceEncoder, "features is %q, want training or encoder", o.Features)
	want(o.QueueSize >= 0, "queue size (L) is %d, want 0 or more", o.QueueSize)
	want(o.SearchSpace == 0 || o.SearchSpace > 1, "search space (M) is %d, want 0 or more than 1", o.SearchSpace)
	want(o.SearchSpace%batch == 0, "search space (M) is %d, want a multiple of the batch size %d", o.SearchSpace, batch)
	if o.SearchSpace > 0 {
		want(o.QueueSize%o.SearchSpace == 0, "queue size (L) is %d, want a multiple of the search space %d", o.QueueSize, o.SearchSpace)
	} else {
		want(o.QueueSize%batch == 0, "queue size (L) is %d, want a multiple of the batch size %d", o.QueueSize, batch)
	}
	return problems
}

// needsFeatures says whether the plan of an epoch waits for the features of the epoch before.
func (o Options) needsFeatures(epoch int) bool {
	return o.Strategy == StrategyGRIT && o.Features == SourceTraining && epoch > 0
}

// needsVectors says whether the encoder's vectors are used at all.
func (o Options) needsVectors() bool { return o.Strategy == StrategyGRIT || o.Candidates > 0 }
