//go:build cgo

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestGuardSwitchesConnectionsOff runs the stages with a Con-D that has learned next to nothing. Nobody would trust it
// by a bound of 0.99, so no batch has candidates, and status says why and what to do.
func TestGuardSwitchesConnectionsOff(t *testing.T) {
	if apart(t) {
		return
	}
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
	all, err := inspect.ReadChecks(t.Context(), log)
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
