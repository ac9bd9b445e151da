package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/schemas"
)

// gate decides whether the log takes more pairs. One of the waiting requests asks the log, and the others share its
// answer for a moment.
type gate struct {
	maxLag   int64
	lag      func(context.Context) (int64, error)                 // pairs that the encoder has not processed
	ended    func(context.Context) (map[int]*schemas.Seal, error) // final seals, by lane
	era      func(context.Context) (*onlog.Era, error)
	now      func() time.Time
	patience time.Duration // time limit of questions to the log

	published atomic.Int64
	rooms     shared[int64] // total of published at which the lag would reach its limit
	ends      shared[struct{}]
	eras      shared[*onlog.Era]
}

// lagError means that the encoder is too far behind.
type lagError struct{ lag, most int64 }

func (e lagError) Error() string {
	return fmt.Sprintf("the encoder has %d pairs to go, and from %d on (INGEST_MAX_LAG) none are taken: send it again later", e.lag, e.most)
}

// errEnded marks a crawl that takes no more pairs.
var errEnded = errors.New("publish to another NAMESPACE")

// admit returns nil if a request may be taken, and a [lagError] or errEnded if not. Any other error is a fault of the
// log.
func (g *gate) admit(ctx context.Context) error {
	if _, err := g.ends.get(ctx, g, endedEvery, g.lookForEnds); err != nil || g.maxLag == 0 {
		return err
	}
	most, err := g.rooms.get(ctx, g, lagEvery, func(ctx context.Context) (int64, error) {
		before := g.published.Load()
		lag, err := g.lag(ctx)
		return before + g.maxLag - lag, err
	})
	if err != nil {
		return fmt.Errorf("looking how far the encoder is: %w", err)
	}
	if room := most - g.published.Load(); room <= 0 {
		return lagError{g.maxLag - room, g.maxLag}
	}
	return nil
}

func (g *gate) lookForEnds(ctx context.Context) (none struct{}, err error) {
	ended, err := g.ended(ctx)
	if err != nil {
		return none, fmt.Errorf("looking whether lanes have ended: %w", err)
	}
	if len(ended) == 0 {
		return none, nil
	}
	lanes := slices.Sorted(maps.Keys(ended))
	return none, fmt.Errorf("%d lanes have ended with a final seal, the first is lane %d: %w", len(lanes), lanes[0], errEnded)
}

// eraOf returns the log's era, at most age old.
func (g *gate) eraOf(ctx context.Context, age time.Duration) (*onlog.Era, error) {
	era, err := g.eras.get(ctx, g, age, g.era)
	if err != nil {
		return nil, fmt.Errorf("asking the log for its contents: %w", err)
	}
	return era, nil
}

// took counts published pairs.
func (g *gate) took(n int) { g.published.Add(int64(n)) }

// wait returns when no question to the log is pending.
func (g *gate) wait() {
	g.ends.wait()
	g.rooms.wait()
	g.eras.wait()
}
