package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func withQueue() Options {
	o := everything()
	o.ITC = ITCOptions{Loss: Softmax, Targets: Distilled, Alpha: 0.4, AlphaRampSteps: 10}
	o.Momentum = MomentumOptions{Decay: 0.9, Queue: 20}
	return o
}

// withTCL draws its negatives, distils MLM and contrasts as TCL does.
func withTCL() Options {
	o := withQueue()
	o.ITC.Loss, o.MLMDistill, o.ITMNegatives = Triple, 0.4, MultinomialNegatives
	return o
}

func save(t *testing.T, tr *Trainer, folder, positions string) string {
	t.Helper()
	path := must.Get(tr.Save(context.Background(), folder, json.RawMessage(positions), 0))(t)
	return path
}

func TestResumingChangesNothing(t *testing.T) {
	for name, o := range map[string]Options{
		"MAFA": everything(), "momentum encoder and queue": withQueue(), "TCL with drawn negatives": withTCL(), "a sigmoid": withSigmoid(everything()),
		"two batches a step": inPairs(withQueue()),
	} {
		t.Run(name, func(t *testing.T) {
			const steps, stop = 6, 4
			train := func(tr *Trainer, from, to int) {
				for i := from; i < to; i++ {
					b := testBatch(8, i)
					if i%2 == 1 {
						b = maskSamples(b, 3)
					}
					mustStep(t, tr, b, testInput(8, i))
				}
			}
			// fail begins a step, for which the momentum encoder follows, and does not end it.
			fail := func(tr *Trainer) {
				in := testInput(8, stop)
				in.Pixels[0] = float32(math.NaN())
				if _, err := tr.Step(context.Background(), testBatch(8, stop), in); !errors.Is(err, ErrNotFinite) {
					t.Fatalf("error %v, want %v", err, ErrNotFinite)
				}
			}
			straight := testTrainer(t, o)
			train(straight, 0, stop)
			fail(straight)
			train(straight, stop, steps)
			stopped := testTrainer(t, o)
			train(stopped, 0, stop)
			fail(stopped)
			path := save(t, stopped, t.TempDir(), `{"lanes":[3,4]}`)
			resumed, positions := must.Get2(Resume(context.Background(), newWorker(t), path, o))(t)
			defer resumed.Free()
			if string(positions) != `{"lanes":[3,4]}` || resumed.Batches() != stop || resumed.Steps() != stop/int64(o.StepBatches) {
				t.Errorf("resumed at step %d with positions %s", resumed.Steps(), positions)
			}
			train(resumed, stop, steps)
			a, b := save(t, straight, t.TempDir(), "{}"), save(t, resumed, t.TempDir(), "{}")
			if fa, fb := readFile(t, a), readFile(t, b); fa != fb {
				t.Error("the checkpoints of a straight and of an interrupted run differ")
			}
		})
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content := must.Get(os.ReadFile(path))(t)
	return string(content)
}

func TestACheckpointIsAWeightsFile(t *testing.T) {
	tr := testTrainer(t, withQueue())
	mustStep(t, tr, testBatch(8, 0), testInput(8, 0))
	path := save(t, tr, filepath.Join(t.TempDir(), "new", "folder"), "")
	m := must.Get(model.Load(context.Background(), newWorker(t), path, model.LoadOptions{}))(t)
	defer m.Free()
	got := must.Get(m.Fingerprint(context.Background()))(t)
	if want := fingerprint(t, tr); got != want || len(m.Vocab) != testConfig.VocabSize {
		t.Errorf("loaded weights %s with %d words, want %s", got, len(m.Vocab), want)
	}
}

func TestSavingTwiceGivesTheSameBytes(t *testing.T) {
	tr := testTrainer(t, withQueue())
	mustStep(t, tr, testBatch(8, 0), testInput(8, 0))
	a, b := save(t, tr, t.TempDir(), "{}"), save(t, tr, t.TempDir(), "{}")
	if readFile(t, a) != readFile(t, b) {
		t.Error("one state was saved as two files")
	}
}

func TestSaveKeepsTheLastTwo(t *testing.T) {
	tr := testTrainer(t, MAFA())
	folder := t.TempDir()
	var newest string
	for i := range 3 {
		mustStep(t, tr, testBatch(4, i), testInput(4, i))
		newest = save(t, tr, folder, "")
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 2 {
		t.Errorf("%d files, %v, want 2", len(entries), err)
	}
	if latest, bad, err := LatestCheckpoint(folder); latest != newest || bad != nil || err != nil {
		t.Errorf("latest is %q, %v, %v, want %q", latest, bad, err, newest)
	}
}

func TestResumeWithOtherOptions(t *testing.T) {
	plain := testTrainer(t, MAFA())
	mustStep(t, plain, testBatch(4, 0), testInput(4, 0))
	withAverage := testTrainer(t, withQueue())
	mustStep(t, withAverage, testBatch(4, 0), testInput(4, 0))
	shorter := withQueue()
	shorter.Momentum.Queue = 3
	for _, c := range []struct {
		name  string
		from  *Trainer
		o     Options
		queue int // entries right after resuming; -1: no momentum encoder
	}{
		{"a momentum encoder is switched on", plain, withQueue(), 0},
		{"a momentum encoder is switched off", withAverage, MAFA(), -1},
		{"the queue is shortened", withAverage, shorter, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, _ := must.Get2(Resume(context.Background(), newWorker(t), save(t, c.from, t.TempDir(), ""), c.o))(t)
			defer tr.Free()
			switch {
			case (tr.momentum == nil) != (c.queue < 0):
				t.Errorf("momentum encoder %v", tr.momentum)
			case c.queue >= 0 && len(tr.momentum.ids) != c.queue:
				t.Errorf("%d entries in the queue, want %d", len(tr.momentum.ids), c.queue)
			}
			mustStep(t, tr, testBatch(4, 1), testInput(4, 1))
		})
	}
}

func TestResumeRefuses(t *testing.T) {
	tr := testTrainer(t, MAFA())
	mustStep(t, tr, testBatch(4, 0), testInput(4, 0))
	path := save(t, tr, t.TempDir(), "")
	must.Do(t, os.Truncate(path, 5000))
	if _, _, err := Resume(context.Background(), newWorker(t), path, MAFA()); !errors.Is(err, ErrTorn) {
		t.Errorf("a torn file: error %v, want %v", err, ErrTorn)
	}
	weights := filepath.Join(t.TempDir(), "weights.safetensors")
	must.Do(t, tr.model.Save(context.Background(), weights))
	if _, _, err := Resume(context.Background(), newWorker(t), weights, MAFA()); err == nil || !strings.Contains(err.Error(), "not a checkpoint") {
		t.Errorf("a file of weights: error %v", err)
	}
	absent := filepath.Join(t.TempDir(), "absent")
	if _, _, err := Resume(context.Background(), newWorker(t), absent, MAFA()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: error %v", err)
	}
}
