//go:build cgo

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// TestBootstrapUntilItIsGood trains twice from the same seed, and measures the weights. They are the same bytes. `eval
// --cond` shows their card, and what is true of generated scenes.
func TestBootstrapUntilItIsGood(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("TORCH_THREADS", "1")
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	o := scenes.Defaults()
	o.Scenes, o.Side, o.Captions, o.Kinds = 44, 32, 1, scenes.Kinds{Shapes: 2, Colours: 2, Plain: true, Large: true}
	must.Do(t, scenes.WriteDir(t.Context(), in("scenes"), o, nil))
	train := func(out string, more ...string) string {
		return mustCommand(t, append([]string{
			"bootstrap", in("scenes"), "--preset", "micro", "--batch", "4", "--slice", "1", "--max-steps", "12", "--check", "20", "--out", in(out),
		}, more...)...)
	}
	said := train("w.safetensors", "--base-rate", "0.05")
	for _, want := range []string{
		"bootstrapping micro on 24 images with 24 captions in steps of 4, checked on 20 other images\n",
		"step     8  random    AUC on hard pairs ", "; at most 4 steps are left\n", "step    12  settling  AUC", "card: 24 images with 24 captions, 12 steps of 4: 8 random (",
		"the first phase ended with most steps", "true are, it is assumed, 5.0 % of the hard pairs", "calibrated at a base rate of 5.0 %",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it says\n%s\nwithout %q", said, want)
		}
	}
	train("again.safetensors", "--base-rate", "0.05")
	read := func(name string) []byte {
		raw := must.Get(os.ReadFile(in(name)))(t)
		return raw
	}
	if !bytes.Equal(read("w.safetensors"), read("again.safetensors")) {
		t.Error("the same seed gives other bytes")
	}
	train("bare.safetensors")

	var report condEvaluation
	evalCond := func(name string) string {
		must.Do(t, json.Unmarshal([]byte(mustCommand(t, "eval", "--cond", "--json", "--checkpoint", in(name), "--holdout", "20", in("scenes"))), &report))
		return mustCommand(t, "eval", "--cond", "--checkpoint", in(name), "--holdout", "20", in("scenes"))
	}
	said = evalCond("w.safetensors")
	if !report.Counted || report.Calibration == nil || report.Card == nil || report.Card.Steps != 12 || report.Above[0].Recall == nil {
		t.Errorf("%+v, want the truth counted, a calibration and a card", report.CondReport)
	}
	if !strings.Contains(said, "of the hard pairs, counted") || !strings.Contains(said, "card: 24 images") {
		t.Errorf("eval --cond says\n%s", said)
	}
	report = condEvaluation{}
	if said = evalCond("bare.safetensors"); report.Calibration != nil || !strings.Contains(said, "not calibrated") {
		t.Errorf("without --base-rate: calibration %+v\n%s", report.Calibration, said)
	}
	mustCommand(t, "bootstrap", in("scenes"), "--preset", "micro", "--steps", "1", "--batch", "4", "--out", in("fixed.safetensors"))
	report = condEvaluation{}
	if said = evalCond("fixed.safetensors"); report.Card != nil || !strings.Contains(said, "the checkpoint has no card") {
		t.Errorf("--steps 1: card %+v\n%s", report.Card, said)
	}
	for _, args := range [][]string{{"--cond", "--vision"}, {"--cond", "--rerank", "3"}} {
		if _, err := command(t, append([]string{"eval", in("scenes"), "--checkpoint", in("w.safetensors")}, args...)...); err == nil {
			t.Errorf("eval takes %q", args)
		}
	}
}

// Of tars that are no generated scenes nobody knows the truth.
func TestTheTruthOfOtherTarsIsNotKnown(t *testing.T) {
	holds, err := truthOf(t.Context(), []string{"../../internal/crawl/shard/testdata/tars"}, nil)
	if err != nil || holds != nil {
		t.Errorf("the truth is known: %t, %v", holds != nil, err)
	}
}

// The time that is left is that of the steps since the first check.
func TestChecksSayWhatIsLeft(t *testing.T) {
	var out bytes.Buffer
	clock := time.Unix(0, 0)
	report := checkReporter(&out, func() time.Time { return clock })
	for _, c := range []bootstrap.Check{
		{Step: 250, Phase: bootstrap.Learn, HardAUC: 0.5, Best: 0.5, Left: 750},
		{Step: 500, Phase: bootstrap.Harden, HardAUC: 0.7512, Best: 0.8, Left: 500},
		{Step: 1000, Phase: bootstrap.Settle, HardAUC: 0.9, Best: 0.9},
	} {
		report(c)
		clock = clock.Add(50 * time.Second)
	}
	want := "step   250  random    AUC on hard pairs 0.500, best 0.500; at most 750 steps are left\n" +
		"step   500  hard      AUC on hard pairs 0.751, best 0.800; at most 500 steps are left, 1m40s\n" +
		"step  1000  settling  AUC on hard pairs 0.900, best 0.900\n"
	if out.String() != want {
		t.Errorf("%q, want\n%q", out.String(), want)
	}
}
