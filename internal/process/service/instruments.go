package service

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Instruments make a stage visible from outside: its log lines, its metrics besides those of the log, and its
// readiness. All methods are safe for concurrent use.
type Instruments struct {
	Log *slog.Logger

	name       string
	says       atomic.Pointer[func() string] // in addition to the lanes' states; nil: nothing
	registerer prometheus.Registerer
	counters   *stream.Counters
	loaded     atomic.Int64 // when the model was loaded, Unix nanoseconds
	device     atomic.Pointer[func() time.Duration]
	processor  busyTime // used unless there is a device
	idle       atomic.Int64

	batches prometheus.Histogram
	in, out prometheus.Counter
	masked  *prometheus.CounterVec
}

const stageMetrics = "pairstream_stage_"

// NewInstruments registers the metrics of a stage. The process is ready only when the stage is. Counters may be nil.
func (rt Runtime) NewInstruments(name string, counters *stream.Counters) (*Instruments, error) {
	if counters == nil {
		counters = new(stream.Counters)
	}
	labels := prometheus.Labels{"stage": name}
	counter := func(what, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: stageMetrics + what, Help: help, ConstLabels: labels}
	}
	i := &Instruments{
		Log: rt.Log, name: name, registerer: rt.Registry, counters: counters,
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: stageMetrics + "batch_seconds", ConstLabels: labels,
			Help:    "Time that a batch took: pairs embedded together, a group computed, an input of the grouper, a mini-batch scored or trained on.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 12),
		}),
		in:  prometheus.NewCounter(counter("pairs_in_total", "Pairs that the stage has taken up, again after a restart.")),
		out: prometheus.NewCounter(counter("pairs_out_total", "Pairs in what the stage has made, again after a restart.")),
		masked: prometheus.NewCounterVec(counter("masked_images_total",
			"Images of batches that were there when they were embedded and are not usable any more, by reason."), []string{"reason"}),
	}
	err := i.Register(
		i.batches, i.in, i.out, i.masked,
		prometheus.NewCounterFunc(counter("device_busy_seconds_total", "Time that the device has worked for the stage; the processor, where the stage has no device."),
			func() float64 { return i.busy().Seconds() }),
		prometheus.NewCounterFunc(counter("device_waiting_seconds_total", "Time since the model was loaded that the device has not worked for the stage."),
			func() float64 { return i.waiting().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: stageMetrics + "lanes", Help: "Lanes that this process owns.", ConstLabels: labels},
			func() float64 { return float64(counters.Lanes.Load()) }),
	)
	if err != nil {
		return nil, err
	}
	rt.Ready.add(i)
	return i, nil
}

// Register registers metrics of this stage alone.
func (i *Instruments) Register(collectors ...prometheus.Collector) error {
	var problems []error
	for _, c := range collectors {
		if err := i.registerer.Register(c); err != nil {
			problems = append(problems, fmt.Errorf("registering metrics of %s: %w", i.name, err))
		}
	}
	return errors.Join(problems...)
}

// Says sets the stage's own part of the answer about readiness. An empty text adds nothing.
func (i *Instruments) Says(what func() string) { i.says.Store(&what) }

// Counters returns the log's counters of the stage.
func (i *Instruments) Counters() *stream.Counters { return i.counters }

// UseDevice sets the clock of the stage's device time.
func (i *Instruments) UseDevice(busy func() time.Duration) { i.device.Store(&busy) }

// Loaded records that the stage's model is loaded, or that a stage without a model begins.
func (i *Instruments) Loaded() { i.loaded.Store(time.Now().UnixNano()) }

// PairsIn counts input pairs.
func (i *Instruments) PairsIn(n int) { i.in.Add(float64(n)) }

// PairsOut counts output pairs.
func (i *Instruments) PairsOut(n int) { i.out.Add(float64(n)) }

// Masked counts images that the stage has masked in a batch of a group, and logs them.
func (i *Instruments) Masked(group schemas.GroupID, masks []schemas.Mask) {
	if len(masks) == 0 {
		return
	}
	for _, m := range masks {
		i.masked.WithLabelValues(m.Reason).Inc()
	}
	i.Log.Warn("masking images that are not usable any more", keyGroupID, group.String(), keyCount, len(masks), keyReason, masks[0].Reason)
}

// Batch begins a batch; the returned function ends it.
func (i *Instruments) Batch() (end func()) {
	started := time.Now()
	i.processor.begin(started)
	return func() {
		ended := time.Now()
		i.processor.end(ended)
		i.batches.Observe(ended.Sub(started).Seconds())
	}
}

func (i *Instruments) busy() time.Duration {
	if device := i.device.Load(); device != nil {
		return (*device)()
	}
	return i.processor.until(time.Now())
}

// waiting returns the idle time since the model was loaded. It never decreases, as a counter must not, although a
// device counts a job's time only at the end of the job.
func (i *Instruments) waiting() time.Duration {
	loaded := i.loaded.Load()
	if loaded == 0 {
		return 0
	}
	now := int64(time.Since(time.Unix(0, loaded)) - i.busy())
	for {
		most := i.idle.Load()
		if now <= most {
			return time.Duration(most)
		}
		if i.idle.CompareAndSwap(most, now) {
			return time.Duration(now)
		}
	}
}

// missing describes the stage's missing condition for readiness; empty: it is ready.
func (i *Instruments) missing() string {
	switch {
	case i.loaded.Load() == 0:
		return i.name + " has not loaded its model"
	case i.counters.Lanes.Load() == 0:
		return i.name + " owns no lanes"
	}
	return ""
}

// busyTime adds up the time in which at least one of several activities runs.
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

// Keys of log lines.
const (
	keyConfig      = "config"
	keyCount       = "count"
	keyDifferences = "differences"
	keyGroupID     = "group_id"
	keyReason      = "reason"
	keyStage       = "stage"
)
