//go:build cgo

package main

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/schemas"
)

// TestPlainImagesAfterKills has a Con-D that looks at plain images and keeps scores, and is killed now and then. Its
// records and the weights are those of a Con-D that never lost what it kept, and a replay has them as well.
func TestPlainImagesAfterKills(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	in := setUpPipeline(t, 24)
	t.Setenv("COND_IMAGES", "plain")
	t.Setenv("EPOCHS", "4")
	t.Setenv("NAMESPACE", "calm")
	t.Setenv("CHECKPOINT_DIR", in("calm"))
	mustCommand(t, "produce", in("scenes"), "--final")
	mustCommand(t, "up")
	want := outcome(t, "calm", in("calm"))

	t.Setenv("NAMESPACE", "killed")
	t.Setenv("CHECKPOINT_DIR", in("killed"))
	log := openNamespace(t)
	mustCommand(t, "produce", in("scenes"), "--final")
	others := []*process{start(t, "encoder"), start(t, "indexer"), start(t, "grouper")}
	discriminator, trainer := start(t, "discriminator"), start(t, "trainer")
	for _, scored := range []int64{2, 9, 14} {
		discriminator.killWhen(t, func() bool {
			last, err := log.LastSeq(t.Context(), schemas.Scored, 0)
			return err == nil && last >= scored
		})
		discriminator = start(t, "discriminator")
	}
	if <-trainer.done; trainer.err != nil {
		t.Errorf("trainer: %v\n%s", trainer.err, trainer.log)
	}
	for _, p := range append(others, discriminator) {
		p.stop(t)
	}
	compare(t, "after kills", &want, outcome(t, "killed", in("killed")))

	mustCommand(t, "run-manifest", "--out", in("run.json"))
	for _, variable := range []string{"COND_IMAGES", "EPOCHS", "CHECKPOINT_DIR", "NAMESPACE"} { // they are in the manifest
		t.Setenv(variable, "")
	}
	dir, check := thesis(t)
	if out := mustCommand(t, "replay", in("run.json"), "--namespace", "again", "--checkpoints", dir); strings.Contains(out, "differ") {
		t.Errorf("replay prints\n%s", out)
	}
	check("replay --checkpoints") // the folder of a user's
}
