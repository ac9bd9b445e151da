package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/content/hardcaption"
	"github.com/pairstream/pairstream/internal/log/feedback"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/stagetest"
	"github.com/pairstream/pairstream/schemas"
)

// sorter confirms all known positives of a batch of three, no edited text, and three of its candidates, of which some
// contradict. Nothing else is false, so its precision is the share of those that do not.
type sorter struct {
	half
	wrong int // of three
}

func (s sorter) Known(_ context.Context, b *schemas.Batch, _ discriminator.Input, _ discriminator.Questions, edits [][]int32) (discriminator.Known, error) {
	if len(edits) != 1 {
		return discriminator.Known{}, fmt.Errorf("%d edits, want that of the loader", len(edits))
	}
	yes := slices.Repeat([]float32{0.9}, len(b.Samples))
	no := slices.Repeat([]float32{0.1}, 30)
	return discriminator.Known{Pairs: len(yes), Positives: yes, Edited: no, Reworded: no, Others: no, Candidates: slices.Concat(yes, no), Contradicting: slices.Concat(yes[:s.wrong], no[:20])}, nil
}

// settingsOf are those of a guard without a threshold of its own. The tagger knows no noun.
func settingsOf(least float64, model string) guardSettings {
	return guardSettings{
		least: least, high: 0.8, seed: 7, model: model, people: nobody,
		tagger: func() (hardcaption.Tagger, error) { return noTags{}, nil }, words: func([]string) [][]int32 { return make([][]int32, 1) },
	}
}

// nobody has judged anything.
func nobody(context.Context, feedback.Place) (discriminator.People, error) {
	return discriminator.People{}, nil
}

type noTags struct{}

func (noTags) Tags(words []string) []string { return make([]string, len(words)) }

// guarded runs batches of three samples through a stage that goes on from a mark's state. It returns what the stage
// did, and how many batches it loaded images of.
func guarded(t *testing.T, core scorer, g guardSettings, state []byte, from, to int32) ([]stagetest.Event, int) {
	t.Helper()
	return guardedKeeping(t, core, g, keeping{}, state, from, to)
}

func guardedKeeping(t *testing.T, core scorer, g guardSettings, keep keeping, state []byte, from, to int32) ([]stagetest.Event, int) {
	t.Helper()
	loads := 0
	instruments, _ := stagetest.Instruments(t, Name)
	must.Do(t, keep.register(instruments))
	s := must.Get(newFactory(core, pictures{loads: &loads}, g, keep, gauges{}, instruments)(0, state))(t)
	var out stagetest.Output
	for n := from; n < to; n++ {
		b := batch(n, 2)
		b.Batches = 2000
		must.Do(t, s.Process(t.Context(), stagetest.Record(t, schemas.Batches, int64(n), b), &out))
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
	decides = (256+2)/3 - 1 // the batch of three that brings enough known positives
	latest  = (4096+2)/3 - 1
)

// Batches have no candidates until enough is measured, and none for ever where too much of what is confirmed may be
// wrong.
func TestGuardDecides(t *testing.T) {
	for name, c := range map[string]struct {
		least   float64
		wrong   int
		decides int
		off     bool
	}{
		"all are right":       {0.4, 0, decides, false},
		"a third is wrong":    {0.4, 1, decides, false},
		"all are wrong":       {0.4, 3, decides, true},
		"in doubt to the end": {0.68, 1, latest, true},
	} {
		t.Run(name, func(t *testing.T) {
			batches := int32(c.decides) + 3
			events, loads := guarded(t, sorter{wrong: c.wrong}, settingsOf(c.least, "m"), nil, 0, batches)
			for i, e := range events {
				b := scoredOf(t, e)
				open, decided := i < c.decides, i == c.decides
				if off := open || c.off; (b.M == 0) != off || len(b.I2T) != 6 == !off || len(b.ProbT2I) != len(b.I2T) {
					t.Fatalf("batch %d has %d candidates, with %d and %d probabilities; connections off: %t", i, b.M, len(b.I2T), len(b.ProbT2I), off)
				}
				if want := map[bool]float64{false: 0.8}[open || c.off]; b.High != want {
					t.Fatalf("batch %d says a threshold of %g, want %g", i, b.High, want)
				}
				if b.Check == nil {
					if !decided && !open && !c.off {
						continue // it was said before
					}
					t.Fatalf("batch %d says nothing of the measurement", i)
				}
				if n := int32(3 * (min(i, c.decides) + 1)); b.Check.Positives != n || b.Check.Open != open || b.Check.Least != c.least || b.Check.AUC < 0.9 {
					t.Fatalf("batch %d says %+v, want %d known positives, open: %t", i, *b.Check, n, open)
				}
				p := b.Check.Precision
				if p == nil || p.Above != 0.8 || p.Confirmed != 3.0/33 || (i == decides || decided) && math.Abs(p.Value-float64(3-c.wrong)/3) > 0.02 {
					t.Fatalf("batch %d estimates %+v", i, p)
				}
				if b.Check.Off() != (open || c.off) || !open && !c.off && !decided {
					t.Fatalf("batch %d says %+v", i, *b.Check)
				}
			}
			want := int(batches)
			if c.off {
				want = c.decides + 1
			}
			if loads != want {
				t.Errorf("images of %d batches were loaded, want %d", loads, want)
			}
		})
	}
}

const batches = decides + 3

// In a plan batches keep their candidates and probabilities, whatever the guard says. The threshold says that none is a
// connection while they are off.
func TestAPlanKeepsItsCandidates(t *testing.T) {
	for name, wrong := range map[string]int{"on": 0, "off": 3} {
		for _, keep := range []keeping{{}, {scores: 1000, bytes: 1 << 20, model: "m", level: 0.5}} {
			g := settingsOf(0.4, "m")
			g.keeps = true
			events, _ := guardedKeeping(t, sorter{wrong: wrong}, g, keep, nil, 0, decides+3)
			for i, e := range events {
				b := scoredOf(t, e)
				if len(b.I2T) != 6 || len(b.ProbI2T) != 6 || len(b.ProbT2I) != 6 {
					t.Fatalf("%s: batch %d has %d candidates and %d probabilities, want 6", name, i, len(b.I2T), len(b.ProbI2T))
				}
				if want := map[bool]float64{false: 0.8, true: 1}[i < decides || wrong > 0]; b.High != want {
					t.Fatalf("%s: batch %d says a threshold of %g, want %g", name, i, b.High, want)
				}
				must.Do(t, b.Validate())
			}
		}
	}
}

// A new owner that goes on from any mark writes the same records.
func TestGuardGoesOnFromEveryMark(t *testing.T) {
	for name, wrong := range map[string]int{"on": 0, "off": 3} {
		t.Run(name, func(t *testing.T) {
			g := settingsOf(0.4, "m")
			whole, _ := guarded(t, sorter{wrong: wrong}, g, nil, 0, batches)
			for _, at := range []int32{0, 1, decides - 1, decides, decides + 1} {
				rest, _ := guarded(t, sorter{wrong: wrong}, g, whole[at].Resume.State, at+1, batches)
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
	before := settingsOf(0.4, "m")
	events, _ := guarded(t, sorter{wrong: 3}, before, nil, 0, batches)
	state := events[len(events)-1].Resume.State
	higher, automatic := before, before
	higher.high = 0.85
	automatic.auto = true
	old := []byte(`{"model":"m","check":{"Positives":258,"AUC":0.75,"Least":0.4},"known":{}}`)
	for name, c := range map[string]struct {
		now   guardSettings
		state []byte
		known int32 // known positives; 0: there is no guard
	}{
		"same":                            {before, state, 258},
		"another Con-D":                   {settingsOf(0.4, "n"), state, 3},
		"another bound":                   {settingsOf(0.45, "m"), state, 3},
		"another threshold":               {higher, state, 3},
		"a threshold to choose":           {automatic, state, 3},
		"a verdict on the AUC of earlier": {before, old, 3},
		"none":                            {guardSettings{model: "m"}, state, 0},
	} {
		t.Run(name, func(t *testing.T) {
			events, _ := guarded(t, sorter{wrong: 3}, c.now, c.state, batches, batches+1)
			b := scoredOf(t, events[0])
			if c.known == 0 {
				if b.Check != nil || b.M == 0 || events[0].Resume.State != nil {
					t.Errorf("with %d candidates the batch says %+v", b.M, b.Check)
				}
				return
			}
			if b.Check == nil || b.Check.Positives != c.known || b.Check.Open != (c.known == 3) || b.M != 0 {
				t.Errorf("with %d candidates the batch says %+v, want %d known positives", b.M, b.Check, c.known)
			}
		})
	}
}

// The threshold stands in every batch with candidates. One to be chosen is the lowest that is good enough, from the
// verdict on and for every later owner; without a least precision it wants the default's.
func TestThresholdInRecords(t *testing.T) {
	fixed, chosen, free := settingsOf(0.4, "m"), settingsOf(0.4, "m"), settingsOf(0, "m")
	fixed.high = 0.7
	chosen.auto, free.auto = true, true
	none := settingsOf(0, "m")
	none.high = 0.7
	for name, c := range map[string]struct {
		settings guardSettings
		want     float64
		first    int // batch that has it
	}{"set": {fixed, 0.7, decides}, "set, without a guard": {none, 0.7, 0}, "chosen": {chosen, 0.5, decides}, "chosen without a bound": {free, 0.5, decides}} {
		events, _ := guarded(t, sorter{}, c.settings, nil, 0, batches)
		for i, e := range events {
			want := c.want
			if i < c.first {
				want = 0
			}
			if b := scoredOf(t, e); b.High != want {
				t.Fatalf("%s: batch %d says %g, want %g", name, i, b.High, want)
			}
		}
		rest, _ := guarded(t, sorter{}, c.settings, events[decides].Resume.State, decides+1, batches)
		if got := scoredOf(t, rest[0]).High; got != c.want {
			t.Errorf("%s: the next owner says %g, want %g", name, got, c.want)
		}
	}
}

// A seal keeps the state, and batches that nobody grouped for Con-D are no part of the measurement.
func TestGuardPassesOtherRecords(t *testing.T) {
	loads := 0
	instruments, _ := stagetest.Instruments(t, Name)
	s := must.Get(newFactory(sorter{}, pictures{loads: &loads}, settingsOf(0.4, "m"), keeping{}, gauges{}, instruments)(0, nil))(t)
	var out stagetest.Output
	for i, rec := range []schemas.Record{batch(0, 2), &schemas.Seal{}, batch(1, 0)} {
		must.Do(t, s.Process(t.Context(), stagetest.Record(t, schemas.Batches, int64(i), rec), &out))
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
	s, err := newFactory(half{}, pictures{}, settingsOf(0.4, "m"), keeping{}, gauges{}, instruments)(3, []byte("new"))
	if err == nil || !strings.Contains(err.Error(), `lane 3: reading the state "new"`) {
		t.Errorf("stage %v, error %v", s, err)
	}
}

func TestSettingsOfTheGuard(t *testing.T) {
	for _, c := range []struct{ least, high, problem string }{
		{"-0.01", "0.8", "COND_MIN_PRECISION is -0.01, want at least 0"},
		{"0", "0.8", ""},
		{"0.99", "0.8", ""},
		{"1", "0.8", "COND_MIN_PRECISION is 1, want"},
		{"NaN", "0.8", "COND_MIN_PRECISION is NaN, want"},
		{"auto:0.4", "0.8", ""},
		{"auto:0", "0.8", ""},
		{"auto:1", "0.8", "COND_MIN_PRECISION is auto:1, want"},
		{"auto", "0.8", `COND_MIN_PRECISION="auto": want a number, or auto:NUMBER`},
		{"auto:", "0.8", `COND_MIN_PRECISION="auto:": want a number`},
		{"0.4", "0.93", ""},
		{"0.4", "1.1", "ECM_HIGH is 1.1"},
	} {
		s, err := config.Parse[Settings](map[string]string{
			"COND_CHECKPOINT": "x", "BUCKET_ROOTS": "file:///data", "COND_MIN_PRECISION": c.least, "ECM_HIGH": c.high,
		})
		if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("COND_MIN_PRECISION=%s ECM_HIGH=%s: %v, want %q", c.least, c.high, err, c.problem)
		}
		if err == nil && s.MinPrecision.String() != c.least {
			t.Errorf("COND_MIN_PRECISION=%s says %s", c.least, s.MinPrecision)
		}
	}
}

// pairstream status reads the check from the state of a mark, by its key.
func TestMarksSayTheCheck(t *testing.T) {
	events, _ := guarded(t, sorter{}, settingsOf(0.4, "m"), nil, 0, 3)
	var state struct {
		Check *schemas.Check `json:"check"`
	}
	if err := json.Unmarshal(events[2].Resume.State, &state); err != nil || state.Check == nil || state.Check.Positives != 9 || !state.Check.Open {
		t.Errorf("a mark says %+v, %v", state.Check, err)
	}
}
