package service

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/stagetest"
	"github.com/pairstream/pairstream/schemas"
)

// learner is a sorter whose bound learns a match from every batch, and rules a candidate out from the third match on.
type learner struct {
	sorter
	t *testing.T
}

func (l learner) Score(ctx context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error) {
	scored, err := l.sorter.Score(ctx, b, in)
	if err != nil || b.M == 0 {
		return scored, err
	}
	if in.Kept == nil || in.Bound == nil {
		l.t.Errorf("batch %d is scored with %v and %v", b.Sequence, in.Kept, in.Bound)
		return scored, nil
	}
	if in.Bound.Matches >= 3 {
		scored.ProbI2T[0], scored.RuledOut = 0, 1
	}
	in.Bound.Matches++
	return scored, nil
}

func (l learner) Known(ctx context.Context, b *schemas.Batch, in discriminator.Input, q discriminator.Questions, edits [][]int32) (discriminator.Known, error) {
	if in.Kept == nil || in.Held == nil {
		l.t.Errorf("batch %d is measured with %v and %v", b.Sequence, in.Kept, in.Held)
	}
	return l.sorter.Known(ctx, b, in, q, edits)
}

func plainly(t *testing.T, g guardSettings, keep keeping, wrong int, state []byte, from, to int32) []stagetest.Event {
	t.Helper()
	loads := 0
	instruments, _ := stagetest.Instruments(t, Name)
	keep.scores, keep.bytes = 100, 1<<20
	must.Do(t, keep.register(instruments))
	s := must.Get(newFactory(learner{sorter{wrong: wrong}, t}, pictures{loads: &loads}, g, keep, gauges{}, instruments)(0, state))(t)
	var out stagetest.Output
	for n := from; n < to; n++ {
		b := batch(n, 2)
		b.Batches = 1000
		must.Do(t, s.Process(t.Context(), stagetest.Record(t, schemas.Batches, int64(n), b), &out))
	}
	return out.Events
}

// The bound learns while the guard measures, once a batch. A new owner that goes on from any mark writes the same
// records and marks, whether connections are on or off.
func TestBoundAndGuardGoOnFromEveryMark(t *testing.T) {
	for name, wrong := range map[string]int{"on": 0, "off": 3} {
		t.Run(name, func(t *testing.T) {
			g, keep := settingsOf(0.4, "m"), keeping{model: "m", level: 0.5}
			g.high = 0.7
			whole := plainly(t, g, keep, wrong, nil, 0, batches)
			for i, e := range whole {
				b := scoredOf(t, e)
				m, err := readMark(e.Resume.State)
				if err != nil || m.Bound == nil || m.Bound.Matches != min(i, lastAsked(wrong))+1 {
					t.Fatalf("behind batch %d the mark says %+v (%v)", i, m.Bound, err)
				}
				on := wrong == 0 && i >= decides
				if (b.M > 0) != on || (b.RuledOut == 1) != on || (b.High == 0.7) != on || b.Check == nil && (!on || i == decides) {
					t.Fatalf("batch %d has %d candidates, %d ruled out, threshold %v, %+v", i, b.M, b.RuledOut, b.High, b.Check)
				}
			}
			for _, at := range []int32{0, 1, 2, 3, decides - 1, decides, decides + 1} {
				for i, e := range plainly(t, g, keep, wrong, whole[at].Resume.State, at+1, batches) {
					want := whole[int(at)+1+i]
					a, err := schemas.Marshal(e.Record)
					b, err2 := schemas.Marshal(want.Record)
					if err != nil || err2 != nil || !bytes.Equal(a, b) || !bytes.Equal(e.Resume.State, want.Resume.State) {
						t.Fatalf("an owner from batch %d on writes batch %d otherwise (%v, %v)", at+1, int(at)+1+i, err, err2)
					}
				}
			}
		})
	}
}

// lastAsked is the last batch whose candidates Con-D is asked about.
func lastAsked(wrong int) int {
	if wrong > 0 {
		return decides
	}
	return batches
}

// Marks of augmented images and of earlier discriminators are the guard's. Another Con-D and another level learn anew.
func TestBoundLearnsAnew(t *testing.T) {
	g, keep := settingsOf(0.4, "m"), keeping{model: "m", level: 0.5}
	events := plainly(t, g, keep, 0, nil, 0, 5)
	state := events[4].Resume.State
	measured, _ := guarded(t, sorter{}, g, nil, 0, 5)
	for name, c := range map[string]struct {
		keep    keeping
		state   []byte
		matches int
	}{
		"same":                   {keep, state, 6},
		"another Con-D":          {keeping{model: "n", level: 0.5}, state, 1},
		"another level":          {keeping{model: "m", level: 0.4}, state, 1},
		"a mark of the guard":    {keep, measured[4].Resume.State, 1},
		"the beginning":          {keep, nil, 1},
		"a mark without a guard": {keep, []byte(`{"bound":{"model":"m","level":0.5,"matches":8,"least":0.5}}`), 9},
	} {
		e := plainly(t, g, c.keep, 0, c.state, 5, 6)[0]
		m, err := readMark(e.Resume.State)
		if err != nil || m.Bound.Matches != c.matches || m.Bound.Model != c.keep.model || m.Bound.Level != c.keep.level {
			t.Errorf("%s: %+v (%v), want %d matches", name, m.Bound, err, c.matches)
		}
		known := int32(18)
		if c.state == nil || name == "a mark without a guard" {
			known = 3
		}
		if got := scoredOf(t, e).Check; got == nil || got.Positives != known {
			t.Errorf("%s: the guard says %+v, want %d known positives", name, got, known)
		}
	}
}

// The level is the lowest probability at which the trainer may take a candidate for more than a negative.
func TestLevelOfTheBound(t *testing.T) {
	for _, c := range []struct {
		chooses         bool
		low, high, want float64
	}{
		{false, 0.5, 0.8, 0.5},
		{false, 0.3, 0.8, 0.3},
		{false, 0.5, 0.4, 0.4},
		{true, 0.6, 0.8, 0.5},
		{true, 0.4, 0.8, 0.4},
	} {
		if got := (Settings{MinPrecision: Precision{Chooses: c.chooses}, Low: c.low, High: c.high}).level(); got != c.want {
			t.Errorf("%s: level %v, want %v", fmt.Sprint(c), got, c.want)
		}
	}
	s := Settings{Checkpoint: "x", Part: 1, Images: plain, Keep: 2, KeepBytes: 1 << 20, High: 0.8, Low: -0.1}
	if err := s.Validate(); err == nil || err.Error() != "ECM_LOW is -0.1, want 0..1" {
		t.Errorf("a level below 0: %v", err)
	}
}
