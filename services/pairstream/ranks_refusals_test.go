//go:build cgo

package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// scoredLog runs a pipeline and returns its log, whose scored batches the ranks of a test may train on.
func scoredLog(t *testing.T, scenes int) (log *stream.Log, in func(string) string) {
	t.Helper()
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	in = setUpPipeline(t, scenes)
	t.Setenv("STEP_BATCHES", "4")
	t.Setenv("NAMESPACE", "one")
	t.Setenv("CHECKPOINT_DIR", in("one"))
	mustCommand(t, "produce", in("scenes"), "--final")
	mustCommand(t, "up")
	return openNamespace(t), in
}

// TestRanksThatCannotTrain starts ranks that have no training to take part in. Each says why: a rank with other
// settings, or another secret, and rank 0 when another one never comes. Nothing is written.
func TestRanksThatCannotTrain(t *testing.T) {
	if apart(t) {
		return
	}
	log, in := scoredLog(t, 10)
	t.Setenv("CHECKPOINT_DIR", in("none"))
	copied := copyScored(t, log, "refused")
	port := masterPort(t)
	says := func(p *process, want string) {
		t.Helper()
		if <-p.done; p.err == nil || !strings.Contains(p.log.String(), want) {
			t.Errorf("%v, %s: want %q", p.err, p.log, want)
		}
	}
	first := start(t, "trainer", "RANK=0", "WORLD_SIZE=2", port, "RANK_TOKEN=ours")
	for setting, want := range map[string]string{
		"LR=2e-4":           "LR is 0.0002 on rank 1 and 0.0001 on rank 0: want one value on all ranks",
		"SEED=4":            "SEED is 4 on rank 1 and 3 on rank 0",
		"TORCH_THREADS=2":   "TORCH_THREADS is 2 on rank 1 and 1 on rank 0",
		"NAMESPACE=another": "NAMESPACE is another on rank 1 and refused on rank 0",
		"RANK_TOKEN=theirs": "RANK_TOKEN differs",
		"WORLD_SIZE=4":      "WORLD_SIZE is 4 on rank 1 and 2 on rank 0",
	} {
		says(start(t, "trainer", "RANK=1", "WORLD_SIZE=2", port, "RANK_TOKEN=ours", setting), want)
	}
	first.stop(t)
	says(start(t, "trainer", "RANK=0", "WORLD_SIZE=2", port, "RANK_JOIN_TIMEOUT=1s"), "rank 1 did not come to 127.0.0.1:")
	says(start(t, "trainer", "RANK=1", "WORLD_SIZE=2", port, "RANK_JOIN_TIMEOUT=1s"), "rank 0 was not to be reached at 127.0.0.1:")
	says(start(t, "trainer", "RANK=0", "WORLD_SIZE=8", port), "WORLD_SIZE is 8, want 1, 2, 4 or another power of two, up to STEP_BATCHES=4")
	if last, err := copied.LastSeq(t.Context(), schemas.Features, 0); err != nil || last != -1 {
		t.Errorf("features up to %d, %v", last, err)
	}
	if files, err := filepath.Glob(filepath.Join(in("none"), "*")); err != nil || len(files) > 0 {
		t.Errorf("%v in CHECKPOINT_DIR, %v", files, err)
	}
}

// TestImagesLostOnOneRank trains with two ranks of which the second finds no image. Its samples are masked. One process
// that repeats the steps, and finds them all, keeps to the masks, and so do four. The weights are equal.
func TestImagesLostOnOneRank(t *testing.T) {
	if apart(t) {
		return
	}
	log, in := scoredLog(t, 10)
	copied := copyScored(t, log, "lost")
	t.Setenv("CHECKPOINT_DIR", in("two"))
	port := masterPort(t)
	endOf(t, []*process{
		start(t, "trainer", "RANK=0", "WORLD_SIZE=2", port),
		start(t, "trainer", "RANK=1", "WORLD_SIZE=2", port, "BUCKET_ROOTS=file://"+t.TempDir()),
	})
	masked, batches := 0, 0
	for lane := range copied.Config().Lanes {
		for b, err := range stream.Values[*schemas.FeatureBlock](t.Context(), copied, schemas.Features, lane) {
			must.Do(t, err)
			batches++
			if second := b.Step%4 >= 2; len(b.Masked) > 0 != second {
				t.Errorf("batch %d has masks %v", b.Step, b.Masked)
			} else if second {
				masked++
			}
		}
	}
	if masked < 4 || batches-masked < 4 {
		t.Errorf("%d of %d batches are masked: too few to tell", masked, batches)
	}
	want := lastCheckpoint(t, in("two"))
	for _, world := range []int{1, 4} {
		t.Setenv("CHECKPOINT_DIR", in(strconv.Itoa(world)))
		endOf(t, startRanks(t, world))
		if got := lastCheckpoint(t, in(strconv.Itoa(world))); got != want {
			t.Errorf("%d ranks repeat the steps and get %s, want %s", world, got, want)
		}
	}
}
