package experiments

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func newJob(t *testing.T, seed uint64) Job {
	t.Helper()
	before := torch.Live()
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Device: "cpu", Threads: 1, Deterministic: true}))(t)
	j := Job{Worker: w, Dir: t.TempDir(), Seed: seed, Shelf: &Shelf{Dir: t.TempDir()}, Log: func(string) {}, Sizes: Sizes{
		Scenes: 78, HeldOut: 30, FirstSteps: 3, CondSteps: 3, FirstBatch: 12, Batch: 8, Space: 3, Epochs: 2,
	}}
	t.Cleanup(func() {
		w.Close()
		if n := torch.Live() - before; n != 0 {
			t.Errorf("%d tensors were not given back", n)
		}
		if left, err := os.ReadDir(j.Dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return j
}

func newSetup(t *testing.T, seed uint64) *setup {
	t.Helper()
	s := must.Get(newJob(t, seed).setup(context.Background(), scenes.Kinds{Shapes: 2, Colours: 2, Objects: 2, Large: true, Plain: true}))(t)
	t.Cleanup(func() { must.Check(t, s.close()) })
	return s
}

// runVerdicts trains a small Con-D and lets it judge.
func runVerdicts(t *testing.T, seed uint64) (*Connections, error) {
	t.Helper()
	s := newSetup(t, seed)
	cond := filepath.Join(s.dir, "con-d.safetensors")
	if err := s.first(t.Context(), s.sizes.CondSteps, condCandidates, cond); err != nil {
		return nil, err
	}
	return s.verdicts(t.Context(), cond)
}

// Small models learn nothing, but go through everything.
func TestConnectionsCountEveryCandidate(t *testing.T) {
	c := must.Get(runVerdicts(t, 1))(t)
	// Eight candidates of every pair and direction count, of all scenes except those held out.
	if c.Candidates != 48*2*8 || c.True == 0 || c.True == c.Candidates {
		t.Errorf("%d candidates, %d of them true", c.Candidates, c.True)
	}
	for i, v := range c.Above {
		if v.True > v.Confirmed || v.Confirmed > c.Candidates || i > 0 && (v.High <= c.Above[i-1].High || v.Confirmed > c.Above[i-1].Confirmed) {
			t.Errorf("verdicts %+v", c.Above)
		}
	}
}

// Held-out negatives that happen to be true must not become hard negatives, and the pairs themselves stay.
func TestMiningPassesOverWhatIsTrue(t *testing.T) {
	ctx := context.Background()
	s := newSetup(t, 2)
	start := filepath.Join(t.TempDir(), "start")
	must.Do(t, s.first(ctx, 2, 4, start))
	plain := must.Get(s.evaluate(ctx, start, byITC))(t)
	m := must.Get(s.mining(ctx, start, start))(t)
	ids := map[int]schemas.ImageID{}
	for i := range s.data.held.Pairs() {
		_, image, id := s.data.held.Pair(i)
		ids[image] = id
	}
	chance := 0
	for text := range m.Cols {
		caption, own, _ := s.data.held.Pair(text)
		for image := range m.Rows {
			want := 2 * plain.Sim.Row(image)[text]
			holds := s.data.matches(ids[image], caption)
			if image == own && !holds {
				t.Errorf("caption %q is not true of its own picture", caption)
			}
			if image != own && holds || image/block != own/block {
				want = -100
			}
			if image != own && holds {
				chance++
			}
			if got := m.Row(image)[text]; got != want {
				t.Errorf("image %d, text %d: %v, want %v", image, text, got, want)
			}
		}
	}
	if chance == 0 {
		t.Error("no caption is true of another picture: the test says nothing")
	}
}

func TestCountComparesWithTheTruth(t *testing.T) {
	s := newSetup(t, 3)
	// The batch has a pair, and another picture of which its caption is not true.
	own := s.data.pairs[0]
	other := -1
	for i, p := range s.data.pairs {
		if !s.data.matches(p.ImageID, own.Caption) && !s.data.matches(own.ImageID, p.Caption) {
			other = i
		}
	}
	b := &schemas.ScoredBatch{Batch: schemas.Batch{M: 2, I2T: schemas.Int32s{1, 2, 0, -1, 0, 1}, T2I: schemas.Int32s{2, 1, 0, 2, 1, -1}}}
	// Samples 0 and 1 are the same picture and caption, sample 2 is the other one.
	for _, p := range []*schemas.Pair{own, own, s.data.pairs[other]} {
		b.Samples = append(b.Samples, schemas.Sample{ImageID: p.ImageID, Text: p.Caption})
	}
	b.ProbI2T = schemas.Floats32{0.96, 0.85, 0.4, 0, 0.1, 0.1}
	b.ProbT2I = schemas.Floats32{0.2, 0.8, 0.6, 0.1, 0.92, 0}
	c := &Connections{Above: []Verdict{{High: 0.5}, {High: 0.8}, {High: 0.95}}}
	s.count(c, b)
	c.finish()
	if len(c.probabilities) != c.Candidates {
		t.Errorf("%d probabilities of %d candidates", len(c.probabilities), c.Candidates)
	}
	c.probabilities = nil
	want := &Connections{Candidates: 10, True: 4, Above: []Verdict{
		{High: 0.5, Confirmed: 5, True: 3, Precision: 3.0 / 5, Recall: 3.0 / 4},
		{High: 0.8, Confirmed: 3, True: 1, Precision: 1.0 / 3, Recall: 1.0 / 4}, // exactly 0.8 is ambiguous
		{High: 0.95, Confirmed: 1, True: 1, Precision: 1, Recall: 1.0 / 4},
	}}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, want %+v", c, want)
	}
}
