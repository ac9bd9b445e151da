//go:build cgo

package main

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/internal/operate/replay"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
)

// TestEncoderFollowsRanks has an encoder follow the weights of two trainers that share their steps. Rank 0 alone
// publishes them. Each rank is killed once and comes back, and the other one goes on. A replay with one trainer makes
// the same records and weights, with the files of weights and without them.
func TestEncoderFollowsRanks(t *testing.T) {
	if apart(t) {
		return
	}
	const perLane = 8 // pairs of a group
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	in := setUpPipeline(t, 24)
	for variable, value := range map[string]string{
		"ENCODER_CHECKPOINT": "@latest", "GROUP_SIZE": strconv.Itoa(perLane), "CHECKPOINT_EVERY": "1", "STEP_BATCHES": "2", "STREAM_SESSION_TIMEOUT": "1s",
	} {
		t.Setenv(variable, value)
	}
	log, feed := setUpFeed(t, in)
	var others []*process
	for _, name := range []string{"encoder", "indexer", "grouper", "discriminator"} {
		others = append(others, start(t, name))
	}
	r := rand.New(rand.NewPCG(soak.Seed(t, 7), 0))
	const world = 2
	ranks := startGang(t, log, r, world)
	for group := range world {
		feed.publish(t, 2*perLane)                                                  // of two lanes
		awaitFeatures(t, log, 0, int64(4*group+1)+int64(r.IntN(3)), ranks.ranks...) // both have met by then
		time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
		ranks.kill(t, group)
		ranks.bringBack(t, group)
		for lane := range 2 {
			awaitFeatures(t, log, lane, int64(4*(group+1)-1), ranks.ranks...)
		}
	}
	feed.publish(t, -1)
	endOf(t, ranks.ranks)
	for _, p := range others {
		p.stop(t)
	}
	if _, err := os.Stat("/nowhere"); err == nil {
		t.Error("rank 1 has made a folder of its own")
	}
	mustCommand(t, "run-manifest", "--out", in("run.json"))
	m := must.Get(replay.ReadManifest(in("run.json")))(t)
	if len(m.Weights) < 3 {
		t.Errorf("the encoder has used %d weights, want more", len(m.Weights))
	}
	for _, variable := range []string{"CHECKPOINT_DIR", "NAMESPACE", "ENCODER_CHECKPOINT"} { // the manifest has them
		t.Setenv(variable, "")
	}
	for _, name := range []string{"again", "remade"} {
		out := mustCommand(t, "replay", in("run.json"), "--namespace", name, "--checkpoints", in(name))
		if strings.Contains(out, "differ") {
			t.Errorf("replay %s prints\n%s", name, out)
		}
		if a, b := lastCheckpoint(t, in("killed")), lastCheckpoint(t, in(name)); a != b {
			t.Errorf("the original's last checkpoint is %s, that of replay %s %s", a, name, b)
		}
		must.Do(t, os.RemoveAll(weights.Folder(in("killed"))))
	}
}
