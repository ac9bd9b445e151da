package service

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/internal/testing/stagetest"
	"github.com/pairstream/pairstream/schemas"
)

// sorter gives known positives 1/2, a share of the mismatches less, and the others more. So its AUC is the share.
type sorter struct {
	half
	below int // of four
}

func (s sorter) Known(_ context.Context, b *schemas.Batch, _ discriminator.Input, _ *rand.Rand) (discriminator.Known, error) {
	var k discriminator.Known
	for range b.Samples {
		k.Positives = append(k.Positives, 0.5)
		for i := range 4 {
			p := float32(0.75)
			if i < s.below {
				p = 0.25
			}
			k.Mismatches = append(k.Mismatches, p)
		}
	}
	return k, nil
}

// guarded runs batches of three samples through a stage that goes on from a mark's state. It returns what the stage did, and
// how many batches it loaded images of.
func guarded(t *testing.T, core scorer, g guardSettings, state []byte, from, to int32) ([]stagetest.Event, int) {
	t.Helper()
	loads := 0
	instruments, _ := stagetest.Instruments(t, Name)
	s, err := newFactory(core, pictures{loads: &loads}, g, keeping{}, instruments)(0, state)
	if err != nil {
		t.Fatal(err)
	}
	var out stagetest.Output
	for n := from; n < to; n++ {
		b := batch(n, 2)
		b.Batches = 1000
		if err := s.Process(t.Context(), stagetest.Record(t, schemas.Batches, int64(n), b), &out); err != nil {
			t.Fatal(err)
		}
	}
	return out.Events, loads
}

func scoredOf(t *testing.T, e stagetest.Event) *schemas.ScoredBatch {
	t.Helper()
	b, ok := e.Record.(*schemas.ScoredBatch)
	if !ok {
		t.Fatalf("the stage wrote a %T", e.Record)
	}
	return b
}

const (
	decides = (enough+2)/3 - 1 // the batch of three that brings enough known positives
	batches = decides + 3
)

// Batches have no candidates until enough is measured, and none for ever where Con-D is no better than the bound.
func TestGuardDecides(t *testing.T) {
	for name, c := range map[string]struct {
		least float64
		below int
		off   bool
	}{
		"better":         {0.55, 3, false},
		"on the bound":   {0.75, 3, true},
		"a coin":         {0.55, 2, true},
		"worse than one": {0.55, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			events, loads := guarded(t, sorter{below: c.below}, guardSettings{least: c.least, model: "m"}, nil, 0, batches)
			for i, e := range events {
				b := scoredOf(t, e)
				open, decided := i < decides, i == decides
				if off := open || c.off; (b.M == 0) != off || len(b.I2T) != 6 == !off || len(b.ProbT2I) != len(b.I2T) {
					t.Fatalf("batch %d has %d candidates, with %d and %d probabilities; connections off: %t", i, b.M, len(b.I2T), len(b.ProbT2I), off)
				}
				if b.Check == nil {
					if !decided && !open && !c.off {
						continue // it was said before
					}
					t.Fatalf("batch %d says nothing of the measurement", i)
				}
				want := schemas.Check{Positives: int32(3 * (min(i, decides) + 1)), AUC: float64(c.below) / 4, Least: c.least, Open: open}
				if *b.Check != want || b.Check.Off() != (open || c.off) || !open && !c.off && !decided {
					t.Fatalf("batch %d says %+v, want %+v", i, *b.Check, want)
				}
			}
			want := batches
			if c.off {
				want = decides + 1
			}
			if loads != want {
				t.Errorf("images of %d batches were loaded, want %d", loads, want)
			}
		})
	}
}

// A new owner that goes on from any mark writes the same records.
func TestGuardGoesOnFromEveryMark(t *testing.T) {
	for name, below := range map[string]int{"on": 3, "off": 2} {
		t.Run(name, func(t *testing.T) {
			g := guardSettings{least: 0.55, seed: 7, model: "m"}
			whole, _ := guarded(t, sorter{below: below}, g, nil, 0, batches)
			for _, at := range []int32{0, 1, decides - 1, decides, decides + 1} {
				rest, _ := guarded(t, sorter{below: below}, g, whole[at].Resume.State, at+1, batches)
				for i, e := range rest {
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

func TestGuardMeasuresAnew(t *testing.T) {
	before := guardSettings{least: 0.55, model: "m"}
	events, _ := guarded(t, sorter{below: 2}, before, nil, 0, batches)
	state := events[len(events)-1].Resume.State
	for name, c := range map[string]struct {
		now   guardSettings
		check *schemas.Check
	}{
		"same":          {before, scoredOf(t, events[len(events)-1]).Check},
		"another Con-D": {guardSettings{least: 0.55, model: "n"}, &schemas.Check{Positives: 3, AUC: 0.5, Least: 0.55, Open: true}},
		"another bound": {guardSettings{least: 0.45, model: "m"}, &schemas.Check{Positives: 3, AUC: 0.5, Least: 0.45, Open: true}},
		"none":          {guardSettings{model: "m"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			events, _ := guarded(t, sorter{below: 2}, c.now, state, batches, batches+1)
			b := scoredOf(t, events[0])
			if c.check == nil && (b.Check != nil || b.M == 0 || events[0].Resume.State != nil) || c.check != nil && (b.Check == nil || *b.Check != *c.check) {
				t.Errorf("with %d candidates the batch says %+v, want %+v", b.M, b.Check, c.check)
			}
		})
	}
}

// A seal keeps the state, and batches that nobody grouped for Con-D are no part of the measurement.
func TestGuardPassesOtherRecords(t *testing.T) {
	loads := 0
	instruments, _ := stagetest.Instruments(t, Name)
	s, err := newFactory(sorter{below: 3}, pictures{loads: &loads}, guardSettings{least: 0.55, model: "m"}, keeping{}, instruments)(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out stagetest.Output
	for i, rec := range []schemas.Record{batch(0, 2), &schemas.Seal{}, batch(1, 0)} {
		if err := s.Process(t.Context(), stagetest.Record(t, schemas.Batches, int64(i), rec), &out); err != nil {
			t.Fatal(err)
		}
	}
	first := out.Events[0].Resume.State
	if len(first) == 0 || slices.ContainsFunc(out.Events, func(e stagetest.Event) bool { return !bytes.Equal(e.Resume.State, first) }) {
		t.Errorf("the marks differ: %+v", out.Events)
	}
	if b := scoredOf(t, out.Events[2]); b.Check != nil || loads != 1 {
		t.Errorf("a batch without candidates says %+v, and images of %d batches were loaded", b.Check, loads)
	}
}

func TestGuardRefusesAStrangeState(t *testing.T) {
	instruments, _ := stagetest.Instruments(t, Name)
	var s stream.Stage
	s, err := newFactory(half{}, pictures{}, guardSettings{least: 0.55}, keeping{}, instruments)(3, []byte("new"))
	if err == nil || !strings.Contains(err.Error(), `lane 3: reading the state "new"`) {
		t.Errorf("stage %v, error %v", s, err)
	}
}

func TestSettingsOfTheGuard(t *testing.T) {
	for _, c := range []struct {
		least float64
		ok    bool
	}{{-0.01, false}, {0, true}, {0.55, true}, {0.99, true}, {1, false}} {
		err := Settings{Checkpoint: "x", Part: 1, Images: augmented, Keep: 2, MinAUC: c.least}.Validate()
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "COND_MIN_AUC") {
			t.Errorf("COND_MIN_AUC=%g: %v", c.least, err)
		}
	}
}
