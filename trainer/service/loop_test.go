package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// notes is an output that records the calls to it.
type notes struct {
	mu     sync.Mutex
	calls  []string
	values map[string]float64 // of the last progress record
}

func (n *notes) add(call string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, call)
}

func (n *notes) PublishSeq(_ context.Context, topic schemas.Topic, lane int, seq int64, _ stream.Mark, _ schemas.Record) error {
	n.add(fmt.Sprintf("%s %d of lane %d", topic, seq, lane))
	return nil
}

func (n *notes) Publish(_ context.Context, topic schemas.Topic, _ int, rec schemas.Record) error {
	progress := rec.(*schemas.Progress)
	n.add(fmt.Sprintf("%s %s", topic, progress.Kind))
	n.values = progress.Values
	return nil
}

func (n *notes) DeadLetter(_ context.Context, stage string, rec stream.Record, reason string) error {
	n.add(fmt.Sprintf("dead letter of %s: %s: %s", stage, rec.Value, reason))
	return nil
}

func (n *notes) Flush(ctx context.Context) error {
	n.add("flush")
	return ctx.Err()
}

// scripted is a core whose steps are set aside as a script says.
type scripted struct {
	setAside func(step int64) string
	losses   []float64        // of batch after batch; empty: 0
	writing  func(step int64) // called before a checkpoint is on the disk; may be nil
	open     bool             // steps go on with the next batch
	of       int64            // batches of a step; 0: one
	saved    json.RawMessage
	steps    int64
	notes    *notes
}

func (s *scripted) Step(_ context.Context, b *schemas.ScoredBatch, _ trainer.Input) (*trainer.Result, error) {
	r := &trainer.Result{Step: s.steps / max(1, s.of), Updated: !s.open && (s.of == 0 || (s.steps+1)%s.of == 0), SetAside: s.setAside(s.steps), Features: schemas.FeatureBlock{Group: b.Group}}
	if len(s.losses) > 0 {
		r.Losses.Total, r.Losses.ITM = s.losses[s.steps], 2*s.losses[s.steps]
		r.Counts.Candidates, r.Counts.Confirmed = 10, 1
	}
	s.steps++
	return r, nil
}

func (s *scripted) Encode(context.Context, *schemas.ScoredBatch, trainer.Input) (*schemas.FeatureBlock, error) {
	return nil, errCrash
}

func (s *scripted) Prepare(_ context.Context, b *schemas.ScoredBatch, _ trainer.Input) (*schemas.FeatureBlock, error) {
	return &schemas.FeatureBlock{Group: b.Group}, nil
}

func (s *scripted) Finish(context.Context) (bool, error) { return false, nil }

func (s *scripted) Steps() int64 { return s.steps }

func (s *scripted) Snapshot(context.Context) (snapshot, error) {
	return &scriptedSnapshot{s, s.steps}, nil
}

type scriptedSnapshot struct {
	*scripted
	steps int64
}

func (s *scriptedSnapshot) Steps() int64 { return s.steps }

func (s *scriptedSnapshot) SaveWeights(func(string) string) (string, error) { return "", errCrash }

func (s *scriptedSnapshot) Save(_ string, positions json.RawMessage, _ int64) (string, error) {
	if s.writing != nil {
		s.writing(s.steps)
	}
	s.saved = positions
	s.notes.add(fmt.Sprint("save ", s.steps))
	return "path", nil
}

// testLoop returns a loop, its recorded calls, and a function for the number of batches that its metrics count as set
// aside.
func testLoop(t *testing.T, inOrder bool, setAside func(step int64) string) (*loop, *notes, func() float64) {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	rt := service.NewRuntime(logger)
	instruments := must.Get(rt.NewInstruments(Name, nil))(t)
	m := must.Get(newMetrics(instruments))(t)
	n := new(notes)
	l := &loop{
		core: &scripted{setAside: setAside, notes: n}, publisher: n, logger: logger, inOrder: inOrder, metrics: m,
		published: map[int]int64{0: -1, 1: -1}, observe: func(Step) {},
	}
	l.saving.beside(nil)
	return l, n, func() float64 { return counterOf(t, rt, "pairstream_trainer_batches_set_aside_total") }
}

func counterOf(t *testing.T, rt service.Runtime, name string) float64 {
	t.Helper()
	families := must.Get(rt.Registry.Gather())(t)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func testWork(lane int, seq int64) work {
	return work{lane: lane, seq: seq, batch: testBatch(lane, int(seq)), rec: stream.Record{Value: fmt.Append(nil, "record ", seq)}}
}

func never(int64) string { return "" }

// In the order of arrival a block is sent when the one before is acknowledged, whatever its lane. With rotation nobody
// waits.
func TestArrivalSendsBlockByBlock(t *testing.T) {
	for inOrder, want := range map[bool][]string{
		true:  {"flush", "features 0 of lane 0", "flush", "features 0 of lane 1", "flush", "features 1 of lane 0"},
		false: {"features 0 of lane 0", "features 0 of lane 1", "features 1 of lane 0"},
	} {
		l, n, _ := testLoop(t, inOrder, never)
		for _, w := range []work{testWork(0, 0), testWork(1, 0), testWork(0, 1)} {
			must.Do(t, l.step(t.Context(), w))
		}
		got := slices.DeleteFunc(n.calls, func(c string) bool { return strings.HasPrefix(c, "progress") })
		if !slices.Equal(got, want) {
			t.Errorf("in order %t: %q, want %q", inOrder, got, want)
		}
	}
}

// A progress record has the mean losses of its step's batches, and the sums of their candidates. A batch that was set
// aside taught nothing, and has no part in the mean.
func TestProgressIsThatOfTheWholeStep(t *testing.T) {
	l, n, _ := testLoop(t, false, func(step int64) string {
		if step == 2 {
			return "loss is not a finite number"
		}
		return ""
	})
	core := l.core.(*scripted)
	core.of, core.losses = 4, []float64{1, 2, 0, 6}
	for seq := range int64(4) {
		must.Do(t, l.step(t.Context(), testWork(0, seq)))
	}
	core.losses = append(core.losses, 4, 4, 4, 8)
	want := map[string]float64{"loss": 3, "loss_itm": 6, "candidates": 40, "connections": 4}
	for name, value := range want {
		if n.values[name] != value {
			t.Errorf("%s is %v, want %v", name, n.values[name], value)
		}
	}
	for seq := range int64(4) {
		must.Do(t, l.step(t.Context(), testWork(0, 4+seq)))
	}
	if losses, counts := l.whole.Take(); losses != (trainer.Losses{}) || counts != (trainer.Counts{}) {
		t.Errorf("a step that has ended leaves %v and %v to the next one", losses, counts)
	}
}

// A checkpoint is written when all blocks up to it are acknowledged.
func TestCheckpointsWaitForTheirBlocks(t *testing.T) {
	l, n, _ := testLoop(t, false, never)
	l.every = 2
	for seq := range int64(2) {
		must.Do(t, l.step(t.Context(), testWork(0, seq)))
	}
	want := []string{"features 0 of lane 0", "progress step", "features 1 of lane 0", "flush", "save 2", "progress checkpoint"}
	if !slices.Equal(n.calls, want) {
		t.Errorf("%q, want %q", n.calls, want)
	}
}

// A step that is made is told of, whatever ends the training meanwhile: nobody makes it again. What else is due behind
// it is done by the run that goes on, once.
func TestAMadeStepIsToldOf(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, n, _ := testLoop(t, true, func(int64) string {
		cancel()
		return ""
	})
	l.every = 1
	if err := l.step(ctx, testWork(0, 0)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	want := []string{"flush", "features 0 of lane 0", "progress step"}
	if !slices.Equal(n.calls[:min(len(n.calls), len(want))], want) || slices.Contains(n.calls, "save 1") {
		t.Errorf("%q, want %q first and no checkpoint", n.calls, want)
	}
	n.calls = nil
	for range 2 {
		must.Do(t, l.behindStep(t.Context()))
	}
	if want := []string{"flush", "save 1", "progress checkpoint"}; !slices.Equal(n.calls, want) {
		t.Errorf("%q, want %q", n.calls, want)
	}
}

// A checkpoint has no weights of an open step, so it says that the step's batches come again.
func TestCheckpointsLieBetweenSteps(t *testing.T) {
	l, _, _ := testLoop(t, false, never)
	core := l.core.(*scripted)
	for seq, open := range []bool{false, true, true} {
		w := testWork(0, int64(seq))
		w.after = positions{Decay: int64(seq) + 1}
		core.open = open
		must.Do(t, l.step(t.Context(), w))
	}
	must.Do(t, l.checkpoint(t.Context()))
	var at positions
	if err := json.Unmarshal(core.saved, &at); err != nil || at.Decay != 1 {
		t.Errorf("the checkpoint goes on behind batch %d, %v, want that of the last complete step, 1", at.Decay, err)
	}
}

// A batch that is set aside becomes a dead letter and a block, once; training goes on.
func TestABatchIsSetAside(t *testing.T) {
	l, n, counted := testLoop(t, false, func(step int64) string {
		if step == 1 || step == 2 {
			return "no number"
		}
		return ""
	})
	l.published[1] = 0 // the block is in the log: the step is made again
	for _, w := range []work{testWork(0, 0), testWork(0, 1), testWork(1, 0), testWork(0, 2)} {
		must.Do(t, l.step(t.Context(), w))
	}
	want := []string{
		"features 0 of lane 0", "progress step", "dead letter of trainer: record 1: no number", "features 1 of lane 0", "features 2 of lane 0",
	}
	if !slices.Equal(n.calls, want) {
		t.Errorf("%q, want %q", n.calls, want)
	}
	if got := counted(); got != 2 {
		t.Errorf("%g batches counted, want 2", got)
	}
	if l.inARow != 0 {
		t.Errorf("%d in a row after a batch that trained", l.inARow)
	}
}

// A row of batches without a finite loss means that the weights are broken.
func TestBrokenWeightsEndTheTrainer(t *testing.T) {
	l, _, _ := testLoop(t, false, func(int64) string { return "no number" })
	for seq := range int64(mostInARow) {
		if err := l.step(t.Context(), testWork(0, seq)); err != nil {
			t.Fatalf("batch %d: %v", seq, err)
		}
	}
	if err := l.step(t.Context(), testWork(0, mostInARow)); err == nil || !strings.Contains(err.Error(), "11 batches in a row") {
		t.Errorf("%v", err)
	}
}
