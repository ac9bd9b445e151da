package service

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pairstream/pairstream/internal/model/ranks"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// places assigns the batches of a step to ranks. Each rank has a run of the batches. Batches to encode anew are
// assigned in turn.
type places struct {
	world, batches int // ranks, and batches of a step
	number         int // batches of the open step that were placed
	encoded        int
}

// next returns the rank of the step's next batch and its number, and whether it completes the step.
func (p *places) next() (rank, number int, last bool) {
	number = p.number
	p.number = (number + 1) % p.batches
	return p.rank(number), number, p.number == 0
}

// rank returns the rank of a batch of the step.
func (p *places) rank(number int) int { return number / (p.batches / p.world) }

// slots returns which batches of the step a rank has.
func (p *places) slots(rank int) slots {
	own := p.batches / p.world
	return slots{own * rank, own, p.batches}
}

// nextEncoded returns the rank of the next batch to encode anew.
func (p *places) nextEncoded() int {
	rank := p.encoded % p.world
	p.encoded++
	return rank
}

// errands hands batches to the ranks, ahead of the steps. Only the feed uses it.
type errands struct {
	group  *ranks.Leader
	places places
}

// give hands a batch to its rank, unless that is rank 0.
func (e *errands) give(w *work, known []schemas.Mask, decay trainer.Decay) (given bool, err error) {
	order := errand{Kind: errandLearn, Schema: w.rec.Schema, Record: w.rec.Value, Masked: known, Decay: decay}
	var rank int
	var last bool
	if w.again {
		order.Kind, order.Number = errandEncode, e.places.number
		rank = e.places.nextEncoded()
	} else {
		rank, order.Number, last = e.places.next()
	}
	if rank > 0 {
		raw, err := json.Marshal(order)
		if err == nil {
			err = e.group.Tell(rank, raw)
		}
		if err != nil {
			return true, fmt.Errorf("handing batch %d of lane %d to rank %d: %w", w.seq, w.lane, rank, err)
		}
	}
	if last {
		return rank > 0, e.complete()
	}
	return rank > 0, nil
}

// finish completes a step for which no more batches come.
func (e *errands) finish() error {
	if e.places.number == 0 {
		return nil
	}
	return e.complete()
}

func (e *errands) complete() error {
	raw, err := json.Marshal(errand{Kind: errandComplete})
	if err != nil {
		return err
	}
	return e.group.TellAll(raw)
}

// sharedCore is the part of a [trainer.Trainer] that a rank needs.
type sharedCore interface {
	Learn(ctx context.Context, b *schemas.ScoredBatch, in trainer.Input, number int, give trainer.Give) (*trainer.Result, error)
	EncodeAt(ctx context.Context, b *schemas.ScoredBatch, in trainer.Input, number int) (*schemas.FeatureBlock, error)
	Runs() [][]int
	TakeShare(ctx context.Context, give trainer.Give) (trainer.Share, error)
	Complete(ctx context.Context, sum trainer.Share, rate float64) error
	PrepareAt(ctx context.Context, b *schemas.ScoredBatch, in trainer.Input, number int) (*schemas.FeatureBlock, error)
	Prepared(ctx context.Context) (map[int]trainer.Keys, error)
	Gather(ctx context.Context, all map[int]trainer.Keys) error
	Steps() int64
}

// single adapts a trainer to the loop.
type single struct{ *trainer.Trainer }

// Snapshot implements core.
func (s single) Snapshot(ctx context.Context) (snapshot, error) {
	state, err := s.Trainer.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return state, nil
}

// leader is the core of rank 0's loop. It learns from its own batches and hears the results of the other ranks. To the
// loop it is a trainer that learns from all batches.
type leader struct {
	single
	shares   shares
	group    *ranks.Leader
	places   places
	prepared int     // batches of the open step that had their first of two passes
	rate     float64 // of the last batch of the open step
}

func newLeader(core *trainer.Trainer, group *ranks.Leader, p places) *leader {
	sum := func(ctx context.Context, own ranks.Part, join joinFunc) (ranks.Part, error) {
		return group.Sum(ctx, own, join)
	}
	return &leader{single: single{core}, group: group, places: p, shares: shares{core: core, sum: sum, slots: p.slots(0)}}
}

var _ sharedCore = (*trainer.Trainer)(nil)

// Step implements core.
func (l *leader) Step(ctx context.Context, b *schemas.ScoredBatch, in trainer.Input) (*trainer.Result, error) {
	if err := l.exchangeKeys(ctx); err != nil {
		return nil, err
	}
	rank, number, last := l.places.next()
	var r *trainer.Result
	var err error
	if rank == 0 {
		r, err = l.shares.learn(ctx, b, in, number)
	} else {
		r, err = l.hear(ctx, rank, b)
	}
	if err != nil {
		return nil, err
	}
	l.rate = r.Rate
	if last {
		r.Updated = true
		err = l.complete(ctx, l.places.batches)
	}
	return r, err
}

// hear waits for a rank's result of a batch.
func (l *leader) hear(ctx context.Context, rank int, b *schemas.ScoredBatch) (*trainer.Result, error) {
	raw, err := l.group.Hear(ctx, rank)
	if err != nil {
		return nil, err
	}
	r, err := readOutcome(raw, b)
	if err != nil {
		return nil, fmt.Errorf("reading what rank %d has made: %w", rank, err)
	}
	return r, nil
}

// Encode implements core.
func (l *leader) Encode(ctx context.Context, b *schemas.ScoredBatch, in trainer.Input) (*schemas.FeatureBlock, error) {
	rank := l.places.nextEncoded()
	if rank == 0 {
		return l.EncodeAt(ctx, b, in, max(l.places.number, l.prepared))
	}
	r, err := l.hear(ctx, rank, b)
	if err != nil {
		return nil, err
	}
	return &r.Features, nil
}

// Finish implements core.
func (l *leader) Finish(ctx context.Context) (bool, error) {
	batches := l.places.number
	if batches == 0 {
		return false, nil
	}
	l.places.number = 0
	return true, l.complete(ctx, batches)
}

// complete adds up the shares of all ranks, and completes the step with the sum.
func (l *leader) complete(ctx context.Context, batches int) error {
	return l.shares.complete(ctx, func(notes [][]byte) ([]byte, error) { return joinNotes(notes, batches, l.rate) })
}
