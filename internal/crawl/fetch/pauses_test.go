package fetch

import (
	"testing"
	"time"
)

// refuse ends tasks whose answers ask for a pause.
func (s *stage) refuse(tasks []*task, wait time.Duration) (pause time.Duration, givenUp int) {
	for _, k := range tasks {
		k.wait = wait
	}
	return s.endAll(tasks, 0, busy)
}

// TestAHostThatAsksForAPauseHasIt: nothing of the host goes for as long as one of its answers asks, and then one
// request. What was asked of it before, and comes back, ends no pause.
func TestAHostThatAsksForAPauseHasIt(t *testing.T) {
	s := newStage(t, usual)
	s.known("a", "b")
	s.rows("a", 20)
	started, _ := s.start()
	if pause, givenUp := s.refuse(started[:1], 20*time.Second); pause != 20*time.Second || givenUp != 0 {
		t.Errorf("a pause of %v, %d rows are given up", pause, givenUp)
	}
	s.refuse(started[1:2], 2*time.Second)
	s.endAll(started[2:], 0, gaveImage)
	s.rows("b", 1)
	more, _ := s.start()
	s.now = s.now.Add(20*time.Second - 1)
	if early, _ := s.start(); len(more) != 1 || more[0].at.Host != "b" || len(early) != 0 {
		t.Errorf("%v and %v start, want b, and nothing within the pause", names(more), names(early))
	}
	s.now = s.now.Add(1)
	more, _ = s.start()
	if len(more) != 4 {
		t.Errorf("%d rows start behind the pause, want 4: the host has answered since", len(more))
	}
	s.refuse(more, time.Second)
	s.now = s.now.Add(time.Second)
	if more, _ = s.start(); len(more) != 1 {
		t.Errorf("%d rows start behind a pause, want one", len(more))
	}
	s.endAll(more, 0, gaveImage)
	s.now = s.now.Add(time.Second)
	if more, _ = s.start(); len(more) != 4 {
		t.Errorf("%d rows start when it has answered, want 4", len(more))
	}
}

// TestAHostThatAsksForTooMuchIsSetAside: one long pause, or many that no image follows, cost the rows that wait.
func TestAHostThatAsksForTooMuchIsSetAside(t *testing.T) {
	for _, ask := range []time.Duration{maxWait, maxWait + 1, 1000 * time.Hour} {
		s := newStage(t, usual)
		s.known("a")
		s.rows("a", 50)
		pauses := 0
		for range 1000 {
			started, again := s.start()
			if len(started) == 0 {
				s.now = s.now.Add(again)
				continue
			}
			pause, givenUp := s.refuse(started, ask)
			if pauses++; givenUp > 0 {
				if s.rows("a", 1) || pause > s.timeout*maxPause {
					t.Errorf("%v: a row is taken, or the host is set aside for %v", ask, pause)
				}
				break
			}
		}
		want := 1
		if ask == maxWait {
			want = int(maxPatience/maxWait) + 1
		}
		if pauses != want {
			t.Errorf("%v: set aside at pause %d, want %d", ask, pauses, want)
		}
	}
}

// TestImagesEarnPatience: a host that asks for a second now and then, and gives images, may go on with that.
func TestImagesEarnPatience(t *testing.T) {
	s := newStage(t, usual)
	s.known("a")
	for range 2 * int(maxPatience/time.Second) {
		s.rows("a", 2)
		started, _ := s.start()
		if _, givenUp := s.refuse(started[:1], time.Second); givenUp > 0 {
			t.Fatal("it was set aside")
		}
		s.endAll(started[1:], 0, gaveImage)
		s.now = s.now.Add(time.Second)
	}
}
