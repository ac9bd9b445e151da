package stream

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/schemas"
)

// Counters report the progress of one stage in this process, for a progress bar. All members are safe for concurrent
// use. The zero value is ready.
type Counters struct {
	In            atomic.Int64 // records read, without repetitions
	Out           atomic.Int64 // records acknowledged by the broker
	DeadLetters   atomic.Int64 // records set aside
	Duplicates    atomic.Int64 // repeated records dropped
	Lag           atomic.Int64 // records of the owned lanes that are in the inputs and not yet read
	BytesInFlight atomic.Int64 // read ahead, or waiting for their acks
	Busy          atomic.Int64 // nanoseconds that the stage has worked on records, in all lanes together
	Lanes         atomic.Int64 // owned by this process
	states        sync.Map     // by lane
	LastProgress  atomic.Int64 // Unix nanoseconds of the last record read or acknowledged; 0: none yet
}

// allLanes stands for a state of the whole stage.
const allLanes = -1

// say sets the state of a lane. An empty state means that the lane is at work.
func (c *Counters) say(lane int, state string) {
	if state == "" {
		c.states.Delete(lane)
	} else {
		c.states.Store(lane, state)
	}
}

// States returns the states of lanes in this process that are parked or waiting.
func (c *Counters) States() []string {
	var out []string
	c.states.Range(func(lane, state any) bool {
		text := fmt.Sprintf("lane %d %s", lane, state)
		if lane == allLanes {
			text = fmt.Sprint(state)
		}
		out = append(out, text)
		return true
	})
	slices.Sort(out)
	return out
}

func (c *Counters) progress() { c.LastProgress.Store(time.Now().UnixNano()) }

// metrics are the collectors of all stages of a process.
type metrics struct {
	in, out, dead, duplicates, restarts, trimmed, stalls *prometheus.CounterVec
	bytes, lag, progress, stalled, parked, waiting       *prometheus.GaugeVec
	reconnects                                           prometheus.Counter
}

const metricsPrefix = "pairstream_stream_"

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricsPrefix + name, Help: help}, labels)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: metricsPrefix + name, Help: help}, []string{"stage"})
	}
	m := &metrics{
		in:         counter("records_in_total", "Records read, without repetitions.", "stage", "topic"),
		out:        counter("records_out_total", "Records acknowledged by the broker.", "stage", "topic"),
		dead:       counter("dead_letters_total", "Records set aside, by reason.", "stage", "reason"),
		duplicates: counter("duplicates_dropped_total", "Repeated records dropped.", "stage", "topic"),
		restarts:   counter("lane_restarts_total", "Times that a lane was restarted after a fault.", "stage"),
		trimmed:    counter("trimmed_records_total", "Records that retention removed before they were read for the first time.", "topic"),
		stalls:     counter("stalls_total", "Times that a lane had input and made no progress for 10 minutes.", "stage"),
		bytes:      gauge("bytes_in_flight", "Bytes of records read ahead or waiting for their acks."),
		lag:        gauge("lag_records", "Records of the owned lanes not yet read."),
		progress:   gauge("last_progress_timestamp_seconds", "When a record was last read or acknowledged."),
		stalled:    gauge("stalled_lanes", "Lanes that have input and have made no progress for 10 minutes."),
		parked:     gauge("parked_lanes", "Lanes that are out of service until someone repairs them."),
		waiting:    gauge("waiting_lanes", "Lanes that have waited for an input for more than a minute while another input had records."),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: metricsPrefix + "reconnects_total", Help: "Times that all connections were dropped to end a stall.",
		}),
	}
	if r == nil {
		return m, nil
	}
	for _, v := range []**prometheus.CounterVec{&m.in, &m.out, &m.dead, &m.duplicates, &m.restarts, &m.trimmed, &m.stalls} {
		if err := register(r, v); err != nil {
			return nil, err
		}
	}
	for _, v := range []**prometheus.GaugeVec{&m.bytes, &m.lag, &m.progress, &m.stalled, &m.parked, &m.waiting} {
		if err := register(r, v); err != nil {
			return nil, err
		}
	}
	return m, register(r, &m.reconnects)
}

// register registers *c, or takes over the equal collector of another Log of this process.
func register[C prometheus.Collector](r prometheus.Registerer, c *C) error {
	err := r.Register(*c)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := already.ExistingCollector.(C); ok {
			*c = existing
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}

// instruments counts for one stage, in metrics and counters at once.
type instruments struct {
	m     *metrics
	stage string
	c     *Counters
	bytes prometheus.Gauge
	lag   prometheus.Gauge
	last  prometheus.Gauge
	in    map[schemas.Topic]prometheus.Counter
	out   map[schemas.Topic]prometheus.Counter
	dups  map[schemas.Topic]prometheus.Counter
}

func newInstruments(m *metrics, stage string, c *Counters) *instruments {
	if c == nil {
		c = new(Counters)
	}
	t := &instruments{
		m: m, stage: stage, c: c,
		bytes: m.bytes.WithLabelValues(stage), lag: m.lag.WithLabelValues(stage), last: m.progress.WithLabelValues(stage),
		in: map[schemas.Topic]prometheus.Counter{}, out: map[schemas.Topic]prometheus.Counter{}, dups: map[schemas.Topic]prometheus.Counter{},
	}
	for _, info := range schemas.Catalogue() {
		name := string(info.Topic)
		t.in[info.Topic] = m.in.WithLabelValues(stage, name)
		t.out[info.Topic] = m.out.WithLabelValues(stage, name)
		t.dups[info.Topic] = m.duplicates.WithLabelValues(stage, name)
	}
	return t
}

func (t *instruments) read(of prometheus.Counter) {
	t.c.In.Add(1)
	of.Inc()
}

func (t *instruments) progressed() {
	t.c.progress()
	t.last.SetToCurrentTime()
}

func (t *instruments) worked(d time.Duration) { t.c.Busy.Add(int64(d)) }

func (t *instruments) dropped(topic schemas.Topic) {
	t.c.Duplicates.Add(1)
	t.dups[topic].Inc()
}

func (t *instruments) acked(topic schemas.Topic, n int) {
	if topic != schemas.DeadLetters {
		t.c.Out.Add(int64(n))
	}
	t.out[topic].Add(float64(n))
	t.progressed()
}

func (t *instruments) deadLettered(reason string) {
	t.c.DeadLetters.Add(1)
	t.m.dead.WithLabelValues(t.stage, reason).Inc()
}

func (t *instruments) addBytes(n int64) {
	t.c.BytesInFlight.Add(n)
	t.bytes.Add(float64(n))
}

func (t *instruments) addLag(n int64) {
	t.c.Lag.Add(n)
	t.lag.Add(float64(n))
}
