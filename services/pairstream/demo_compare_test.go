//go:build cgo

package main

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/eval"
	"github.com/pairstream/pairstream/internal/scenes"
	"github.com/pairstream/pairstream/internal/token"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/trainer"
)

// smallDemo is a demo whose first model has learned for two steps, before anything is streamed.
func smallDemo(t *testing.T) (*demo, *torch.Worker) {
	t.Helper()
	d := &demo{out: io.Discard, demoOptions: demoOptions{dir: t.TempDir(), boot: 2}, plan: onScenes()}
	d.drawn = filepath.Join(d.dir, "scenes")
	d.data, d.source = d.drawn, d.drawn
	o := scenes.Defaults()
	o.Scenes, o.Captions, o.Kinds = 60, 2, d.plan.kinds
	if err := scenes.WriteDir(t.Context(), d.data, o, nil); err != nil {
		t.Fatal(err)
	}
	all, _, err := dataset.Read(t.Context(), []string{d.data}, 0)
	if err == nil {
		d.train, d.held, err = all.HoldOut(30)
	}
	if err == nil {
		d.settings, err = config.Parse[pipeline](map[string]string{
			"BUCKET_ROOTS": "file://" + d.data, "ENCODER_CHECKPOINT": "a", "COND_CHECKPOINT": "a", "TRAIN_INIT": "a", "CHECKPOINT_DIR": d.dir,
			"STEP_BATCHES": "1", "LR": "1e-3", "LR_WARMUP": "1e-3", "TORCH_THREADS": "1",
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	d.first, d.vocab = d.train, token.BuildVocab(d.train.Captions, demoVocab, 1)
	closeImages, err := d.openImages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := d.newWorker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Close()
		if err := closeImages(); err != nil {
			t.Error(err)
		}
	})
	if err := d.bootstrap(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	return d, w
}

// All models are asked about the hard negatives that the trained ones find hardest together, of which none is true.
func TestModelsAreAskedAboutTheSameNegatives(t *testing.T) {
	d, w := smallDemo(t)
	for range 3 {
		d.steps.add(&trainer.Result{})
	}
	random, err := d.trainRandom(t.Context(), w)
	if err != nil || random == "" {
		t.Fatalf("random mini-batches make %q, %v", random, err)
	}
	if d.known, err = ofScenes(t.Context(), d.data); err != nil {
		t.Fatal(err)
	}
	untrue := d.matches()
	holds := 0
	for text := range d.held.Pairs() {
		for image := range d.held.Images() {
			if _, own, _ := d.held.Pair(text); untrue(image, text) && own != image {
				holds++
			} else if own == image && !untrue(image, text) {
				t.Errorf("caption %d is not true of its own picture", text)
			}
		}
	}
	if holds == 0 {
		t.Fatal("no caption is true of another picture: nothing is tested here")
	}
	// The pipeline's model is the first one here, so the negatives are those of two known models.
	got, err := d.measure(t.Context(), w, random, d.weights())
	if err != nil {
		t.Fatal(err)
	}
	evaluated := func(path string, o eval.Options) *eval.Report {
		r, err := d.evaluate(t.Context(), w, path, o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	mining := evaluated(random, eval.Options{TopK: eval.NoRerank}).Sim
	for i, v := range evaluated(d.weights(), eval.Options{TopK: eval.NoRerank}).Sim.Data {
		mining.Data[i] += v
	}
	for name, c := range map[string]struct {
		path string
		got  *eval.Report
	}{"first": {d.weights(), got.before}, "random": {random, got.random}, "pipeline": {d.weights(), got.after}} {
		want := evaluated(c.path, eval.Options{TopK: eval.NoRerank, Mining: &mining, Matches: untrue})
		if c.got.Match != want.Match || c.got.ITC != want.ITC {
			t.Errorf("%s: %+v, want %+v", name, c.got.Match, want.Match)
		}
	}
	if got, err = d.measure(t.Context(), w, "", d.weights()); err != nil || got.random != nil || got.after == nil {
		t.Errorf("without random mini-batches: %+v, %v", got, err)
	}
}

// A recipe whose losses want more than plain pairs is not compared, and the demo goes on.
func TestRecipesThatPlainPairsCannotTrain(t *testing.T) {
	d, w := smallDemo(t)
	d.settings.Trainer.Core.UniWeight = 1
	if path, err := d.trainRandom(t.Context(), w); path != "" || err != nil {
		t.Errorf("random mini-batches make %q, %v", path, err)
	}
}
