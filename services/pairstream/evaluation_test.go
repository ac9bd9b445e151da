//go:build cgo

package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// evaluationsIn returns the figures on progress by step. Repetitions must be equal.
func evaluationsIn(t *testing.T, log *stream.Log) map[int64]schemas.Measures {
	t.Helper()
	found := map[int64]schemas.Measures{}
	for p, err := range stream.Values[*schemas.Progress](t.Context(), log, schemas.ProgressLog, 0) {
		must.Do(t, err)
		if p.Kind != schemas.ProgressEval {
			continue
		}
		if before, again := found[p.Step]; again && !maps.Equal(before, p.Values) {
			t.Errorf("step %d was evaluated twice: %v, %v", p.Step, before, p.Values)
		}
		found[p.Step] = p.Values
	}
	return found
}

// tensorsOf returns the tensors of a checkpoint.
func tensorsOf(t *testing.T, path string) map[string]string {
	t.Helper()
	f := must.Get(safetensors.Open(path))(t)
	found := map[string]string{}
	for _, name := range f.Names() {
		tensor, _ := f.Tensor(name)
		found[name] = string(tensor.Data)
	}
	return found
}

func checkpointsOf(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "checkpoint-*.safetensors"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no checkpoint in %s (%v)", folder, err)
	}
	return files
}

// setEvaluations sets what the tests of evaluations train with.
func setEvaluations(t *testing.T, in func(string) string) {
	t.Helper()
	for name, value := range map[string]string{
		"EVAL_EVERY": "2", "EVAL_DATA": in("held-out"), "CHECKPOINT_EVERY": "1", "CHECKPOINT_KEEP_EVERY": "3", "CHECKPOINT_BEST": "recall",
	} {
		t.Setenv(name, value)
	}
}

// TestEvaluationBesideTraining trains on the same batches with evaluations, with and without kills, and with two ranks.
// Features and weights are those of a training without. Every step has the same figures, which are those of `pairstream
// eval` on the best checkpoint. A trainer that has lost its disk in between goes on from CHECKPOINT_UPLOAD.
func TestEvaluationBesideTraining(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	in := setUpPipeline(t, 20)
	// A smaller model scores many pairs almost equally: the last bit of a score then moves its AUC.
	mustCommand(t, "bootstrap", in("scenes"), "--preset", "micro", "--steps", "1", "--batch", "4", "--out", in("w.safetensors"))
	t.Setenv("STEP_BATCHES", "2")
	mustCommand(t, "synth", in("held-out"), "--scenes", "30", "--side", "64", "--seed", "9")
	t.Setenv("NAMESPACE", "plain")
	t.Setenv("CHECKPOINT_DIR", in("plain"))
	mustCommand(t, "produce", in("scenes"), "--final")
	mustCommand(t, "up")
	plain := openNamespace(t)
	features := func(outcome map[string]string) map[string]string {
		maps.DeleteFunc(outcome, func(name, _ string) bool { return !strings.HasPrefix(name, "features") })
		return outcome
	}
	want := features(trainedOutcome(t, plain, in("plain")))
	plainFiles := checkpointsOf(t, in("plain"))
	weights := tensorsOf(t, plainFiles[len(plainFiles)-1])

	setEvaluations(t, in)
	var figures map[int64]schemas.Measures
	for _, c := range []struct {
		name  string
		world int
	}{{"alone", 1}, {"ranks", 2}} {
		folder := in(c.name)
		t.Setenv("CHECKPOINT_DIR", folder)
		log := copyScored(t, plain, c.name)
		endOf(t, startRanks(t, c.world))
		compare(t, c.name, &want, features(trainedOutcome(t, log, folder)))
		files := checkpointsOf(t, folder)
		if !maps.Equal(tensorsOf(t, files[len(files)-1]), weights) {
			t.Errorf("%s: other weights than without evaluations", c.name)
		}
		got := evaluationsIn(t, log)
		if figures == nil {
			figures = got
		}
		if !maps.EqualFunc(got, figures, maps.Equal) || len(got) < 4 {
			t.Errorf("%s: evaluations %v, want %v", c.name, got, figures)
		}
		checkBest(t, in, folder, got)
	}

	folder, copies := in("killed"), in("copies")
	t.Setenv("CHECKPOINT_DIR", folder)
	t.Setenv("CHECKPOINT_UPLOAD", copies)
	log := copyScored(t, plain, "killed")
	killWhileSaving(t, folder, copies)
	compare(t, "killed", &want, features(trainedOutcome(t, log, folder)))
	files := checkpointsOf(t, folder)
	if !maps.Equal(tensorsOf(t, files[len(files)-1]), weights) {
		t.Error("killed: other weights than without")
	}
	if got := evaluationsIn(t, log); !maps.EqualFunc(got, figures, maps.Equal) {
		t.Errorf("killed: evaluations %v, want %v", got, figures)
	}
	checkBest(t, in, folder, figures)
	checkKept(t, folder)
	if a, b := namesIn(t, folder), namesIn(t, copies); !slices.Equal(a, b) {
		t.Errorf("the folder has %q, CHECKPOINT_UPLOAD %q", a, b)
	}
	if out := mustCommand(t, "progress", "--kind", "eval", "--csv"); strings.Count(out, "\n") != 1+len(figures) || !strings.Contains(out, "matching_error") {
		t.Errorf("progress prints %s", out)
	}
}

// checkBest wants the best checkpoint to be that of the first step with the best figure, with the figures of
// `pairstream eval`.
func checkBest(t *testing.T, in func(string) string, folder string, figures map[int64]schemas.Measures) {
	t.Helper()
	var step int64
	for _, s := range slices.Sorted(maps.Keys(figures)) {
		if s > 0 && (step == 0 || figures[s]["recall"] > figures[step]["recall"]) {
			step = s
		}
	}
	path := filepath.Join(folder, "best.safetensors")
	f := must.Get(safetensors.Open(path))(t)
	if got := f.Metadata["pairstream.step"]; got != strconv.FormatInt(step, 10) {
		t.Errorf("the best checkpoint is of step %s, want %d: %v", got, step, figures)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	var report eval.Report
	out := mustCommand(t, "eval", "--checkpoint", path, "--rerank", "-1", "--json", in("held-out"))
	must.Do(t, json.Unmarshal([]byte(out), &report))
	if got := report.Measures(); !maps.Equal(got, figures[step]) {
		t.Errorf("`pairstream eval` says %v, the trainer %v", got, figures[step])
	}
}

// checkKept wants the checkpoints of every third step besides the last two.
func checkKept(t *testing.T, folder string) {
	t.Helper()
	files := checkpointsOf(t, folder)
	for i, path := range files {
		var step int64
		if _, err := fmt.Sscanf(filepath.Base(path), "checkpoint-%d.safetensors", &step); err != nil || i < len(files)-2 && step != int64(3*i+3) {
			t.Errorf("checkpoint %d is %s (%v)", i, path, err)
		}
	}
	if len(files) < 4 {
		t.Errorf("only %q stay", files)
	}
}

func namesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(folder, "*.safetensors")))(t)
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	return names
}

// killWhileSaving kills a trainer again and again while it writes a checkpoint, takes its disk away once, and lets it
// train to the end.
func killWhileSaving(t *testing.T, folder, copies string) {
	t.Helper()
	caught := 0
	for round := range 6 {
		before := halfWritten(t, folder) // of the kill before
		p := start(t, "trainer")
		wait := func() []string {
			return slices.DeleteFunc(halfWritten(t, folder), func(name string) bool { return slices.Contains(before, name) })
		}
		for len(wait()) == 0 {
			mustRun(t, p)
		}
		p.kill(t)
		caught += len(wait())
		if round == 3 {
			loseDisk(t, folder, copies)
		}
	}
	if caught == 0 {
		t.Error("no kill came while a checkpoint was written")
	}
	endOf(t, []*process{start(t, "trainer")})
}

// halfWritten lists the checkpoints that are being written, or were when a trainer was killed.
func halfWritten(t *testing.T, folder string) []string {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(folder, ".checkpoint-*.tmp")))(t)
	return files
}

// mustRun waits for a moment, and fails when a process has ended by itself.
func mustRun(t *testing.T, p *process) {
	t.Helper()
	select {
	case <-p.done:
		t.Fatalf("the trainer has ended by itself: %v\n%s", p.err, p.log)
	case <-time.After(time.Millisecond):
	}
}

// loseDisk makes an empty folder of it, once its copies are there.
func loseDisk(t *testing.T, folder, copies string) {
	t.Helper()
	p := start(t, "trainer")
	for len(namesIn(t, copies)) == 0 {
		mustRun(t, p)
	}
	p.kill(t)
	must.Do(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Remove(path)
	}))
}
