//go:build cgo

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func TestChecksAreSaid(t *testing.T) {
	on, off := &schemas.Check{Positives: 288, AUC: 0.75, Least: 0.55}, &schemas.Check{Positives: 257, AUC: 0.5, Least: 0.55}
	open := &schemas.Check{Positives: 48, AUC: 0.75, Least: 0.55, Open: true}
	measured := &schemas.Check{Positives: 288, AUC: 0.97, Least: 0.4, Precision: &schemas.Precision{Above: 0.8, Value: 0.72, Low: 0.49, High: 0.83, Candidates: 1152, Negatives: 1000}}
	for name, c := range map[string]struct {
		all  checks
		want []string
	}{
		"no guard":  {checks{nil, nil}, nil},
		"on":        {checks{on, nil}, []string{"AUC 0.750 on 288 known positives of lane 0: connections are on"}},
		"precision": {checks{measured}, []string{"72 % of the connections of lane 0 are true (49 to 83 %), by 1152 of the hardest candidates: connections are on"}},
		"mixed": {checks{on, off}, []string{
			"AUC 0.750 on 288 known positives of lane 0: connections are on", "AUC 0.500 on 257 known positives of lane 1: connections are off", off.String(),
		}},
		"too few": {checks{open}, []string{"AUC 0.750 on 48 known positives of lane 0: connections are off", open.String()}},
	} {
		if got := c.all.lines(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestGuardSwitchesConnectionsOff runs the stages with a Con-D that has learned next to nothing. Nobody would trust it
// by a bound of 0.99, so no batch has candidates, and status says why and what to do.
func TestGuardSwitchesConnectionsOff(t *testing.T) {
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	t.Setenv("NAMESPACE", "guarded")
	in := setUpPipeline(t, 140)
	for name, value := range map[string]string{"CHECKPOINT_DIR": in("checkpoints"), "COND_MIN_PRECISION": "0.99", "LANES": "1", "GROUP_SIZE": "1000", "BATCH_SIZE": "10", "QUEUE_SIZE": "20", "SEARCH_SPACE": "20"} {
		t.Setenv(name, value)
	}
	mustCommand(t, "produce", in("scenes"), "--final")
	log := openNamespace(t)
	judgeAll(t, log, os.Getenv("COND_CHECKPOINT"), 40)
	mustCommand(t, "up")
	all, err := readChecks(t.Context(), log)
	if err != nil || len(all) != 1 || all[0] == nil || all[0].Open || !all[0].Off() || all[0].Positives < 256 {
		t.Fatalf("the guard says %+v, %v", all, err)
	}
	if p := all[0].Precision; p.Judged != 40 || p.Right != 20 {
		t.Errorf("the guard counts %d of %d judgements, want 20 of 40", p.Right, p.Judged)
	}
	batches := 0
	for b, err := range stream.Values[*schemas.ScoredBatch](t.Context(), log, schemas.Scored, 0) {
		must.Do(t, err)
		batches++
		if b.M != 0 || b.Check == nil {
			t.Errorf("batch %d of epoch %d has %d candidates and says %+v", b.Sequence, b.Epoch, b.M, b.Check)
		}
	}
	if batches < 28 {
		t.Errorf("%d batches were scored, want two epochs of 14", batches)
	}
	if out := mustCommand(t, "status"); !strings.Contains(out, "connections are off. Train Con-D longer") {
		t.Errorf("status does not say why connections are off:\n%s", out)
	}
	mustCommand(t, "run-manifest", "--out", in("run.json"))
	mustCommand(t, "replay", in("run.json"), "--namespace", "again", "--data", in(".")) // in which nobody has judged anything
}

// judgeAll publishes what a person says of so many connections: every other one is a match.
func judgeAll(t *testing.T, log *stream.Log, cond string, n int) {
	t.Helper()
	must.Do(t, log.EnsureTopics(t.Context()))
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Device: "cpu", Threads: 1}))(t)
	defer w.Close()
	m := must.Get(model.OpenMatcher(t.Context(), w, cond))(t)
	defer m.Free()
	p := log.NewPublisher(stream.PublisherOptions{Name: "console"})
	for i := range n {
		j := &schemas.Judgement{
			Image: schemas.PairID{1}, Text: schemas.PairID{2, byte(i)}, Probability: 0.9, Sample: schemas.SampleRandom,
			Verdict: schemas.VerdictMatch, Model: m.Fingerprint(),
		}
		if i%2 == 0 {
			j.Verdict = schemas.VerdictNoMatch
		}
		must.Do(t, p.Publish(t.Context(), schemas.Judgements, 0, j))
	}
	must.Do(t, p.Close(t.Context()))
}
