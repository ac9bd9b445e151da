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

// gate decides whether the log takes more pairs. Of the requests that come, one looks at the log, and the others share
// what it has seen for a moment.
type gate struct {
	maxLag   int64
	lag      func(context.Context) (int64, error)                 // pairs that the encoder has not processed
	ended    func(context.Context) (map[int]*schemas.Seal, error) // final seals, by lane
	era      func(context.Context) (*onlog.Era, error)
	now      func() time.Time
	patience time.Duration // with the log

	published atomic.Int64
	rooms     shared[int64] // what published may come to
	ends      shared[struct{}]
	eras      shared[*onlog.Era]
}

// lagError says that the encoder is behind.
type lagError struct{ lag, most int64 }

func (e lagError) Error() string {
	return fmt.Sprintf("the encoder has %d pairs to go, and from %d on (INGEST_MAX_LAG) none are taken: send it again later", e.lag, e.most)
}

// errEnded marks a crawl that takes nothing more.
var errEnded = errors.New("publish to another NAMESPACE")

// admit returns nil if a request may be taken. A [lagError] and errEnded say why it may not; any other error is a fault
// of the log.
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

// eraOf returns what the log holds, asked for at most so long ago.
func (g *gate) eraOf(ctx context.Context, age time.Duration) (*onlog.Era, error) {
	era, err := g.eras.get(ctx, g, age, g.era)
	if err != nil {
		return nil, fmt.Errorf("looking what the log holds: %w", err)
	}
	return era, nil
}

// took counts pairs that were published.
func (g *gate) took(n int) { g.published.Add(int64(n)) }

// wait returns when nothing is asked of the log any more.
func (g *gate) wait() {
	g.ends.wait()
	g.rooms.wait()
	g.eras.wait()
}
