package stream

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// testWatchdog returns a watchdog whose clock stands until the test moves it.
func testWatchdog(t *testing.T, log *bytes.Buffer) (w *Watchdog, reg *prometheus.Registry, after func(time.Duration)) {
	t.Helper()
	reg = prometheus.NewRegistry()
	m := must.Get(newMetrics(reg))(t)
	cfg := DefaultConfig()
	cfg.StallAfter = time.Minute
	w = (&Log{cfg: cfg, metrics: m, logger: slog.New(slog.NewTextHandler(log, nil))}).newWatchdog("encoder")
	clock := time.Unix(1000, 0)
	w.now = func() time.Time { return clock }
	return w, reg, func(d time.Duration) {
		clock = clock.Add(d)
		w.look(clock)
	}
}

func TestWatchdog(t *testing.T) {
	const almost, enough = time.Minute - 1, time.Minute
	for name, c := range map[string]struct {
		does            func(p *Pulse, after func(time.Duration))
		stalls, stalled float64
	}{
		"nothing ever came": {func(_ *Pulse, after func(time.Duration)) { after(time.Hour) }, 0, 0},
		"waits for input": {func(p *Pulse, after func(time.Duration)) {
			p.Take()
			after(almost)
			p.Done()
			after(time.Hour)
		}, 0, 0},
		"almost too long": {func(p *Pulse, after func(time.Duration)) { p.Take(); after(almost) }, 0, 0},
		"too long":        {func(p *Pulse, after func(time.Duration)) { p.Take(); after(enough) }, 1, 1},
		"counted once": {func(p *Pulse, after func(time.Duration)) {
			p.Take()
			after(enough)
			after(time.Hour)
		}, 1, 1},
		"goes on": {func(p *Pulse, after func(time.Duration)) {
			p.Take()
			after(enough)
			p.Done()
			after(0)
		}, 1, 0},
		"stalls again": {func(p *Pulse, after func(time.Duration)) {
			p.Take()
			after(enough)
			p.Done()
			after(0)
			p.Take()
			after(enough)
		}, 2, 1},
		"slow, but one after the other": {func(p *Pulse, after func(time.Duration)) {
			p.Take()
			for range 5 {
				p.Take()
				after(almost)
				p.Done()
			}
		}, 0, 0},
		"one of two is done": {func(p *Pulse, after func(time.Duration)) {
			p.Take()
			p.Take()
			p.Done()
			after(enough)
		}, 1, 1},
		"to try again is no progress": {func(p *Pulse, after func(time.Duration)) {
			p.Take()
			after(almost)
			p.retry()
			p.Take()
			after(1)
		}, 1, 1},
		"tried again with success": {func(p *Pulse, after func(time.Duration)) {
			p.Take()
			after(almost)
			p.retry()
			p.Take()
			p.Done()
			after(time.Hour)
		}, 0, 0},
		"given up": {func(p *Pulse, after func(time.Duration)) {
			p.Take()
			p.rest()
			after(time.Hour)
		}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			w, reg, after := testWatchdog(t, &log)
			c.does(w.Lane(3), after)
			checkMetrics(t, reg, map[string]float64{
				"pairstream_stream_stalls_total{stage=encoder}": c.stalls, "pairstream_stream_stalled_lanes{stage=encoder}": c.stalled,
			})
			if got := strings.Count(log.String(), `msg="no progress despite input" stage=encoder lane=3 `); float64(got) != c.stalls {
				t.Errorf("%v stalls are in the log %d times:\n%s", c.stalls, got, &log)
			}
		})
	}
}

// TestStalledStageIsNoticed hangs a stage on a record. The watchdog notices it, and notices when the stage goes on.
// While the stage waits for records, the watchdog notices nothing.
func TestStalledStageIsNoticed(t *testing.T) {
	b := startBroker(t, broker.Options{})
	reg := prometheus.NewRegistry()
	cfg := testConfig(b.Addr(), "", 1)
	cfg.StallAfter = 10 * time.Millisecond
	l := must.Get(Connect(t.Context(), cfg, Options{Registerer: reg}))(t)
	t.Cleanup(l.Close)
	must.Do(t, l.EnsureTopics(t.Context()))
	release := make(chan struct{})
	counters := new(Counters)
	spec := faultySpec(func(Record, Output) error { <-release; return nil })
	spec.Counters = counters
	run := start(l, spec)
	await(t, "lanes to be owned", func() bool { return counters.Lanes.Load() == 1 })
	stalled := func() float64 { return sample(t, reg, "pairstream_stream_stalled_lanes") }
	stalls := func() float64 { return sample(t, reg, "pairstream_stream_stalls_total") }
	<-time.After(5 * cfg.StallAfter) // enough for a watchdog that is wrong; one that is right cannot fail here
	if stalls() != 0 {
		t.Error("a stage without input is called stalled")
	}
	put(t, l, pair(0, "zero"))
	await(t, "the watchdog", func() bool { return stalled() == 1 && stalls() == 1 })
	close(release)
	await(t, "progress", func() bool { return stalled() == 0 })
	run.stop(t)
	if n := counters.Lanes.Load(); n != 0 {
		t.Errorf("%d lanes are owned after the end", n)
	}
}

// sample returns the value of a metric that has one series.
func sample(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families := must.Get(reg.Gather())(t)
	for _, f := range families {
		if m := f.GetMetric(); f.GetName() == name && len(m) == 1 {
			return m[0].GetCounter().GetValue() + m[0].GetGauge().GetValue()
		}
	}
	return 0
}
