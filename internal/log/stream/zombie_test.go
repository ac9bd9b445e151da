package stream

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// owner runs a stage on lane 0 without a consumer group. So does a process that does not know yet that it has lost the
// lane.
type owner struct {
	cancel context.CancelFunc
	done   chan error
}

func own(l *Log, spec StageSpec) *owner {
	ctx, cancel := context.WithCancel(context.Background())
	o := &owner{cancel, make(chan error, 1)}
	ln := newLane(l.newRoster(spec.Name, spec.Inputs, nil, func(error) {}), spec, 0)
	ln.commit = func(map[schemas.Topic]int64) {}
	go func() {
		defer ln.close()
		if err := ln.open(ctx, 1<<20); err != nil {
			o.done <- err
			return
		}
		o.done <- ln.run(ctx, context.WithoutCancel(ctx))
	}()
	return o
}

func (o *owner) stop(t *testing.T) {
	t.Helper()
	o.cancel()
	must.Check(t, <-o.done)
}

// TestTwoOwners pauses an owner before each of its writes, lets a second owner finish the lane, and wakes the first
// one. The first owner then writes, at the end of the lane, what is there already. A third owner resumes from what it
// finds, and gets more to do.
func TestTwoOwners(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, broker.Options{})
			_, passed := s.undisturbed(t, b.Addr(), "counting")
			want, _ := s.extended().undisturbed(t, b.Addr(), "undisturbed")
			var survived tally
			for n := range passed[beforeWrite] {
				t.Run(fmt.Sprint("paused before write ", n), func(t *testing.T) {
					s.twoOwners(t, b.Addr(), n, want)
					survived.add(t, 1, want)
				})
			}
			survived.record(t, brokers{kind: "embedded"}, "two owners: "+s.name)
		})
	}
}

// twoOwners pauses the first owner before its n-th write.
func (s scenario) twoOwners(t *testing.T, broker string, n int, want map[schemas.Topic]string) {
	l := s.open(t, broker, fmt.Sprint(s.spec().Name, "-zombie-", n))
	paused, wake := make(chan struct{}), make(chan struct{})
	spec := s.spec()
	var writes atomic.Int64 // of records and of dead letters, which go their own ways
	spec.hook = func(p crashPoint, _ int) error {
		if p != beforeWrite {
			return nil
		}
		before := writes.Add(1) - 1
		if before == int64(n) {
			close(paused)
		}
		if before >= int64(n) {
			<-wake
		}
		return nil
	}
	first := own(l, spec)
	<-paused
	second := own(l, s.spec())
	awaitSeqs(t, l, s.ends, 0)
	second.stop(t)
	close(wake)
	first.stop(t)
	s.checkRepeated(t, l)
	third := own(l, s.spec())
	put(t, l, s.more...)
	awaitSeqs(t, l, s.moreEnds, 0)
	third.stop(t)
	for topic, got := range s.outcome(t, l) {
		if got != want[topic] {
			t.Errorf("%s: %s\nundisturbed: %s", topic, got, want[topic])
		}
	}
}

// checkRepeated makes sure that the zombie has done what the test is about.
func (s scenario) checkRepeated(t *testing.T, l *Log) {
	t.Helper()
	held, distinct := int64(0), int64(0)
	for topic, seq := range s.ends {
		b := must.Get(l.Bounds(t.Context(), topic, 0))(t)
		held += b.End
		distinct += seq + 1
	}
	b := must.Get(l.Bounds(t.Context(), schemas.DeadLetters, 0))(t)
	if held+b.End <= distinct+int64(s.dead) {
		t.Errorf("the log holds %d records, all of them distinct: nothing was written twice", held)
	}
}
