//go:build cgo

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/tracing/otlp"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/otlptest"
)

// TestTracesFollowPairs runs the real stages with every pair sampled. Each pair has one trace through them, and spans
// of mini-batches and steps link to what they are made of. A replay without traces gives the same records.
func TestTracesFollowPairs(t *testing.T) {
	if apart(t) {
		return
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, value := range map[string]string{
		"LANES": "1", "BUCKET_ROOTS": "file://" + dir, "TRAIN_EXIT_AT_END": "true", "CHECKPOINT_DIR": in("checkpoints"), "ENCODER_CHECKPOINT": in("w.safetensors"),
		"COND_CHECKPOINT": in("w.safetensors"), "COND_MIN_PRECISION": "0", "TRAIN_INIT": in("w.safetensors"), "GROUP_SIZE": "9", "CLUSTERS": "3", "NEIGHBORS_K2": "8",
		"NOUN_MIN_COUNT": "1", "EPOCHS": "1", "BATCH_SIZE": "4", "STEP_BATCHES": "1", "QUEUE_SIZE": "8", "SEARCH_SPACE": "8", "LR_WARMUP_STEPS": "2", "LR_TOTAL_STEPS": "100",
		"TORCH_THREADS": "1", "KAFKA_BROKERS": logtest.Broker(t), "NAMESPACE": "traced", "LOG_LEVEL": "error",
	} {
		t.Setenv(name, value)
	}
	mustCommand(t, "synth", in("scenes"), "--scenes", "10", "--side", "64")
	mustCommand(t, "bootstrap", in("scenes"), "--steps", "1", "--batch", "4", "--out", in("w.safetensors"))
	r := otlptest.New(t)
	otlp.Use()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "1")
	mustCommand(t, "produce", in("scenes"), "--final")
	mustCommand(t, "up")
	mustCommand(t, "run-manifest", "--out", in("run.json"))
	published := followed(t, r.Spans())

	if out := mustCommand(t, "replay", in("run.json"), "--namespace", "again", "--data", dir); strings.Contains(out, "differ") {
		t.Errorf("a replay without traces prints\n%s", out)
	}
	if again := followed(t, r.Spans()); again != published {
		t.Errorf("%d pairs were published, and the replay has added spans", published)
	}
}

// followed checks the spans of a run, and returns how many there are.
func followed(t *testing.T, spans []otlptest.Span) int {
	t.Helper()
	names := make(map[string]map[string]otlptest.Span) // by trace
	byID := make(map[string]otlptest.Span)
	for _, s := range spans {
		if names[s.Trace] == nil {
			names[s.Trace] = make(map[string]otlptest.Span)
		}
		names[s.Trace][s.Name], byID[s.ID] = s, s
	}
	pairs, batches, steps := 0, 0, 0
	for _, s := range spans {
		if s.To < s.From {
			t.Errorf("%s ends before it begins", s.Name)
		}
		if s.Parent != "" && byID[s.Parent].Trace != s.Trace {
			t.Errorf("%s has a parent that is not there", s.Name)
		}
		if s.Facts["pairstream.lane"] != "0" || !strings.HasPrefix(s.Service, "pairstream-") {
			t.Errorf("%s is of service %q and has %v, want lane 0", s.Name, s.Service, s.Facts)
		}
		if s.Facts["pairstream.pair"] == "" && (s.Facts["pairstream.group"] == "" || s.Facts["pairstream.epoch"] != "0") {
			t.Errorf("%s has %v, want a pair, or a group and an epoch", s.Name, s.Facts)
		}
		switch s.Name {
		case "publish":
			pairs++
			has(t, names[s.Trace], "encoder wait", "encoder work", "encoder publish", "indexer wait", "indexer work", "indexer publish")
		case "grouper work":
			batches++
			has(t, names[s.Trace], "grouper publish", "discriminator wait", "discriminator work", "discriminator publish", "trainer wait", "trainer load", "trainer work", "trainer publish", "compute")
			for _, link := range s.Links {
				has(t, names[link], "encoder work")
			}
			if len(s.Links) == 0 {
				t.Error("a mini-batch does not link to its pairs")
			}
		case "trainer step":
			steps++
			if s.Facts["pairstream.epoch"] != "0" || s.Facts["pairstream.step"] == "" {
				t.Errorf("a step has %v, want its epoch and number", s.Facts)
			}
			if len(s.Links) != 1 || names[s.Links[0]]["grouper work"].Name == "" {
				t.Errorf("a step links to %v, want its mini-batch", s.Links)
			}
		}
	}
	phases := 0
	for _, s := range spans {
		if s.Name == "fetch" || s.Name == "decode" {
			phases++
		}
	}
	if pairs < 5 || batches == 0 || steps != batches || phases < 2 {
		t.Errorf("%d pairs, %d mini-batches, %d steps and %d phases of images are followed", pairs, batches, steps, phases)
	}
	return len(spans)
}

func has(t *testing.T, spans map[string]otlptest.Span, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, ok := spans[name]; !ok {
			t.Errorf("a trace lacks %q", name)
		}
	}
}
