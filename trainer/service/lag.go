package service

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// commitEvery is the time between two commits.
const commitEvery = time.Second

// lag commits to the consumer group how far the training is in each lane of `scored`. `pairstream status` and lag
// dashboards use it. The trainer reads nothing from there: it resumes from the checkpoint.
type lag struct {
	log    *stream.Log
	logger *slog.Logger
	latest atomic.Pointer[positions]
}

// at sets the position of the training. p must not change afterwards.
func (l *lag) at(p positions) { l.latest.Store(&p) }

// run commits now and then until ctx ends, and once more at the end.
func (l *lag) run(ctx context.Context) {
	tick := time.NewTicker(commitEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.commit(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitEvery)
			l.commit(last)
			cancel()
			return
		}
	}
}

func (l *lag) commit(ctx context.Context) {
	p := l.latest.Swap(nil)
	if p == nil {
		return
	}
	offsets := make(map[int]int64, len(p.Lanes))
	for _, lane := range p.Lanes {
		offsets[lane.Lane] = lane.Scored.Offset
	}
	if err := l.log.Commit(ctx, Name, schemas.Scored, offsets); err != nil {
		l.logger.Debug("committing offsets", "stage", Name, "err", err)
	}
}
