package grouper

import (
	"context"

	"github.com/pairstream/pairstream/internal/base/invalid"
)

// Strategy names the way in which the pairs of an epoch are put into mini-batches.
type Strategy string

// The strategies.
const (
	StrategyRandom Strategy = "random" // see [Random]
	StrategyGRIT   Strategy = "grit"   // see [GRIT]
	StrategyGNS    Strategy = "gns"    // see [GNS]
	StrategyJEST   Strategy = "jest"   // see [JEST]
	StrategyB3     Strategy = "b3"     // see [B3]
	StrategyOwn    Strategy = "own"    // see [Planner]
)

// strategies holds each strategy, which has a file of its own.
var strategies = map[Strategy]strategy{
	StrategyRandom: random{}, StrategyGRIT: grit{}, StrategyGNS: gns{}, StrategyJEST: jest{}, StrategyB3: b3{}, StrategyOwn: own{},
}

// strategy forms the mini-batches of an epoch.
type strategy interface {
	// validate lists the options that the strategy cannot use.
	validate(o Options, l *invalid.List)
	// reads returns the vectors that the strategy needs for an epoch.
	reads(o Options, epoch int) reads
	// plan orders the pairs of an epoch. Equal inputs give equal plans: every draw comes from the key.
	plan(ctx context.Context, in planInput) (Plan, error)
}

// advancing is a strategy that begins to plan while the features of the epoch before still come.
type advancing interface {
	strategy
	// advance uses the features of the first pairs of in.before. The next call, or plan, finds its result in in.ahead.
	advance(ctx context.Context, in planInput, arrived int) (ahead any, err error)
}

// selecting is a strategy that leaves pairs out of an epoch.
type selecting interface {
	strategy
	// kept returns how many of a group's pairs an epoch has. The options alone decide, so that batches can be counted
	// before they are made.
	kept(o Options, epoch, pairs int) int
}

// reads are the vectors that a strategy needs.
type reads int

const (
	readsNothing  reads = iota
	readsEncoder        // of the encoder, which come with the pairs
	readsTraining       // of the model in training, which come during the epoch before
	readsBoth           // of the model in training, and of the encoder
)

// planInput is the state of a group from which a strategy plans an epoch.
type planInput struct {
	options  Options
	key      Key
	image    []int32  // by position, from 0: pairs with one number stay out of each other's mini-batches
	cluster  []int32  // by position, from 0
	features Features // as reads says; nil where neither the strategy nor candidates need them
	encoder  Features // the encoder's vectors, where reads says both; else they may be nil
	before   Plan     // of the epoch before; empty in the first
	ahead    any      // the last result of advance; nil: none
	walked   func(pairs int)

	similar []int32 // K1 of each pair
	k1      int
	planner Planner // nil: none
	chosen  *Chosen // what the planner chose
}

func (in planInput) pairs() int { return len(in.image) }

// reads returns the vectors that the plan of an epoch needs.
func (o Options) reads(epoch int) reads {
	if s, known := strategies[o.Strategy]; known {
		return s.reads(o, epoch)
	}
	return readsNothing
}

// NeedsFeatures says whether the plans of epochs after the first wait for the features of the epoch before.
func (o Options) NeedsFeatures() bool { return o.needsFeatures(1) }

// needsFeatures says whether the plan of an epoch waits for the features of the epoch before.
func (o Options) needsFeatures(epoch int) bool { return epoch > 0 && o.reads(epoch) >= readsTraining }

// needsVectors says whether the encoder's vectors are used at all.
func (o Options) needsVectors() bool {
	return o.reads(0) == readsEncoder || o.Candidates > 0 || o.keepsVectors()
}

// keepsVectors says whether the encoder's vectors are used beside the features of the epoch before.
func (o Options) keepsVectors() bool { return o.reads(1) == readsBoth }

// kept returns how many of a group's pairs an epoch has.
func (o Options) kept(epoch, pairs int) int {
	if s, ok := strategies[o.Strategy].(selecting); ok {
		return s.kept(o, epoch, pairs)
	}
	return pairs
}

// batches returns how many mini-batches an epoch has.
func (o Options) batches(epoch, pairs int) int {
	return (o.kept(epoch, pairs) + o.BatchSize - 1) / o.BatchSize
}

// formedBy returns the strategy that forms an epoch: [JEST] leaves the first one to [Random].
func (o Options) formedBy(epoch int) Strategy {
	if o.Strategy == StrategyJEST && epoch == 0 {
		return StrategyRandom
	}
	return o.Strategy
}
