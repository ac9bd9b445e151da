package gauge

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"
	"time"
)

// A gauge's rate is that between its first and its last movement: pauses before and after do not count.
func TestRateIsThatOfMovement(t *testing.T) {
	var done int64
	g := &Gauge{Name: "encoder", Done: func() int64 { return done }, All: func() int64 { return 100 }}
	if g.Rate() != 0 {
		t.Errorf("before anything has moved the rate is %g", g.Rate())
	}
	began := time.Unix(1_750_000_000, 0)
	for _, step := range []struct {
		after time.Duration
		done  int64
		rate  float64
	}{{0, 0, 0}, {10 * time.Second, 0, 0}, {12 * time.Second, 40, 20}, {14 * time.Second, 100, 25}, {time.Hour, 100, 25}} {
		done = step.done
		g.look(began.Add(step.after))
		if g.Rate() != step.rate {
			t.Errorf("after %s the rate is %g, want %g", step.after, g.Rate(), step.rate)
		}
	}
}

func TestLinesLeaveOutWhatIsNotKnown(t *testing.T) {
	var out bytes.Buffer
	gauges := []*Gauge{
		{Name: "encoder", Unit: "pairs", Done: func() int64 { return 7 }, All: func() int64 { return 10 }},
		{Name: "trainer", Unit: "batches", Done: func() int64 { return 0 }, All: func() int64 { return 0 }},
		{Name: "written", Unit: "batches", Done: func() int64 { return 6 }, All: func() int64 { return 5 }}, // an estimate was too low
	}
	show(time.Unix(0, 0), gauges)
	printLine(&out, gauges)
	if want := "  encoder 7/10 pairs  written 6/6 batches\n"; out.String() != want {
		t.Errorf("the line is %q, want %q", out.String(), want)
	}
}

// Stop waits until the last state is seen, on a terminal and elsewhere.
func TestStopSeesTheEnd(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		var done atomic.Int64
		g := &Gauge{Name: "encoder", Unit: "pairs", Done: done.Load, All: func() int64 { return 10 }}
		stop := Watch(io.Discard, terminal, []*Gauge{g})
		done.Store(4)
		stop()
		if g.seen != 4 {
			t.Errorf("on a terminal: %v: it ends with %d of 4", terminal, g.seen)
		}
	}
}
