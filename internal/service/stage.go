package service

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/stream"
)

// Stage is one stage of this process: its metrics besides those of the log, and whether it is ready. All methods are safe
// for concurrent use.
type Stage struct {
	name       string
	registerer prometheus.Registerer
	counters   *stream.Counters
	loaded     atomic.Int64 // when the model was loaded, Unix nanoseconds
	device     atomic.Pointer[func() time.Duration]
	hands      busyTime // used unless there is a device
	idle       atomic.Int64

	batches prometheus.Histogram
	in, out prometheus.Counter
}

const stageMetrics = "pairstream_stage_"

// NewStage registers the metrics of a stage and lets the process be ready only when the stage is. Counters may be nil.
func (rt Runtime) NewStage(name string, counters *stream.Counters) (*Stage, error) {
	if counters == nil {
		counters = new(stream.Counters)
	}
	labels := prometheus.Labels{"stage": name}
	counter := func(what, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: stageMetrics + what, Help: help, ConstLabels: labels}
	}
	s := &Stage{
		name: name, registerer: rt.Registry, counters: counters,
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: stageMetrics + "batch_seconds", ConstLabels: labels,
			Help:    "Time that a batch took: pairs embedded together, a group computed, an input of the grouper, a mini-batch scored or trained on.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 12),
		}),
		in:  prometheus.NewCounter(counter("pairs_in_total", "Pairs that the stage has taken up, again after a restart.")),
		out: prometheus.NewCounter(counter("pairs_out_total", "Pairs in what the stage has made, again after a restart.")),
	}
	err := s.Register(
		s.batches, s.in, s.out,
		prometheus.NewCounterFunc(counter("device_busy_seconds_total", "Time that the device has worked for the stage; the processor, where the stage has no device."),
			func() float64 { return s.busy().Seconds() }),
		prometheus.NewCounterFunc(counter("device_waiting_seconds_total", "Time since the model was loaded that the device has not worked for the stage."),
			func() float64 { return s.waiting().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: stageMetrics + "lanes", Help: "Lanes that this process owns.", ConstLabels: labels},
			func() float64 { return float64(counters.Lanes.Load()) }),
	)
	if err != nil {
		return nil, err
	}
	rt.Ready.add(s)
	return s, nil
}

// Register registers what only this stage reports.
func (s *Stage) Register(collectors ...prometheus.Collector) error {
	var problems []error
	for _, c := range collectors {
		if err := s.registerer.Register(c); err != nil {
			problems = append(problems, fmt.Errorf("registering metrics of %s: %w", s.name, err))
		}
	}
	return errors.Join(problems...)
}

// Counters are those that the log keeps.
func (s *Stage) Counters() *stream.Counters { return s.counters }

// UseDevice says where the time is from that the stage's device has worked.
func (s *Stage) UseDevice(busy func() time.Duration) { s.device.Store(&busy) }

// Loaded says that the stage's model is loaded; where it has none, that the stage begins.
func (s *Stage) Loaded() { s.loaded.Store(time.Now().UnixNano()) }

// PairsIn counts pairs that were taken up.
func (s *Stage) PairsIn(n int) { s.in.Add(float64(n)) }

// PairsOut counts pairs in what was made.
func (s *Stage) PairsOut(n int) { s.out.Add(float64(n)) }

// Batch begins a batch; the function that it returns ends it.
func (s *Stage) Batch() (end func()) {
	started := time.Now()
	s.hands.begin(started)
	return func() {
		ended := time.Now()
		s.hands.end(ended)
		s.batches.Observe(ended.Sub(started).Seconds())
	}
}

func (s *Stage) busy() time.Duration {
	if device := s.device.Load(); device != nil {
		return (*device)()
	}
	return s.hands.until(time.Now())
}

// waiting never goes back, as counters must not, although a device counts a job's time only when the job ends.
func (s *Stage) waiting() time.Duration {
	loaded := s.loaded.Load()
	if loaded == 0 {
		return 0
	}
	now := int64(time.Since(time.Unix(0, loaded)) - s.busy())
	for {
		most := s.idle.Load()
		if now <= most {
			return time.Duration(most)
		}
		if s.idle.CompareAndSwap(most, now) {
			return time.Duration(now)
		}
	}
}

// missing is what the stage waits for before it is ready; empty: it is.
func (s *Stage) missing() string {
	switch {
	case s.loaded.Load() == 0:
		return s.name + " has not loaded its model"
	case s.counters.Lanes.Load() == 0:
		return s.name + " owns no lanes"
	}
	return ""
}

// busyTime adds up the time in which at least one of several things goes on.
type busyTime struct {
	mu    sync.Mutex
	going int
	since time.Time // when going left 0
	total time.Duration
}

func (b *busyTime) begin(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.going == 0 {
		b.since = now
	}
	b.going++
}

func (b *busyTime) end(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.going--
	if b.going == 0 {
		b.total += now.Sub(b.since)
	}
}

func (b *busyTime) until(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.going == 0 {
		return b.total
	}
	return b.total + now.Sub(b.since)
}
