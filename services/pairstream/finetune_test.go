//go:build cgo

package main

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/demo/models"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/process/recipe"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// Every setting of the trainer acts in finetune, or is refused by its name.
func TestSettingsOfFineTuning(t *testing.T) {
	for _, c := range []struct{ variable, value, want string }{
		{"ECM_LOSSES", "itm", `ECM_LOSSES is "itm", which finetune cannot follow`},
		{"ECM_LOSSES", "none", ""},
		{"UNI_WEIGHT", "1", `UNI_WEIGHT is "1"`},
		{"UNI_WEIGHT", "0", ""},
		{"ITC_GATHER", "true", `ITC_GATHER is "true"`},
		{"LR_TOTAL_STEPS", "100", `LR_TOTAL_STEPS is "100"`},
		{"ITC_ALPHA_RAMP_STEPS", "10", `ITC_ALPHA_RAMP_STEPS is "10"`},
		{"EVAL_DATA", "/data", "--validate"},
		{"CHECKPOINT_BEST", "recall", "--validate"},
		{"ITC_TARGETS", "hard", `ITC_TARGETS is "hard"`},
		{"DROPOUT", "2", "DROPOUT is 2"},
		{"RECIPE", "clip", `RECIPE is "clip"`},
	} {
		t.Run(c.variable+"="+c.value, func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			var j fineTuneJob
			_, err := j.settings(newFineTuneCommand())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	for name, c := range map[string]struct {
		environ map[string]string
		flags   []string
		holds   func(fineTuneJob) bool
	}{
		"the papers'": {nil, nil, func(j fineTuneJob) bool {
			o := j.Core
			return o.ITCWeight == 1 && o.ITMWeight == 1 && o.MLMWeight == 0 && o.ITC.Targets == "onehot" && o.ITMNegatives == "multinomial" &&
				o.Momentum.Queue == 65536 && o.Schedule.Kind == "reference" && o.Schedule.Rate == 1e-5 && o.Schedule.Min == o.Schedule.Rate/10 &&
				o.Schedule.WarmupRate == 1e-5 && o.StepBatches == 4 && o.Dropout == 0.1 && j.Augment.MinScale == 0.5
		}},
		"settings": {
			map[string]string{"ITM_WEIGHT": "0", "DROPOUT": "0", "MLM_WEIGHT": "2", "ITC_TARGETS": "smoothed", "MOMENTUM_QUEUE": "7", "LR_SCHEDULE": "cosine"},
			nil,
			func(j fineTuneJob) bool {
				o := j.Core
				return o.ITMWeight == 0 && o.Dropout == 0 && o.MLMWeight == 2 && o.ITC.Targets == "smoothed" && o.Momentum.Queue == 7 && o.Schedule.Kind == "cosine"
			},
		},
		"flags before settings": {
			map[string]string{"LR": "1", "STEP_BATCHES": "8", "MOMENTUM_QUEUE": "7"},
			[]string{"--lr", "1e-3", "--step-batches", "2", "--queue", "9"},
			func(j fineTuneJob) bool {
				return j.Core.Schedule.Rate == 1e-3 && j.Core.StepBatches == 2 && j.Core.Momentum.Queue == 9
			},
		},
		"no momentum model":    {map[string]string{"MOMENTUM_DECAY": "0"}, nil, func(j fineTuneJob) bool { return !j.Core.Momentum.Enabled() && j.Core.Momentum.Queue == 0 }},
		"the recipe of ALBEF":  {map[string]string{"RECIPE": "albef"}, nil, func(j fineTuneJob) bool { return j.Core.ITC.Targets == "distilled" && j.Core.ITC.Loss == "softmax" }},
		"the recipe of TCL":    {map[string]string{"RECIPE": "tcl"}, nil, func(j fineTuneJob) bool { return j.Core.ITC.Targets == "distilled" && j.Core.ITC.Loss == "triple" }},
		"a recipe and its own": {map[string]string{"RECIPE": "mafa"}, nil, func(j fineTuneJob) bool { return j.Core.ITC.Targets == "onehot" && j.Core.MLMWeight == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range c.environ {
				t.Setenv(variable, value)
			}
			cmd := newFineTuneCommand()
			must.Do(t, cmd.ParseFlags(c.flags))
			var j fineTuneJob
			if _, err := j.settings(cmd); err != nil || !c.holds(j) {
				t.Errorf("error %v, settings %+v", err, j.Core)
			}
		})
	}
}

// Con-D trains on Karpathy's train and restval, of tars whose captions his file has, at another size, and the best
// epoch on another split stays.
func TestFineTuneOnASplit(t *testing.T) {
	if apart(t) {
		return
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	t.Setenv("TORCH_THREADS", "1")
	mustCommand(t, "synth", in("scenes"), "--scenes", "10", "--side", "48")
	mustCommand(t, "bootstrap", in("scenes"), "--preset", "micro", "--steps", "1", "--batch", "4", "--out", in("w.safetensors"))
	_, karpathy := imageLists(t, in("scenes"), in("."))
	tars := in("files.tar")
	writeTar(t, in("train2014"), tars)
	args := []string{
		"finetune", tars, "--captions", karpathy, "--checkpoint", in("w.safetensors"), "--epochs", "2", "--batch", "4",
		"--step-batches", "1", "--queue", "8", "--image-size", "64", "--out", in("f.safetensors"),
	}
	out := mustCommand(t, append(args, "--validate", "test")...)
	for _, want := range []string{"on 7 images with 21 captions", "epoch 1 of 2: mean recall", "on 3 images, the best so far", "wrote"} {
		if !strings.Contains(out, want) {
			t.Errorf("finetune prints %s, want %q in it", out, want)
		}
	}
	if out, err := command(t, append(args, "--validate", "restval")...); err == nil || !strings.Contains(err.Error()+out, "are trained on, want others") {
		t.Errorf("validation on images that are trained on: %v", err)
	}
	if out := mustCommand(t, "eval", tars, "--captions", karpathy, "--split", "train,restval", "--checkpoint", in("f.safetensors")); !strings.Contains(out, "7 images, 21 texts") {
		t.Errorf("eval prints %s", out)
	}
}

// writeTar writes a tar of the files of a folder, without captions.
func writeTar(t *testing.T, folder, path string) {
	t.Helper()
	file := must.Get(os.Create(path))(t)
	w := tar.NewWriter(file)
	must.Do(t, w.AddFS(os.DirFS(folder)))
	must.Do(t, w.Close())
	must.Do(t, file.Close())
}

// The environment that docs/papers.md gives for Con-D's pre-training has S-ITC, MLM and ITM on GRIT's mini-batches, and
// no connections.
func TestConDIsPreTrainedAsMAFASays(t *testing.T) {
	page := string(must.Get(os.ReadFile("../../docs/papers.md"))(t))
	_, line, found := strings.Cut(page, "export RECIPE=mafa CANDIDATES=0")
	line, _, _ = strings.Cut("RECIPE=mafa CANDIDATES=0"+line, "\n")
	environ := map[string]string{}
	for word := range strings.FieldsSeq(line) {
		variable, value, _ := strings.Cut(word, "=")
		environ[variable] = value
	}
	values, err := recipe.Overlay(environ)
	if err != nil || !found {
		t.Fatalf("%q: %v", line, err)
	}
	for variable, want := range map[string]string{
		"STRATEGY": "grit", "ITC_TARGETS": "smoothed", "ITC_ALPHA": "0.5", "MLM_WEIGHT": "1", "ITM_WEIGHT": "1", "ITC_WEIGHT": "1",
		"ITM_NEGATIVES": "hardest", "CANDIDATES": "0", "ECM_LOSSES": "none", "MOMENTUM_DECAY": "0",
	} {
		if values[variable] != want {
			t.Errorf("%s is %q, want %q", variable, values[variable], want)
		}
	}
}

// A trained model on larger images keeps its heads and resizes its positions. It retrieves far better than chance, where one
// with other heads has an RSUM of 135, and a hundred steps of fine-tuning bring back a good part of what it has lost.
func TestLargerImagesRuinNoModel(t *testing.T) {
	if apart(t) {
		return
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must.Do(t, os.WriteFile(in("trained"), models.First, 0o600))
	draw := func(name string, seed uint64, n int) {
		o := models.Scenes(seed)
		o.Scenes, o.Side = n, 48
		must.Do(t, scenes.WriteDir(t.Context(), in(name), o, nil))
	}
	draw("held", 77, 100)
	draw("train", 78, 1600)
	t.Setenv("TORCH_THREADS", "1")
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Threads: 1}))(t)
	defer w.Close()
	m := must.Get(model.Load(t.Context(), w, in("trained"), model.LoadOptions{ImageSize: 48}))(t)
	defer m.Free()
	must.Do(t, m.Save(t.Context(), in("larger")))
	mustCommand(t, "finetune", in("train"), "--checkpoint", in("trained"), "--epochs", "1", "--batch", "16", "--step-batches", "1",
		"--queue", "0", "--lr", "3e-4", "--image-size", "48", "--out", in("tuned"))
	rsum := map[string]float64{}
	for _, name := range []string{"trained", "larger", "tuned"} {
		r := must.Get(evaluate(t.Context(), w, []string{in("held")}, evaluation{checkpoint: in(name), topK: eval.NoRerank, log: io.Discard, cache: 64 << 20}))(t)
		rsum[name] = r.ITC.RSUM()
	}
	if rsum["trained"] < 500 || rsum["larger"] < 200 || rsum["tuned"] < rsum["larger"]+0.4*(rsum["trained"]-rsum["larger"]) {
		t.Errorf("RSUM is %.1f, where chance is 32; %.1f with images of 48 px in the place of 32, and %.1f fine-tuned on these",
			rsum["trained"], rsum["larger"], rsum["tuned"])
	}
}
