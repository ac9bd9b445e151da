package grouper

import (
	"context"
	"fmt"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// lose drives a lane whose trainer leaves out the features of some batches, and gives up what a lane then waits for. It
// returns the batches, and how often it had to give something up.
func lose(t *testing.T, lane *Lane, l *log, lost func(*schemas.Batch) bool) (out []*schemas.Batch, waits int) {
	t.Helper()
	emit := func(r schemas.Record) error {
		if b, ok := r.(*schemas.Batch); ok {
			out = append(out, b)
			if !lost(b) {
				l.add(schemas.Features, train(b))
			}
		}
		return nil
	}
	var given []Due
	for {
		topic := lane.Needs()
		if l.next[topic] < len(l.records[topic]) {
			l.next[topic]++
			must.Do(t, lane.Add(context.Background(), l.input(topic, l.next[topic]-1), emit))
			continue
		}
		due, waiting := lane.Awaits()
		if !waiting {
			return out, waits
		}
		// Begin again from the start of the log, as a lane that was taken up again does. The trainer has answered.
		if waits, given = waits+1, append(given, due); waits > 20 {
			t.Fatalf("the lane waits for %s although it was told that nobody makes them", due)
		}
		lane = newTestLane(t, lane.options)
		lane.GiveUp(given...)
		l.next, l.records[schemas.Features], out = map[schemas.Topic]int{}, nil, nil
	}
}

// TestFeaturesThatNobodyMakes loses features wherever an operator may have skipped a batch. Every epoch of every group
// is made all the same, and each holds every pair once.
func TestFeaturesThatNobodyMakes(t *testing.T) {
	for name, lost := range map[string]func(b *schemas.Batch) bool{
		"none":                       func(*schemas.Batch) bool { return false },
		"the first of an epoch":      func(b *schemas.Batch) bool { return b.Epoch == 0 && b.Sequence == 0 },
		"one amid an epoch":          func(b *schemas.Batch) bool { return b.Epoch == 1 && b.Sequence == 2 },
		"the last of an epoch":       func(b *schemas.Batch) bool { return b.Epoch == 0 && b.Sequence == b.Batches-1 },
		"a whole epoch":              func(b *schemas.Batch) bool { return b.Epoch == 0 && b.Group.Seq == 0 },
		"the end of the first group": func(b *schemas.Batch) bool { return b.Group.Seq == 0 && b.Sequence >= b.Batches-2 },
		"all":                        func(*schemas.Batch) bool { return true },
	} {
		for _, order := range []EpochOrder{OrderGroup, OrderLane} {
			t.Run(fmt.Sprint(name, ", order ", order), func(t *testing.T) {
				o := testOptions(StrategyGRIT)
				o.Epochs, o.CurriculumEpochs, o.EpochOrder, o.EpochGroups = 3, 10, order, 2
				l := newLog()
				l.addGroup(0, 30, 2)
				l.addGroup(1, 20, 1)
				out, waits := lose(t, newTestLane(t, o), l, lost)
				seen := map[string]int{}
				for _, b := range out {
					for _, s := range b.Samples {
						seen[fmt.Sprint(b.Group, b.Epoch, s.Position)]++
					}
				}
				for key, n := range seen {
					if n != 1 {
						t.Errorf("pair %s is there %d times", key, n)
					}
				}
				if len(seen) != 3*(30+20) {
					t.Errorf("%d pairs in all epochs, want %d", len(seen), 3*(30+20))
				}
				if name == "none" && waits != 0 {
					t.Errorf("%d waits though nothing is lost", waits)
				}
			})
		}
	}
}
