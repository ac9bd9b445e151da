package stream

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/schemas"
)

// TestAStageThatCannotTakeARecordYet gives records to a stage that takes none of two lanes for a while. The lanes say
// what they wait for, are not taken down, and go on soon when the stage can. A process that joins meanwhile costs
// nothing, and neither does one that ends.
func TestAStageThatCannotTakeARecordYet(t *testing.T) {
	l, reg := openMeasured(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 2))
	for lane := range 2 {
		put(t, l, pair(lane, "zero"), pair(lane, "one"), pair(lane, "two"))
	}
	var open atomic.Bool
	asked := make(chan struct{}, 1000)
	spec := faultySpec(func(rec Record, _ Output) error {
		if string(rec.Value) == "one" && !open.Load() {
			asked <- struct{}{}
			return NotYet(errors.New("a file"))
		}
		return nil
	})
	spec.Counters = new(Counters)
	first := start(l, spec)
	for range 4 {
		<-asked
	}
	if states := spec.Counters.States(); len(states) != 2 || !strings.Contains(states[0], "waits for a file") {
		t.Errorf("the lanes say %q", states)
	}
	other := spec
	other.Counters = new(Counters)
	second := start(l, other)
	await(t, "the processes have a lane each", func() bool { return spec.Counters.Lanes.Load() == 1 && other.Counters.Lanes.Load() == 1 })
	open.Store(true)
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 2}, 0, 1)
	first.stop(t)
	second.stop(t)
	l.metrics.restarts.WithLabelValues(spec.Name) // it is there only once it has counted, else
	checkMetrics(t, reg, map[string]float64{"pairstream_stream_lane_restarts_total{stage=faulty}": 0})
	for lane := range 2 {
		if got, want := lines(t, l, schemas.Embeddings, lane), []string{"zero", "one", "two"}; !slices.Equal(got, want) {
			t.Errorf("lane %d: got %q, want %q", lane, got, want)
		}
	}
}
