//go:build cgo

package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

// ofQueue are the settings of a recipe with momentum encoder, queue and soft targets, as ALBEF and TCL have them.
var ofQueue = map[string]string{
	"MOMENTUM": "true", "MOMENTUM_QUEUE": "16", "ITC_TARGETS": "distilled", "ITC_ALPHA_RAMP_STEPS": "5", "ITC_TRIPLE": "true", "MLM_DISTILL": "0.4",
	"ITM_NEGATIVES": "multinomial", "ECM_ITC": "false", "ECM_ITM": "false", "ECM_MLM": "false",
}

// startRanks starts the trainers of one model, each as a process of its own.
func startRanks(t *testing.T, world int, env ...string) (ranks []*process) {
	t.Helper()
	port := masterPort(t)
	for rank := range world {
		own := []string{"RANK=" + strconv.Itoa(rank), "WORLD_SIZE=" + strconv.Itoa(world), port, "RANK_TOKEN=a secret of this test"}
		if rank > 0 {
			own = append(own, "CHECKPOINT_DIR=/nowhere", "TRAIN_INIT=/nowhere") // rank 0 has both
		}
		ranks = append(ranks, start(t, "trainer", append(own, env...)...))
	}
	return ranks
}

// masterPort returns MASTER_PORT with a port that is free.
func masterPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	if err := to.EnsureTopics(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := to.NewPublisher(stream.PublisherOptions{})
	for lane := range from.Config().Lanes {
		for rec, err := range from.Records(t.Context(), schemas.Scored, lane, stream.Position{}, -1) {
			if err != nil {
				t.Fatal(err)
			}
			value, err := schemas.Unmarshal(rec.Schema, rec.Value)
			if err == nil {
				err = p.PublishSeq(t.Context(), schemas.Scored, lane, rec.Seq, stream.Mark{}, value)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return to
}

// trainedOutcome returns what trainers leave behind: digests of features, the progress without what the clock says, and the last
// checkpoint.
func trainedOutcome(t *testing.T, log *stream.Log, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for lane := range log.Config().Lanes {
		digest, err := log.Digest(t.Context(), schemas.Features, lane, stream.Position{}, -1)
		if err != nil {
			t.Fatal(err)
		}
		found[fmt.Sprint("features, lane ", lane)] = fmt.Sprintf("%d records %s", digest.Records, digest.Sum())
	}
	for rec, err := range log.Records(t.Context(), schemas.ProgressLog, 0, stream.Position{}, -1) {
		if err != nil {
			t.Fatal(err)
		}
		value, err := schemas.Unmarshal(rec.Schema, rec.Value)
		if err != nil {
			t.Fatal(err)
		}
		p := value.(*schemas.Progress)
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

// TestRanksTrainTheSameModel trains on the same batches with one, two, four and once eight processes. Features, progress and the whole
// last checkpoint are equal, bit for bit.
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

// TestRanksKilled kills a rank, any of them, at moments that a seed draws, and goes on with another number of ranks. The
// others end by themselves and name it. What comes out is that of one process, and so is its replay.
func TestRanksKilled(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	for name, gather := range map[string]string{"killed": "false", "killed-gathered": "true"} {
		t.Run(name, func(t *testing.T) {
			settings := maps.Clone(ofQueue)
			settings["ITC_GATHER"] = gather
			ranksKilled(t, name, settings)
		})
	}
}

func ranksKilled(t *testing.T, name string, settings map[string]string) {
	in := setUpPipeline(t, 24)
	t.Setenv("STEP_BATCHES", "4")
	t.Setenv("CHECKPOINT_EVERY", "2")
	t.Setenv("TRAIN_LANE_ORDER", "arrival")
	for variable, value := range settings {
		t.Setenv(variable, value)
	}
	t.Setenv("NAMESPACE", name)
	t.Setenv("CHECKPOINT_DIR", in("killed"))
	mustCommand(t, "produce", in("scenes"), "--final")
	log := openNamespace(t)
	var others []*process
	for _, name := range []string{"encoder", "indexer", "grouper", "discriminator"} {
		others = append(others, start(t, name))
	}
	r := rand.New(rand.NewPCG(soak.Seed(t, 3), 0))
	for _, world := range []int{2, 4, 2} {
		last, err := log.LastSeq(t.Context(), schemas.Features, 0)
		if err != nil {
			t.Fatal(err)
		}
		ranks := startRanks(t, world)
		awaitFeatures(t, log, 0, last+2+int64(r.IntN(2))) // new ones: all ranks are there
		time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
		lost := r.IntN(world)
		ranks[lost].kill(t)
		for rank, p := range ranks {
			if rank == lost {
				continue
			}
			<-p.done
			if said := p.log.String(); p.err == nil || !strings.Contains(said, fmt.Sprintf("rank %d (127.0.0.1:", lost)) || !strings.Contains(said, "is lost") {
				t.Errorf("rank %d of %d, after rank %d was killed: %v, %s", rank, world, lost, p.err, said)
			}
		}
	}
	endOf(t, startRanks(t, 2))
	for _, p := range others {
		p.stop(t)
	}
	want := trainedOutcome(t, log, in("killed"))

	mustCommand(t, "run-manifest", "--out", in("run.json"))
	for variable := range settings { // all that a replay needs is in the manifest
		t.Setenv(variable, "")
	}
	t.Setenv("CHECKPOINT_DIR", "")
	out := mustCommand(t, "replay", in("run.json"), "--namespace", name+"-again", "--checkpoints", in("again"))
	if strings.Contains(out, "differ") || strings.Contains(out, "WORLD_SIZE") {
		t.Errorf("replay prints\n%s", out)
	}
	t.Setenv("NAMESPACE", name+"-again")
	got := trainedOutcome(t, openNamespace(t), in("again"))
	compare(t, "the replay", &want, got)
}
