package producer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/log/stream"
)

// Pace limits the speed of a producer. The zero value has no limit.
type Pace struct {
	Rate    float64 // most pairs a second; 0: any
	MaxLag  int64   // most pairs that the encoder has not processed; 0: any
	Weights []int   // of the paths, for turns; nil: one path after the other
}

// Validate refuses limits that make no sense for the paths.
func (p *Pace) Validate(paths []string) error {
	switch {
	case p.Rate < 0:
		return fmt.Errorf("--rate is %g, want 0 or more", p.Rate)
	case p.MaxLag < 0:
		return fmt.Errorf("--max-lag is %d, want 0 or more", p.MaxLag)
	case p.Weights != nil && len(p.Weights) != len(paths):
		return fmt.Errorf("--weights has %d numbers for %d paths, want one for each", len(p.Weights), len(paths))
	case slices.ContainsFunc(p.Weights, func(w int) bool { return w < 1 }):
		return fmt.Errorf("--weights is %v, want numbers of at least 1", p.Weights)
	}
	return nil
}

// paced implements [dataset.Ledger]. It publishes no faster than its limits allow.
type paced struct {
	dataset.Ledger
	limiter *rate.Limiter
	maxLag  int64
	room    int64 // messages that may go out before the next check of the lag
	lag     func(context.Context) (int64, error)
}

// paceAhead is the part of a second that a delayed producer may catch up.
const paceAhead = 10

// over returns a ledger with the limits, or the ledger itself if there are none.
func (p *Pace) over(l dataset.Ledger, log *stream.Log, publisher *stream.Publisher) dataset.Ledger {
	if p.Rate == 0 && p.MaxLag == 0 {
		return l
	}
	limiter := rate.NewLimiter(rate.Inf, 1)
	if p.Rate > 0 {
		limiter = rate.NewLimiter(rate.Limit(p.Rate), max(1, int(p.Rate/paceAhead)))
	}
	return &paced{Ledger: l, limiter: limiter, maxLag: p.MaxLag, lag: func(ctx context.Context) (int64, error) {
		if err := publisher.Flush(ctx); err != nil {
			return 0, err
		}
		return onlog.EncoderLag(ctx, log)
	}}
}

// lagPause is the time between two checks of the encoder's lag, which it commits once a second.
const lagPause = 200 * time.Millisecond

// Publish implements [dataset.Ledger].
func (p *paced) Publish(ctx context.Context, m dataset.Message) error {
	if err := p.limiter.Wait(ctx); err != nil {
		return errors.Join(err, ctx.Err())
	}
	if p.maxLag > 0 {
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
	return p.Ledger.Publish(ctx, m)
}

// wait waits until the encoder lags by less than the limit.
func (p *paced) wait(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for p.room <= 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pause.C:
		}
		lag, err := p.lag(ctx)
		if err != nil {
			return fmt.Errorf("looking how far the encoder is: %w", err)
		}
		p.room = p.maxLag - lag
		pause.Reset(lagPause)
	}
	p.room--
	return nil
}
