//go:build cgo

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestArrivalIsReplayedAfterKills trains in the order of arrival. One lane is late, and the trainer is killed again
// and again. A replay, in one process and undisturbed, makes the same records and the same weights bit for bit.
func TestArrivalIsReplayedAfterKills(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	in := setUpPipeline(t, 28)
	t.Setenv("TRAIN_LANE_ORDER", "arrival")
	t.Setenv("LR_SCHEDULE", "stream")
	t.Setenv("CHECKPOINT_EVERY", "4")

	log, feed := setUpFeed(t, in)
	var others []*process
	for _, name := range []string{"encoder", "indexer", "grouper", "discriminator"} {
		others = append(others, start(t, name))
	}
	trainer := start(t, "trainer")
	late := feed.lanes[1]
	feed.lanes[1] = late[:1] // it keeps one back
	feed.publish(t, 2*len(feed.lanes[0]))
	for _, steps := range []int64{3, 6} { // of lane 0 alone
		awaitFeatures(t, log, 0, steps)
		trainer.kill(t)
		trainer = start(t, "trainer")
	}
	feed.lanes[1] = late
	feed.publish(t, -1)
	awaitFeatures(t, log, 1, 2)
	trainer.kill(t)
	trainer = start(t, "trainer")
	if <-trainer.done; trainer.err != nil {
		t.Errorf("trainer: %v\n%s", trainer.err, trainer.log)
	}
	for _, p := range others {
		p.stop(t)
	}

	lanes := trained(t, log)
	if len(lanes) < 8 || slices.Contains(lanes[:6], 1) {
		t.Errorf("steps were made on lanes %v, want lane 1 to come later", lanes)
	}
	mustCommand(t, "run-manifest", "--out", in("run.json"))
	for _, name := range []string{"TRAIN_LANE_ORDER", "LR_SCHEDULE", "CHECKPOINT_DIR", "NAMESPACE"} {
		t.Setenv(name, "")
	}
	out := mustCommand(t, "replay", in("run.json"), "--namespace", "again", "--checkpoints", in("again"))
	if strings.Contains(out, "differ") {
		t.Errorf("replay prints\n%s", out)
	}
	if a, b := lastCheckpoint(t, in("killed")), lastCheckpoint(t, in("again")); a != b {
		t.Errorf("the original's last checkpoint is %s, the replay's %s", a, b)
	}
}

// awaitFeatures waits until a lane has that many blocks, as long as none of the processes has ended.
func awaitFeatures(t *testing.T, log *stream.Log, lane int, blocks int64, from ...*process) {
	t.Helper()
	for {
		last := must.Get(log.LastSeq(t.Context(), schemas.Features, lane))(t)
		if last+1 >= blocks {
			return
		}
		for _, p := range from {
			select {
			case <-p.done:
				t.Fatalf("%s has ended: %v\n%s", p.name, p.err, p.log)
			default:
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// trained returns the lane of every step, as the features tell.
func trained(t *testing.T, log *stream.Log) []int {
	t.Helper()
	lanes := make(map[int64]int)
	for lane := range log.Config().Lanes {
		for block, err := range stream.Values[*schemas.FeatureBlock](t.Context(), log, schemas.Features, lane) {
			must.Do(t, err)
			lanes[block.Step] = lane
		}
	}
	order := make([]int, len(lanes))
	for step, lane := range lanes {
		if step >= int64(len(order)) {
			t.Fatalf("step %d of %d", step, len(order))
		}
		order[step] = lane
	}
	return order
}

func lastCheckpoint(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "checkpoint-*.safetensors"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no checkpoint in %s (%v)", dir, err)
	}
	return checkpointDigest(t, files[len(files)-1])
}
