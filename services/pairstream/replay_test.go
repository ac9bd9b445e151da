//go:build cgo

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/operate/replay"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestRunManifestAndReplay runs the real stages again, from pictures to features. The same comes out, and the same
// checkpoints stay.
func TestRunManifestAndReplay(t *testing.T) {
	if apart(t) {
		return
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	settings := map[string]string{
		"LANES": "2", "SEED": "3", "BUCKET_ROOTS": "file://" + dir, "TRAIN_EXIT_AT_END": "true", "CHECKPOINT_DIR": in("checkpoints"),
		"ENCODER_CHECKPOINT": in("w.safetensors"), "COND_CHECKPOINT": in("w.safetensors"), "COND_MIN_PRECISION": "0", "TRAIN_INIT": in("w.safetensors"),
		"GROUP_SIZE": "9", "CLUSTERS": "3", "NEIGHBORS_K2": "8", "NOUN_MIN_COUNT": "1", "EPOCHS": "2", "BATCH_SIZE": "4", "STEP_BATCHES": "1", "QUEUE_SIZE": "8",
		"FILTER": `big: width > 1; some: !caption.contains("green")`, "DEDUPE_IMAGES": "count", "DEDUPE_NEAR": "drop:0.9",
		"SEARCH_SPACE": "8", "LR_WARMUP_STEPS": "2", "LR_TOTAL_STEPS": "100", "TORCH_THREADS": "1",
		"CHECKPOINT_EVERY": "1", "CHECKPOINT_KEEP_EVERY": "4",
	}
	var env strings.Builder
	for name, value := range settings {
		env.WriteString(name + "=" + value + "\n")
		t.Setenv(name, value)
	}
	t.Setenv("KAFKA_BROKERS", logtest.Broker(t))
	t.Setenv("NAMESPACE", "production")
	t.Setenv("LOG_LEVEL", "warn") // should it wait for something, the log says what, and the goroutines say where
	defer time.AfterFunc(time.Minute, func() { _ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1) }).Stop()
	must.Do(t, os.WriteFile(in("run.env"), []byte("# the run\n\n"+env.String()), 0o644))

	mustCommand(t, "synth", in("scenes"), "--scenes", "10", "--side", "64")
	mustCommand(t, "bootstrap", in("scenes"), "--steps", "1", "--batch", "4", "--out", in("w.safetensors"))
	mustCommand(t, "produce", in("scenes"))
	if _, err := command(t, "run-manifest"); err == nil || !strings.Contains(err.Error(), "has not ended: `pairstream seal --final` ends it") {
		t.Errorf("manifest of a run that goes on: error %v", err)
	}
	mustCommand(t, "seal", "--final")
	mustCommand(t, "up")
	if out := mustCommand(t, "status"); !strings.Contains(out, " near-duplicates") || !strings.Contains(out, "filtered (some ") || strings.Contains(out, "is not") {
		t.Errorf("status prints\n%s\nwant pairs of both kinds, and a sum that is right", out)
	}
	if out := mustCommand(t, "run-manifest", "--out", in("run.json")); !strings.Contains(out, "2 lanes, seed 3, models ") {
		t.Errorf("run-manifest prints %s", out)
	}

	for name := range settings { // all that a replay needs is in the manifest
		t.Setenv(name, "")
	}
	t.Setenv("LANES", "2")
	if out := mustCommand(t, "run-manifest", "--env", in("run.env")); out == "" || !strings.Contains(out, `"GROUP_SIZE": "9"`) {
		t.Errorf("run-manifest prints %s", out)
	}
	out := mustCommand(t, "replay", in("run.json"), "--namespace", "again", "--data", dir, "--patience", "60s")
	if !strings.Contains(out, "32 pairs were copied") || strings.Contains(out, "differ") {
		t.Errorf("replay prints\n%s", out)
	}
	compareKept(t, "the replay", filepath.Join(dir, "replay", "again"), in("checkpoints"), 4)
	if out := mustCommand(t, "replay", in("run.json"), "--namespace", "again", "--data", dir, "--patience", "60s"); strings.Contains(out, "differ") {
		t.Errorf("once more, replay prints\n%s", out)
	}
	out, err := command(t, "replay", in("run.json"), "--namespace", "other", "--data", dir, "--patience", "60s", "--set", "SEED=4", "--json")
	var report replay.Report
	if jerr := json.Unmarshal([]byte(out), &report); jerr != nil || len(report.Results) != 12 {
		t.Fatalf("replay prints %s (%v)", out, jerr)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "the replay differs in ") || !report.Results[0].Equal || report.Results[2].Equal {
		t.Errorf("another seed: error %v, results %+v", err, report.Results)
	}
}

func TestModelsAreNamedOnce(t *testing.T) {
	m := &replay.Manifest{Models: []replay.Model{{Topic: "embeddings", Fingerprint: "a"}, {Topic: "scored", Fingerprint: "b"}, {Topic: "scored", Fingerprint: "a"}}}
	if got, want := fingerprints(m), "a (embeddings, scored), b (scored)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestInterruptedReplayFails interrupts a replay, which then has not come out equal.
func TestInterruptedReplayFails(t *testing.T) {
	if apart(t) {
		return
	}
	testLog(t)
	t.Setenv("BUCKET_ROOTS", "file://"+t.TempDir())
	path := filepath.Join(t.TempDir(), "run.json")
	mustCommand(t, "run-manifest", "--open", "--out", path)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root := newRoot()
	root.SetArgs([]string{"replay", path, "--namespace", "x"})
	if err := interrupt.Unfinished(root.ExecuteContext(ctx)); err == nil || err.Error() != "interrupted; the same command goes on" {
		t.Errorf("error %v", err)
	}
	if err := interrupt.Unfinished(fmt.Errorf("reading: %w", context.Canceled)); err == nil || err.Error() != "interrupted" {
		t.Errorf("error %v", err)
	}
}

func TestReplayCommandRefuses(t *testing.T) {
	testLog(t)
	path := filepath.Join(t.TempDir(), "run.json")
	must.Do(t, os.WriteFile(path, []byte(`{"version": 9}`), 0o644))
	good := filepath.Join(t.TempDir(), "good.json")
	mustCommand(t, "run-manifest", "--open", "--out", good)
	for args, want := range map[string]string{
		"replay " + path: "its version is 9, this program reads version 1",
		"replay " + good: "--namespace is empty, want a prefix for the replay's topics",
		"replay " + good + " --namespace x --set LANES":      `--set is "LANES", want NAME=VALUE`,
		"replay " + good + " --namespace x --set LANES=many": "BUCKET_ROOTS is empty",
		"replay":                      "got 0 arguments, want: pairstream replay MANIFEST [flags]",
		"replay " + good + " x":       "got 2 arguments, want: pairstream replay MANIFEST",
		"run-manifest --env " + path:  "want NAME=VALUE in",
		"run-manifest --env /nowhere": "reading --env: open /nowhere",
	} {
		if _, err := command(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", args, err, want)
		}
	}
}
