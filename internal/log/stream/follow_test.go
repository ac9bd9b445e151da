package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// followed is a follower of two lanes that collects what it takes. A lane ends with the record "end".
type followed struct {
	*Follower
	counters *Counters
	mu       sync.Mutex
	taken    [2][]string
}

// follow starts a follower in the background. fault says what Take returns for a record.
func follow(t *testing.T, l *Log, fault func(value string) error) (f *followed, ended func() error) {
	t.Helper()
	f = &followed{counters: new(Counters)}
	f.counters.Lanes.Store(2)
	letters := l.NewPublisher(PublisherOptions{})
	f.Follower = l.Follow(FollowSpec{
		Name: "trainer", Topic: schemas.Scored, From: map[int]Position{0: {}, 1: {}}, Letters: letters, Counters: f.counters,
		ParkedPause: 10 * time.Millisecond, SaidAfter: 10 * time.Millisecond,
		Take: func(_ context.Context, lane *FollowedLane, rec Record) error {
			value := string(rec.Value)
			if value == "end" {
				return io.EOF
			}
			if err := fault(value); err != nil {
				return err
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.taken[lane.ID] = append(f.taken[lane.ID], value)
			return nil
		},
		Waiting: func(lane int) (string, bool) { return fmt.Sprint("more of ", lane), lane == 1 },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	var watching sync.WaitGroup
	watching.Go(func() { f.Watch(ctx) })
	go func() { done <- f.Run(ctx) }()
	return f, func() error {
		err := <-done
		cancel()
		watching.Wait()
		must.Check(t, letters.Close(t.Context()))
		return err
	}
}

func (f *followed) has(lane int, values ...string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Equal(f.taken[lane], values)
}

func scoredLane(lane int, values ...string) []message {
	var m []message
	for seq, v := range values {
		m = append(m, numbered(schemas.Scored, lane, int64(seq), v))
	}
	return m
}

// TestFollow lets a lane fail in every way, each once. The other lane does not notice.
func TestFollow(t *testing.T) {
	b := startBroker(t, broker.Options{})
	for name, c := range map[string]struct {
		fault error
		want  []string // of lane 0
		state string   // on the way; empty: none
		dead  int
	}{
		"nothing":     {nil, []string{"a", "bad", "c"}, "", 0},
		"poison":      {Poison(errors.New("foreign record")), []string{"a", "c"}, "", 1},
		"may pass":    {Transient(errors.New("a bucket")), []string{"a", "bad", "c"}, "", 0},
		"damage":      {Damaged(errors.New("a page is torn out")), []string{"a", "bad", "c"}, "lane 0 parked: lane is damaged: a page", 0},
		"not known":   {errors.New("something broke"), []string{"a", "bad", "c"}, "lane 0 parked: something broke", 0},
		"newer major": {schemas.ErrUnknownSchema, []string{"a", "bad", "c"}, "lane 0 parked: lane is damaged: scored, lane 0, offset 1, seq 1 is of a newer", 0},
	} {
		t.Run(name, func(t *testing.T) {
			l, reg := openMeasured(t, testConfig(b.Addr(), strings.ReplaceAll(name, " ", "-"), 2))
			put(t, l, slices.Concat(scoredLane(0, "a", "bad", "c", "end"), scoredLane(1, "d", "e", "end"))...)
			var mu sync.Mutex
			fault := c.fault
			f, ended := follow(t, l, func(value string) error {
				mu.Lock()
				defer mu.Unlock()
				if value != "bad" || fault == nil {
					return nil
				}
				err := fault
				if c.state == "" {
					fault = nil
				}
				return err
			})
			await(t, "the other lane ends", func() bool { return f.has(1, "d", "e") })
			if c.state != "" {
				await(t, "the lane says "+c.state, func() bool {
					return strings.HasPrefix(strings.Join(f.counters.States(), ""), c.state) && gauge(t, reg, "parked_lanes") == 1
				})
				await(t, "the place is noted", func() bool {
					at, _, err := l.Stopped(t.Context(), "trainer", schemas.Scored, 0)
					return err == nil && at == Position{Offset: 1, Seq: 1}
				})
				mu.Lock()
				fault = nil
				mu.Unlock()
			}
			if err := ended(); err != nil || !f.has(0, c.want...) || len(f.counters.States()) > 0 || gauge(t, reg, "parked_lanes") != 0 {
				t.Errorf("lane 0 has %q, says %q, error %v, want %q", f.taken[0], f.counters.States(), err, c.want)
			}
			dead := 0
			for range l.DeadLetters(t.Context()) {
				dead++
			}
			if dead != c.dead {
				t.Errorf("%d dead letters, want %d", dead, c.dead)
			}
		})
	}
}

// TestFollowWaits lets lanes wait. They say so, to the process and to whoever asks for their lag. One of them holds up
// others, and counts.
func TestFollowWaits(t *testing.T) {
	l, reg := openMeasured(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 2))
	f, ended := follow(t, l, func(string) error { return nil })
	f.Reached(1, 7)
	await(t, "the lanes say what they wait for", func() bool {
		return slices.Equal(f.counters.States(), []string{"lane 0 waits for more of 0", "lane 1 waits for more of 1"}) && gauge(t, reg, "waiting_lanes") == 1
	})
	await(t, "the lag says so", func() bool {
		lags, err := l.Lag(t.Context(), "trainer", schemas.Scored)
		return err == nil && lags[0].State == "waits for more of 0" && lags[0].Committed == -1 && lags[1].Committed == 7
	})
	put(t, l, slices.Concat(scoredLane(0, "end"), scoredLane(1, "end"))...)
	if err := ended(); err != nil || len(f.counters.States()) > 0 || gauge(t, reg, "waiting_lanes") != 0 {
		t.Errorf("in the end %q, error %v", f.counters.States(), err)
	}
	if lags, err := l.Lag(t.Context(), "trainer", schemas.Scored); err != nil || lags[0].State != "" || lags[1].State != "" {
		t.Errorf("in the end the lag is %+v, error %v", lags, err)
	}
}

// TestFollowEnds ends a follower whose lanes all fail, and not by damage: the process is to blame. It also ends one
// whose dead letters cannot be written.
func TestFollowEnds(t *testing.T) {
	b := startBroker(t, broker.Options{})
	for want, c := range map[string]func(f *followed) error{
		"something broke": func(*followed) error { return errors.New("something broke") },
		"setting a record aside: publisher is closed": func(f *followed) error { f.spec.Letters.abort(); return Poison(errors.New("foreign record")) },
	} {
		l := openLog(t, testConfig(b.Addr(), fmt.Sprint("ends", len(want)), 2))
		put(t, l, slices.Concat(scoredLane(0, "a"), scoredLane(1, "b"))...)
		var f *followed
		begun := make(chan struct{})
		f, ended := follow(t, l, func(string) error { <-begun; return c(f) })
		close(begun)
		if err := ended(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ended with %v, want %q", err, want)
		}
	}
}

// TestUnfollowedStopped asks for the place of a lane that was never parked.
func TestUnfollowedStopped(t *testing.T) {
	l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 12))
	l.Follow(FollowSpec{Name: "trainer", Topic: schemas.Scored}).note(t.Context(), schemas.Scored, 10, Position{Offset: 3, Seq: 4})
	for lane, want := range map[int]Position{1: {}, 10: {Offset: 3, Seq: 4}} {
		if at, _, err := l.Stopped(t.Context(), "trainer", schemas.Scored, lane); err != nil || at != want {
			t.Errorf("lane %d stopped at %+v (%v), want %+v", lane, at, err, want)
		}
	}
}

// TestTheLastProgressIsSaid ends a follower when the brokers have just come back. The connection on which it has
// committed is no more, and its last offsets arrive nevertheless.
func TestTheLastProgressIsSaid(t *testing.T) {
	dir := t.TempDir()
	b := must.Get(broker.Start(broker.Options{DataDir: dir}))(t)
	l := openLog(t, testConfig(b.Addr(), "", 2))
	f, ended := follow(t, l, func(string) error { return nil })
	put(t, l, append(scoredLane(0, "a"), scoredLane(1, "b")...)...)
	await(t, "both lanes are read", func() bool { return f.has(0, "a") && f.has(1, "b") })
	committed := func(offset int64) bool {
		lags := must.Get(l.Lag(t.Context(), "trainer", schemas.Scored))(t)
		return !slices.ContainsFunc(lags, func(lag kafka.LaneLag) bool { return lag.Committed != offset })
	}
	f.Reached(0, 1)
	f.Reached(1, 1)
	await(t, "the offsets are committed", func() bool { return committed(1) })

	must.Do(t, b.Close())
	startBroker(t, broker.Options{DataDir: dir, Addr: b.Addr()})
	put(t, l, numbered(schemas.Scored, 0, 1, "end"), numbered(schemas.Scored, 1, 1, "end"))
	f.Reached(0, 2)
	f.Reached(1, 2)
	must.Do(t, ended())
	if !committed(2) {
		t.Error("the last offsets were not committed")
	}
}
