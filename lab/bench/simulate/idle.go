package main

import (
	"context"
	"sync/atomic"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/schemas"
)

// Idle is what a trainer of many GPUs waits for, where all lanes reach an epoch's end together.
type Idle struct {
	GPUs  int     `json:"gpus"`
	Epoch float64 `json:"epoch"` // seconds of training, without waiting
	AtEnd float64 `json:"at_end"`
	Ahead float64 `json:"ahead"`
}

// A crawl of 40 lanes with groups of 5,000,000 pairs. Its walks take 171 s of a core in a lane and epoch: 190
// core-hours of a billion pairs and twenty epochs, shared by 200 groups and the epochs. A queue of 48,000 pairs is a
// 104th of a group.
const (
	realPairs  = 5_000_000
	realWalks  = 190 * 3600.0 / 200 / 20
	pairsOfGPU = 600
	passing    = 0.1 // seconds from a stage to the next, through the log
	queueParts = 100 // of a group, in the simulation

	playedSpace = 20 // pairs of a walk and of a mini-batch, in the simulation
)

// idle plays a trainer and the cores of all groupers against a clock that only the simulation moves.
func idle(ctx context.Context, s sizes) (any, error) {
	var out []Idle
	for _, gpus := range []int{64, 256, 1024} {
		r := Idle{GPUs: gpus, Epoch: float64(s.Lanes) * realPairs / pairsOfGPU / float64(gpus)}
		for _, way := range []struct {
			queue int
			share *float64
		}{{0, &r.AtEnd}, {max(1, s.Pairs/queueParts/playedSpace) * playedSpace, &r.Ahead}} {
			var err error
			if *way.share, err = s.waiting(ctx, r.Epoch, way.queue); err != nil {
				return nil, err
			}
		}
		s.say("idle: %d GPUs, an epoch of %.0f s: %.2f %% when an epoch is planned at the end of the one before, %.2f %% when queues are planned as they fill",
			gpus, r.Epoch, 100*r.AtEnd, 100*r.Ahead)
		out = append(out, r)
	}
	return out, nil
}

// playedLane is a grouper's lane with a clock of its own.
type playedLane struct {
	crawl   crawl
	core    *grouper.Lane
	clock   float64 // when it has done what it was given
	made    []playedBatch
	vectors [2][]schemas.Float16s // of the training model, by position
	walks   atomic.Int64          // pairs walked since the clock was last moved
}

type playedBatch struct {
	at    float64 // when it is there
	batch *schemas.Batch
}

// waiting returns the share of a trainer's time that it waits, from the first batch of epoch 1 on.
func (s sizes) waiting(ctx context.Context, epoch float64, queue int) (float64, error) {
	const space = playedSpace
	c := crawl{Lanes: s.Lanes, Pairs: s.Pairs, Dim: 16}
	vectors := c.vectors()
	lanes := make([]*playedLane, s.Lanes)
	for i := range lanes {
		core, err := grouper.NewLane(grouper.Options{
			Strategy: grouper.StrategyGRIT, Epochs: s.Epochs, BatchSize: space, QueueSize: queue, SearchSpace: space,
			Features: grouper.SourceTraining, Texts: grouper.TextNone, Workers: 1,
		}, i)
		if err != nil {
			return 0, err
		}
		lanes[i] = &playedLane{crawl: c, core: core, vectors: vectors}
		core.OnWalk(func(n int) { lanes[i].walks.Add(int64(n)) })
		if err := lanes[i].open(ctx, i); err != nil {
			return 0, err
		}
	}
	step := epoch * space / float64(s.Pairs*s.Lanes)
	free, idle, since := 0.0, 0.0, 0.0
	for turn := range s.Epochs * s.Pairs / space {
		for _, l := range lanes {
			next := l.made[0]
			l.made = l.made[1:]
			if turn < s.Pairs/space { // the first epoch begins when all is planned
				next.at, since = 0, free+step
			}
			idle += max(0, next.at-free)
			free = max(free, next.at) + step
			if err := l.answer(ctx, free, next.batch); err != nil {
				return 0, err
			}
		}
	}
	return idle / (free - since), nil
}

// open gives the lane its group.
func (l *playedLane) open(ctx context.Context, number int) error {
	records := make(map[schemas.Topic][]schemas.Record)
	err := l.crawl.lane(number, func(t schemas.Topic, _ int, r schemas.Record) error {
		records[t] = append(records[t], r)
		return nil
	})
	next := make(map[schemas.Topic]int)
	for t := l.core.Needs(); err == nil && t != schemas.Features; t = l.core.Needs() {
		err = l.add(ctx, records[t][next[t]], int64(next[t]))
		next[t]++
	}
	return err
}

// add gives the core a record when the lane has done what it was given before.
func (l *playedLane) add(ctx context.Context, r schemas.Record, seq int64) error {
	raw, err := schemas.Marshal(r)
	if err != nil {
		return err
	}
	walked := func() float64 { return float64(l.walks.Load()) * realWalks / float64(l.crawl.Pairs) }
	err = l.core.Add(ctx, grouper.Input{Record: r, Value: raw, Seq: seq}, func(made schemas.Record) error {
		if b, ok := made.(*schemas.Batch); ok {
			l.made = append(l.made, playedBatch{l.clock + walked() + 2*passing, b}) // by the discriminator
		}
		return nil
	})
	l.clock += walked()
	l.walks.Store(0)
	return err
}

// answer gives the features of a batch to the lane.
func (l *playedLane) answer(ctx context.Context, at float64, b *schemas.Batch) error {
	if l.core.Needs() != schemas.Features {
		return nil // of the last epoch
	}
	l.clock = max(l.clock, at+passing)
	return l.add(ctx, l.crawl.features(b, l.vectors, 1), 0)
}
