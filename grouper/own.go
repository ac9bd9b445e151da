package grouper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/internal/base/invalid"
)

// own is the strategy of a [Planner].
type own struct{}

func (own) validate(o Options, l *invalid.List) {
	l.Want(o.Function != "", "%s is %s without a function: `pairstream batches --strategy module:function` names one, and no service takes it",
		invalid.Field("Strategy"), StrategyOwn)
}

// reads returns the vectors that [Pairs] has.
func (own) reads(o Options, epoch int) reads {
	if epoch == 0 || o.Features == SourceEncoder {
		return readsEncoder
	}
	return readsBoth
}

// plan implements [strategy].
func (own) plan(ctx context.Context, in planInput) (Plan, error) {
	if in.planner == nil {
		return Plan{}, errors.New("a plan of one's own needs a function: see Lane.PlanWith")
	}
	p := Pairs{
		Key: in.key, BatchSize: in.options.BatchSize, Candidates: in.options.Candidates,
		Encoder: in.features, Image: in.image, Cluster: in.cluster, Similar: in.similar, K1: in.k1,
	}
	if in.options.needsFeatures(in.key.Epoch) {
		p.Encoder, p.Learner = in.encoder, in.features
	}
	chosen, err := in.planner(ctx, p)
	if err == nil {
		err = chosen.Validate(p)
	}
	if err != nil {
		return Plan{}, err
	}
	*in.chosen = chosen
	return Plan{chosen.Order, p.BatchSize}, nil
}

// Planner puts the pairs of a group into the mini-batches of an epoch by a rule of its user. Equal pairs must give equal
// results: a crash asks again.
type Planner func(context.Context, Pairs) (Chosen, error)

// Pairs are the n pairs of a group before an epoch, by position.
type Pairs struct {
	Key
	BatchSize  int
	Candidates int // m: hard candidates of each pair and direction
	Encoder    Features
	Learner    Features // of the model in training, made in the epoch before; nil: there are none
	Image      []int32  // [n]: pairs that show one image have one number
	Cluster    []int32  // [n]
	Similar    []int32  // [n, K1]: positions of the pairs with the most similar images, -1 behind the last
	K1         int
}

// Chosen is the result of a [Planner].
type Chosen struct {
	Order []int32 // [n]: each position once; every BatchSize of them are a mini-batch
	// I2T and T2I are the hard candidates of each pair by position, [n, m], -1 for none: texts for its image and images for
	// its text. nil: those of [HardCandidates].
	I2T, T2I []int32
}

// Validate refuses an order that lacks a pair, and candidates outside of the mini-batch.
func (c Chosen) Validate(p Pairs) error {
	n := len(p.Image)
	if len(c.Order) != n {
		return fmt.Errorf("the order has %d positions, want each of the group's %d pairs once", len(c.Order), n)
	}
	batch := make([]int32, n) // of each pair
	for i := range batch {
		batch[i] = -1
	}
	for i, at := range c.Order {
		if at < 0 || int(at) >= n || batch[at] >= 0 {
			return fmt.Errorf("the order has position %d as its number %d, want each of 0..%d once", at, i, n-1)
		}
		batch[at] = int32(i / p.BatchSize)
	}
	if (c.I2T == nil) != (c.T2I == nil) {
		return errors.New("the candidates have one direction, want both or none")
	}
	for _, way := range [][]int32{c.I2T, c.T2I} {
		if way != nil && len(way) != n*p.Candidates {
			return fmt.Errorf("there are %d candidates in a direction, want m = %d for each of %d pairs", len(way), p.Candidates, n)
		}
		for k, other := range way {
			anchor := k / p.Candidates
			switch {
			case other == -1:
			case other < 0 || int(other) >= n || batch[other] != batch[anchor]:
				return fmt.Errorf("pair %d has candidate %d, which is not in its mini-batch", anchor, other)
			case int(other) == anchor:
				return fmt.Errorf("pair %d has itself as a candidate", anchor)
			case slices.Contains(way[anchor*p.Candidates:k], other):
				return fmt.Errorf("pair %d has candidate %d twice", anchor, other)
			case p.Image[other] == p.Image[anchor]:
				return fmt.Errorf("pair %d has candidate %d, which shows the same image", anchor, other)
			}
		}
	}
	return nil
}

// candidates returns the candidates of a mini-batch as its records have them, by place in the mini-batch.
func (c Chosen) candidates(pairs []int32, m int) (i2t, t2i []int32) {
	place := make(map[int32]int32, len(pairs))
	for i, p := range pairs {
		place[p] = int32(i)
	}
	pick := func(all []int32) []int32 {
		out := make([]int32, 0, len(pairs)*m)
		for _, p := range pairs {
			row := len(out)
			for _, other := range all[int(p)*m : (int(p)+1)*m] {
				if at, there := place[other]; there {
					out = append(out, at)
				}
			}
			for len(out) < row+m {
				out = append(out, -1) // behind the others
			}
		}
		return out
	}
	return pick(c.I2T), pick(c.T2I)
}

// PlanWith gives the lane the function of [StrategyOwn].
func (l *Lane) PlanWith(p Planner) { l.planner = p }
