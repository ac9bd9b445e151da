//go:build cgo

package main

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// ofQueue are the settings of a recipe with momentum encoder, queue and soft targets, as ALBEF and TCL have them.
var ofQueue = map[string]string{
	"MOMENTUM_DECAY": "0.995", "MOMENTUM_QUEUE": "16", "ITC_TARGETS": "distilled", "ITC_ALPHA_RAMP_STEPS": "5", "ITC_LOSS": "triple", "MLM_DISTILL": "0.4",
	"ITM_NEGATIVES": "multinomial", "ECM_LOSSES": "none",
}

// startRanks starts the trainers of one model, each as a process of its own.
func startRanks(t *testing.T, world int, env ...string) (ranks []*process) {
	t.Helper()
	port := masterPort(t)
	for rank := range world {
		ranks = append(ranks, startRank(t, rank, world, append([]string{port}, env...)...))
	}
	return ranks
}

// startRank starts one of the trainers of a model.
func startRank(t *testing.T, rank, world int, env ...string) *process {
	t.Helper()
	own := []string{"RANK=" + strconv.Itoa(rank), "WORLD_SIZE=" + strconv.Itoa(world), "RANK_TOKEN=a secret of this test"}
	own = append(own, "NCCL_HOSTID=rank"+strconv.Itoa(rank)) // so that ranks may share a GPU
	if rank > 0 {
		own = append(own, "CHECKPOINT_DIR=/nowhere", "TRAIN_INIT=/nowhere") // rank 0 has both
	}
	return start(t, "trainer", append(own, env...)...)
}

// masterPort returns MASTER_PORT with a port that is free.
func masterPort(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return "MASTER_PORT=" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// endOf waits until all ranks have ended by themselves, without an error.
func endOf(t *testing.T, ranks []*process) {
	t.Helper()
	for rank, p := range ranks {
		if <-p.done; p.err != nil {
			t.Errorf("rank %d of %d: %v\n%s", rank, len(ranks), p.err, p.log)
		}
	}
}

// copyScored makes a namespace that has the scored batches of another one, for trainers alone.
func copyScored(t *testing.T, from *stream.Log, namespace string) *stream.Log {
	t.Helper()
	t.Setenv("NAMESPACE", namespace)
	to := openNamespace(t)
	must.Do(t, to.EnsureTopics(t.Context()))
	p := to.NewPublisher(stream.PublisherOptions{})
	for lane := range from.Config().Lanes {
		for rec, err := range from.Records(t.Context(), schemas.Scored, lane, stream.Position{}, -1) {
			must.Do(t, err)
			value, err := schemas.Unmarshal(rec.Schema, rec.Value)
			if err == nil {
				err = p.PublishSeq(t.Context(), schemas.Scored, lane, rec.Seq, stream.Mark{}, value)
			}
			must.Do(t, err)
		}
	}
	must.Do(t, p.Close(t.Context()))
	return to
}

// trainedOutcome returns what trainers leave behind: digests of features, the progress without what the clock says, and
// the last checkpoint.
func trainedOutcome(t *testing.T, log *stream.Log, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for lane := range log.Config().Lanes {
		digest := must.Get(log.Digest(t.Context(), schemas.Features, lane, stream.Position{}, -1))(t)
		found[fmt.Sprint("features, lane ", lane)] = fmt.Sprintf("%d records %s", digest.Records, digest.Sum())
	}
	for p, err := range stream.Values[*schemas.Progress](t.Context(), log, schemas.ProgressLog, 0) {
		must.Do(t, err)
		delete(p.Values, "pairs_per_second")
		if p.Kind == "step" { // again after a kill, with the same values
			found[fmt.Sprint("progress of step ", p.Step)] += fmt.Sprintln(p.Values)
		}
	}
	for name, lines := range found {
		if strings.HasPrefix(name, "progress") {
			found[name] = strings.Join(slices.Compact(strings.SplitAfter(lines, "\n")), "")
		}
	}
	found["checkpoint"] = lastCheckpoint(t, folder)
	return found
}

// TestRanksTrainTheSameModel trains on the same batches with one, two, four and once eight processes. Features,
// progress and the whole last checkpoint are equal, bit for bit.
func TestRanksTrainTheSameModel(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	gathered := maps.Clone(ofQueue)
	gathered["ITC_GATHER"] = "true"
	gpns := map[string]string{
		"RECIPE": "gpn-s", "STRATEGY": "gns", "CLUSTERS": "4", "GNS_CLUSTERS": "1", "NEIGHBORS_K2": "10", "NOUN_MIN_COUNT": "1", "MOMENTUM_QUEUE": "16",
		"ITC_ALPHA_RAMP_STEPS": "5",
	}
	for name, settings := range map[string]map[string]string{
		"mafa": {}, "gpn-s": gpns, "queue": ofQueue, "encoded-again": {"GRIT_FEATURES": "current"}, "gathered": {"ITC_GATHER": "true"}, "gathered-queue": gathered,
		"gathered-and-again": {"ITC_GATHER": "true", "GRIT_FEATURES": "current"}, "eight": {"STEP_BATCHES": "8"},
	} {
		t.Run(name, func(t *testing.T) {
			in := setUpPipeline(t, 20)
			t.Setenv("STEP_BATCHES", "4")
			for variable, value := range settings {
				t.Setenv(variable, value)
			}
			t.Setenv("NAMESPACE", name+"-one")
			t.Setenv("CHECKPOINT_DIR", in("one"))
			mustCommand(t, "produce", in("scenes"), "--final")
			mustCommand(t, "up")
			log := openNamespace(t)
			want := trainedOutcome(t, log, in("one"))
			if len(want) < 4 {
				t.Fatalf("too little to compare: %v", slices.Collect(maps.Keys(want)))
			}
			worlds := []int{2, 4}
			if name == "eight" {
				worlds = []int{8}
			}
			for _, world := range worlds {
				folder := in(fmt.Sprint("of-", world))
				t.Setenv("CHECKPOINT_DIR", folder)
				copied := copyScored(t, log, fmt.Sprint(name, "-of-", world))
				endOf(t, startRanks(t, world))
				compare(t, fmt.Sprint(world, " ranks"), &want, trainedOutcome(t, copied, folder))
			}
		})
	}
}
