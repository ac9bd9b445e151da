//go:build cgo

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
)

// TestEpochsAfterKills runs each way to go through epochs three times: undisturbed, with the grouper and the trainer
// killed again and again, and as a replay of that. Records and weights are the same.
func TestEpochsAfterKills(t *testing.T) {
	besideOthers(t)
	for name, settings := range map[string]map[string]string{
		"one epoch": {
			"EPOCHS": "1", "GROUP_SIZE": "8", "STRATEGY": "random", "TEXTS": "curriculum:4",
			"MOMENTUM_DECAY": "0.995", "MOMENTUM_QUEUE": "8", "ITC_TARGETS": "distilled", "ITC_LOSS": "triple", "ITC_ALPHA_RAMP_STEPS": "4", // TCL
		},
		"stream schedule": {"LR_SCHEDULE": "stream", "GROUP_SIZE": "12", "ITC_SOFT_FROM_EPOCH": "1", "AUGMENT_OPS": "3,10"},
		"lane by lane": {
			"EPOCH_GROUPS": "3", "GROUP_SIZE": "8", "EPOCHS": "4", "TEXTS": "curriculum", "LR_SCHEDULE": "stream",
		},
		"as released code": {
			"ECM_LOSSES": "none", "SAME_IMAGE_NEGATIVES": "true", "GRIT_FEATURES": "unshuffled",
			"ITM_NEGATIVES": "random",
		},
		"jest":          {"STRATEGY": "jest:0.5", "GROUP_SIZE": "12", "EPOCHS": "3", "LR_SCHEDULE": "stream"},
		"b3":            {"STRATEGY": "b3:2", "GROUP_SIZE": "12", "EPOCHS": "2", "LR_SCHEDULE": "stream"},
		"encoded again": {"GRIT_FEATURES": "current", "EPOCHS": "3", "STEP_BATCHES": "2"},
		"four batches a step": {
			"STEP_BATCHES": "4", "LR_SCHEDULE": "stream", "MOMENTUM_DECAY": "0.995", "MOMENTUM_QUEUE": "16", "CHECKPOINT_EVERY": "1",
			"ITC_TARGETS": "distilled", "MLM_DISTILL": "0.4", "ITC_ALPHA": "0.4", "ITC_ALPHA_RAMP_STEPS": "3", "ITM_NEGATIVES": "multinomial", // ALBEF
		},
	} {
		t.Run(name, func(t *testing.T) {
			if apart(t) {
				return
			}
			t.Setenv("KAFKA_BROKERS", startBroker(t))
			in := setUpPipeline(t, 24)
			t.Setenv("CHECKPOINT_EVERY", "3")
			for variable, value := range settings {
				t.Setenv(variable, value)
			}
			prefix := strings.ReplaceAll(name, " ", "-")
			var want map[string]string
			calm := prefix + "-calm"
			t.Setenv("NAMESPACE", calm)
			t.Setenv("CHECKPOINT_DIR", in("calm"))
			mustCommand(t, "produce", in("scenes"), "--final")
			mustCommand(t, "up")
			compare(t, "", &want, outcome(t, calm, in("calm")))

			killed := prefix + "-killed"
			t.Setenv("NAMESPACE", killed)
			t.Setenv("CHECKPOINT_DIR", in("killed"))
			log := openNamespace(t)
			must.Do(t, log.EnsureTopics(t.Context()))
			mustCommand(t, "produce", in("scenes"), "--final")
			others := []*process{start(t, "encoder"), start(t, "indexer"), start(t, "discriminator")}
			grouper, trainer := start(t, "grouper"), start(t, "trainer")
			blocks := featuresOf(t, want)
			for _, share := range soak.Choose([]int64{4, 2}, []int64{5, 3, 2}) {
				awaitFeatures(t, log, 0, blocks/share)
				grouper.kill(t)
				trainer.kill(t)
				grouper, trainer = start(t, "grouper"), start(t, "trainer")
			}
			select {
			case <-trainer.done:
			case <-time.After(5 * time.Minute):
				t.Fatalf("the trainer does not end\n%s\n%s", grouper.log, trainer.log)
			}
			if trainer.err != nil {
				t.Errorf("trainer: %v\n%s", trainer.err, trainer.log)
			}
			for _, p := range append(others, grouper) {
				p.stop(t)
			}
			compare(t, "after kills", &want, outcome(t, killed, in("killed")))

			mustCommand(t, "run-manifest", "--out", in("run.json"))
			for variable := range settings { // all that a replay needs is in the manifest
				t.Setenv(variable, "")
			}
			t.Setenv("CHECKPOINT_DIR", "")
			t.Setenv("NAMESPACE", "")
			out := mustCommand(t, "replay", in("run.json"), "--namespace", prefix+"-again", "--checkpoints", in("again"))
			if strings.Contains(out, "differ") {
				t.Errorf("replay prints\n%s", out)
			}
			if a, b := lastCheckpoint(t, in("killed")), lastCheckpoint(t, in("again")); a != b {
				t.Errorf("the original's last checkpoint is %s, the replay's %s", a, b)
			}
		})
	}
}

// featuresOf returns how many feature blocks lane 0 has.
func featuresOf(t *testing.T, outcome map[string]string) (blocks int64) {
	t.Helper()
	if _, err := fmt.Sscan(outcome["features, lane 0"], &blocks); err != nil {
		t.Fatalf("lane 0 has the features %q: %v", outcome["features, lane 0"], err)
	}
	return blocks
}
