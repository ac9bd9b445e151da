//go:build cgo

package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

// gang is the trainers of one model, some of which are lost and started again.
type gang struct {
	env   []string
	ranks []*process
	past  []*process // that were killed
	log   *stream.Log
	draw  *rand.Rand
	feed  func() // publishes more to train on; nil: there is enough
}

func startGang(t *testing.T, log *stream.Log, draw *rand.Rand, world int, env ...string) *gang {
	t.Helper()
	g := &gang{env: append(env, masterPort(t), "LOG_LEVEL=info"), log: log, draw: draw}
	for rank := range world {
		g.ranks = append(g.ranks, startRank(t, rank, world, g.env...))
	}
	return g
}

// train waits until the ranks have trained on, up to a drawn moment. None of them may end.
func (g *gang) train(t *testing.T) {
	t.Helper()
	last := must.Get(g.log.LastSeq(t.Context(), schemas.Features, 0))(t)
	if g.feed != nil {
		g.feed()
	}
	awaitFeatures(t, g.log, 0, last+2+int64(g.draw.IntN(2)), g.ranks...)
	time.Sleep(time.Duration(g.draw.IntN(200)) * time.Millisecond)
}

// kill kills some ranks.
func (g *gang) kill(t *testing.T, lost ...int) {
	t.Helper()
	for _, rank := range lost {
		g.ranks[rank].kill(t)
		g.past = append(g.past, g.ranks[rank])
	}
}

// bringBack starts ranks again. The others are the processes that they were.
func (g *gang) bringBack(t *testing.T, lost ...int) {
	t.Helper()
	for _, rank := range lost {
		g.ranks[rank] = startRank(t, rank, len(g.ranks), g.env...)
	}
}

// stop asks all ranks to end: a member first, and rank 0 when it waits for that one's return, else all in a drawn
// order. All end in order.
func (g *gang) stop(t *testing.T, memberFirst bool) {
	t.Helper()
	if memberFirst {
		g.ranks[1].stop(t)
		for said := ""; strings.Count(said, `msg="a rank is lost`) == strings.Count(said, `msg="the training goes on"`); said = g.ranks[0].log.String() {
			time.Sleep(10 * time.Millisecond)
		}
	}
	for _, rank := range g.draw.Perm(len(g.ranks)) {
		if rank != 1 || !memberFirst {
			must.Check(t, g.ranks[rank].Signal(syscall.SIGTERM))
		}
	}
	endOf(t, g.ranks)
}

// says wants a rank that has ended to have said something.
func (g *gang) says(t *testing.T, rank int, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if said := g.ranks[rank].log.String(); !strings.Contains(said, want) {
			t.Errorf("rank %d of %d says %s: want %q in it", rank, len(g.ranks), said, want)
		}
	}
}

// tell prints for how long training stood still at each loss, as rank 0 says. All have ended.
func (g *gang) tell(t *testing.T) {
	t.Helper()
	for _, p := range append(g.past, g.ranks[0]) {
		for line := range strings.Lines(p.log.String()) {
			if strings.Contains(line, "the training goes on\"") {
				t.Logf("%d ranks: %s", len(g.ranks), strings.TrimSpace(line))
			}
		}
	}
}

// TestRanksKilled kills ranks, any of them, at moments that a seed draws, and starts them again. The others are the
// same processes to the end, and go on when all are there. One is lost while the others wait for another one. What
// comes out is that of one process, and so is its replay.
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
	in := setUpPipeline(t, 8)
	// Training goes on at the machine's speed, and waits for the next of these. So it never ends before the last loss.
	const portions = 8
	mustCommand(t, "synth", in("portions"), "--scenes", strconv.Itoa(18*portions), "--side", "48", "--per-shard", "18")
	fed := 0
	feed := func() {
		t.Helper()
		mustCommand(t, "produce", in(fmt.Sprintf("portions/%05d.tar", fed)))
		fed++
	}
	t.Setenv("STEP_BATCHES", "4")
	t.Setenv("CHECKPOINT_EVERY", "2")
	t.Setenv("TRAIN_LANE_ORDER", "arrival")
	for variable, value := range settings {
		t.Setenv(variable, value)
	}
	t.Setenv("NAMESPACE", name)
	t.Setenv("CHECKPOINT_DIR", in("killed"))
	log := openNamespace(t)
	var others []*process
	for _, name := range []string{"encoder", "indexer", "grouper", "discriminator"} {
		others = append(others, start(t, name))
	}
	draw := rand.New(rand.NewPCG(soak.Seed(t, 3), 0))
	for _, world := range []int{4, 2} {
		g := startGang(t, log, draw, world)
		g.feed = feed
		g.train(t)
		member, other := 1+draw.IntN(world-1), draw.IntN(world)
		g.kill(t, member)
		g.bringBack(t, member)
		g.train(t)
		g.kill(t, 0)
		g.bringBack(t, 0)
		g.train(t)
		g.kill(t, other) // and another one while the ranks join one another
		time.Sleep(time.Duration(draw.IntN(200)) * time.Millisecond)
		g.bringBack(t, other)
		time.Sleep(time.Duration(draw.IntN(1000)) * time.Millisecond)
		again := (other + 1) % world
		g.kill(t, again)
		g.bringBack(t, again)
		g.train(t)
		g.stop(t, world == 2)
		for rank := range world {
			if rank != 0 && rank != member && rank != other && rank != again {
				g.says(t, rank, "a rank is lost: this one keeps its state", fmt.Sprintf("rank %d (127.0.0.1:", member), "is lost")
			}
		}
		g.tell(t)
	}
	if fed != portions {
		t.Errorf("%d of %d portions were published", fed, portions)
	}
	mustCommand(t, "seal", "--final")
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

// TestARankIsStopped asks one rank to end, and holds another one up. The others keep their state. They go on when a
// rank has come in its place, or when the one that was held up goes on. One with other settings is refused meanwhile.
func TestARankIsStopped(t *testing.T) {
	if apart(t) {
		return
	}
	log, in := scoredLog(t, 20)
	want := trainedOutcome(t, log, in("one"))
	folder := in("stopped")
	t.Setenv("CHECKPOINT_DIR", folder)
	copied := copyScored(t, log, "stopped")
	g := startGang(t, copied, rand.New(rand.NewPCG(soak.Seed(t, 5), 0)), 4, "RANK_TIMEOUT=10s")
	g.train(t)
	g.ranks[1].stop(t)
	strange := startRank(t, 1, 4, append(g.env, "LR=2e-4")...)
	if <-strange.done; strange.err == nil || !strings.Contains(strange.log.String(), "LR is 0.0002 on rank 1 and 0.0001 on rank 0: want one value on all ranks") {
		t.Errorf("%v, %s", strange.err, strange.log)
	}
	g.bringBack(t, 1)
	g.train(t)
	for _, rank := range []int{2, 0} {
		must.Do(t, g.ranks[rank].Signal(syscall.SIGSTOP))
		time.Sleep(12 * time.Second) // more than RANK_TIMEOUT: nobody else says that it is over
		must.Do(t, g.ranks[rank].Signal(syscall.SIGCONT))
		g.train(t)
	}
	endOf(t, g.ranks)
	g.says(t, 3, "rank 1 has ended: it was stopped", "rank 2 (127.0.0.1:", "rank 0 (127.0.0.1:", "nothing was heard of it for 10s (RANK_TIMEOUT)")
	g.tell(t)
	compare(t, "stopped again and again", &want, trainedOutcome(t, copied, folder))
}

// TestARankStaysAway loses a rank that does not come back. Rank 0 ends with a checkpoint of the last whole step and
// names it. The others wait for rank 0, and end as well.
func TestARankStaysAway(t *testing.T) {
	if apart(t) {
		return
	}
	log, in := scoredLog(t, 20)
	want := trainedOutcome(t, log, in("one"))
	folder := in("away")
	t.Setenv("CHECKPOINT_DIR", folder)
	t.Setenv("CHECKPOINT_EVERY", "0")
	copied := copyScored(t, log, "away")
	g := startGang(t, copied, rand.New(rand.NewPCG(soak.Seed(t, 5), 0)), 4, "RANK_JOIN_TIMEOUT=20s")
	awaitFeatures(t, copied, 0, 5, g.ranks...) // of a whole step at least
	g.kill(t, 2)
	for _, rank := range []int{0, 1, 3} {
		if <-g.ranks[rank].done; g.ranks[rank].err == nil {
			t.Errorf("rank %d has ended in order without rank 2", rank)
		}
	}
	g.says(t, 0, "rank 2 (127.0.0.1:", "rank 2 did not come to 127.0.0.1:", "within 20s (RANK_JOIN_TIMEOUT)")
	g.says(t, 1, "rank 2 did not come to", "rank 0 was not to be reached at 127.0.0.1:")
	checkpoints(t, folder)
	endOf(t, startRanks(t, 2))
	compare(t, "a rank stayed away", &want, trainedOutcome(t, copied, folder))
}
