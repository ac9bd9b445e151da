package stream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Watchdog notices lanes of a stage that have input and make no progress. It logs and counts a lane after
// Config.StallAfter without progress, and logs it again when it continues. A lane that waits for input is never
// stalled.
type Watchdog struct {
	stage   string
	after   time.Duration
	logger  *slog.Logger
	stalls  prometheus.Counter
	stalled prometheus.Gauge
	now     func() time.Time

	mu    sync.Mutex
	lanes map[int]*Pulse
}

func (l *Log) newWatchdog(stage string) *Watchdog {
	return &Watchdog{
		stage: stage, after: l.cfg.StallAfter, logger: l.logger, now: time.Now, lanes: make(map[int]*Pulse),
		stalls: l.metrics.stalls.WithLabelValues(stage), stalled: l.metrics.stalled.WithLabelValues(stage),
	}
}

// Lane returns the pulse of a lane.
func (w *Watchdog) Lane(id int) *Pulse {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.lanes[id]
	if p == nil {
		p = &Pulse{now: w.now}
		w.lanes[id] = p
	}
	return p
}

// Run looks at the lanes until ctx ends.
func (w *Watchdog) Run(ctx context.Context) {
	tick := time.NewTicker(max(w.after/10, time.Millisecond))
	defer tick.Stop()
	defer w.stalled.Set(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look(w.now())
		}
	}
}

func (w *Watchdog) look(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stalled := 0
	for id, p := range w.lanes {
		since, busy := p.busySince()
		late := busy && now.Sub(since) >= w.after
		if late {
			stalled++
		}
		switch {
		case late && !p.told:
			w.stalls.Inc()
			w.logger.Warn("no progress despite input", keyStage, w.stage, keyLane, id, keyDur, now.Sub(since))
		case !late && p.told:
			w.logger.Info("progress again", keyStage, w.stage, keyLane, id)
		}
		p.told = late
	}
	w.stalled.Set(float64(stalled))
}

// Pulse reports a lane's progress to its watchdog. It is safe for concurrent use.
type Pulse struct {
	now  func() time.Time
	told bool // the watchdog's: this stall is counted

	mu     sync.Mutex
	inHand int
	since  time.Time // of the last progress, or of the first input after a wait; zero: nothing in hand
}

// Take reports one more piece of input in hand.
func (p *Pulse) Take() { p.take(p.now()) }

func (p *Pulse) take(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inHand++
	if p.since.IsZero() {
		p.since = now
	}
}

// Done reports a finished piece of input.
func (p *Pulse) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inHand = max(p.inHand-1, 0) // the lane may rest meanwhile
	p.since = time.Time{}
	if p.inHand > 0 {
		p.since = p.now()
	}
}

// retry reports that the input in hand failed and will be taken again. That is no progress.
func (p *Pulse) retry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inHand = 0
}

// rest reports that the lane is given up, with nothing in hand.
func (p *Pulse) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inHand, p.since = 0, time.Time{}
}

func (p *Pulse) busySince() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since, !p.since.IsZero()
}
