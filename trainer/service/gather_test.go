package service

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/ranks"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// Features are published with a batch's first pass, one by one. The second pass comes with the last batch of the step.
// A checkpoint between the two goes on behind the last complete step.
func TestFeaturesComeBeforeTheStep(t *testing.T) {
	l, n, _ := testLoop(t, false, never)
	core := l.core.(*scripted)
	l.gather, core.of = 2, 2
	for seq := range int64(3) {
		w := testWork(0, seq)
		w.after = positions{Decay: seq + 1}
		must.Do(t, l.step(t.Context(), w))
	}
	if want := []string{"features 0 of lane 0", "features 1 of lane 0", "progress step", "features 2 of lane 0"}; !slices.Equal(n.calls, want) {
		t.Errorf("%q, want %q", n.calls, want)
	}
	if core.steps != 2 || len(l.gathered) != 1 || !l.within {
		t.Errorf("%d second passes, %d batches wait, within a step: %t", core.steps, len(l.gathered), l.within)
	}
	must.Do(t, l.checkpoint(t.Context()))
	var at positions
	if err := json.Unmarshal(core.saved, &at); err != nil || at.Decay != 2 {
		t.Errorf("the checkpoint goes on behind batch %d, %v, want 2", at.Decay, err)
	}
	if err := l.finish(t.Context()); err != nil || core.steps != 3 || len(l.gathered) != 0 {
		t.Errorf("the short step: %v, %d second passes, %d batches wait", err, core.steps, len(l.gathered))
	}
}

// A batch that is set aside in a repeated step is recorded, though its features are in the log: they came before its
// loss.
func TestASetAsideBatchIsRecordedAfterItsFeatures(t *testing.T) {
	l, n, counted := testLoop(t, false, func(int64) string { return "no number" })
	l.gather = 1
	l.published[0] = 0
	must.Do(t, l.step(t.Context(), testWork(0, 0)))
	if want := []string{"dead letter of trainer: record 0: no number", "progress step"}; !slices.Equal(n.calls, want) || counted() != 1 {
		t.Errorf("%q, want %q", n.calls, want)
	}
}

// What is held for the second pass is given back when a training ends before it.
func TestHeldImagesAreGivenBack(t *testing.T) {
	o := ofFour()
	o.ITC.Gather = true
	core := newCore(t, firstWeights(t), nil, o)
	before := torch.Live()
	l, _, _ := testLoop(t, false, never)
	l.core, l.gather = single{core}, o.StepBatches
	for n := range 2 {
		in := must.Get(core.Send(drawn(threeSamples(n))))(t)
		w := testWork(0, int64(n))
		w.batch, w.input = threeSamples(n), in
		must.Do(t, l.step(t.Context(), w))
	}
	const keys = 2 * 2 // of two batches, which the trainer frees
	if n := torch.Live() - before; n != keys+2*2 {
		t.Errorf("%d tensors are held, want the keys and two images of each batch", n)
	}
	l.freeGathered()
	if n := torch.Live() - before; n != keys {
		t.Errorf("%d tensors are held, want the keys", n)
	}
}

// A step that gets no more batches has its second pass with those that it has, and is in the last checkpoint.
func TestAGatheredRunEndsWithAShortStep(t *testing.T) {
	log, dir := testLogs(t)("exp"), t.TempDir()
	putScored(t, log, 0, 1, 2)
	environ := map[string]string{
		"CHECKPOINT_DIR": dir, "TRAIN_INIT": firstWeights(t), "BUCKET_ROOTS": "file://" + t.TempDir(), "ITC_GATHER": "true", "STEP_BATCHES": "8",
	}
	must.Do(t, runTrainer(t, log, environ))
	files, err := filepath.Glob(filepath.Join(dir, "checkpoint-*"))
	if err != nil || len(files) != 1 || filepath.Base(files[0]) != "checkpoint-000000000002.safetensors" { // of 8 batches and 4
		t.Errorf("%v, %v", files, err)
	}
}

// Keys of another step, of too few batches, or of one batch twice are not those of a step.
func TestKeysThatAreNoStep(t *testing.T) {
	part := func(step int64, numbers ...int) ranks.Part {
		own := make(map[int]trainer.Keys)
		for _, n := range numbers {
			own[n] = trainer.Keys{Image: []float32{1}, Text: []float32{float32(n)}, IDs: []schemas.ImageID{{byte(n)}}}
		}
		p := must.Get(keysPart(step, 2, own))(t)
		return p
	}
	note := func(step int64, numbers ...int) []byte { return part(step, numbers...).Note }
	for want, notes := range map[string][][]byte{
		"rank 1 is at step 6, rank 0 at step 5":                     {note(5, 0), note(6, 1)},
		"the ranks have prepared 1 batches of step 5, want 2":       {note(5, 0), note(5)},
		"rank 1 has prepared batch 0 of step 5, as a rank before":   {note(5, 0), note(5, 0)},
		"reading the keys of rank 1: invalid character 'x' looking": {note(5, 0), []byte("x")},
	} {
		if _, err := joinKeyNotes(notes, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if _, err := keysOf(6, part(5, 0)); err == nil || !strings.Contains(err.Error(), "rank 0 is at step 5, this rank at step 6") {
		t.Errorf("%v", err)
	}
	strange := part(5, 1)
	strange.Vectors = strange.Vectors[:2]
	if _, err := keysOf(5, strange); err == nil || !strings.Contains(err.Error(), "it has no batch 1") {
		t.Errorf("%v", err)
	}
	all, err := keysOf(5, part(5, 1))
	if k := all[1]; err != nil || len(all) != 1 || k.Text[0] != 1 || k.IDs[0] != (schemas.ImageID{1}) {
		t.Errorf("%+v, %v", all, err)
	}
}

// The loop gathers where the settings ask for it and a step has several batches.
func TestWhenStepsAreGathered(t *testing.T) {
	for want, environ := range map[int]map[string]string{
		4: {"ITC_GATHER": "true"},
		8: {"ITC_GATHER": "true", "STEP_BATCHES": "8", "ITC_TARGETS": "consistency"},
		0: {"ITC_GATHER": "true", "STEP_BATCHES": "1"},
	} {
		s, err := parse(environ)
		if err != nil || s.gather() != want {
			t.Errorf("%v: %d batches are gathered (%v), want %d", environ, s.gather(), err, want)
		}
	}
}
