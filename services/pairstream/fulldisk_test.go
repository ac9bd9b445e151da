//go:build cgo

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/fulldisk"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestTrainerOnAFullDisk gives the process of the trainer a disk with room for one checkpoint and a half. The process
// ends with the name of the file and the reason, however often it is started, and keeps the checkpoint that it has.
// When there is room, it makes the same records and weights as a run that always had room.
func TestTrainerOnAFullDisk(t *testing.T) {
	if apart(t) {
		return
	}
	disk := fulldisk.Mount(t, 1<<20)
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	t.Setenv("CHECKPOINT_EVERY", "2")
	in := setUpPipeline(t, 24)

	var want map[string]string
	t.Setenv("NAMESPACE", "roomy")
	t.Setenv("CHECKPOINT_DIR", in("roomy"))
	mustCommand(t, "produce", in("scenes"), "--final")
	mustCommand(t, "up")
	compare(t, "", &want, outcome(t, "roomy", in("roomy")))
	last := checkpoints(t, in("roomy"))
	info := must.Get(os.Stat(last[len(last)-1]))(t)
	disk.Resize(t, info.Size()*3/2)

	t.Setenv("NAMESPACE", "full")
	t.Setenv("CHECKPOINT_DIR", disk.Dir)
	mustCommand(t, "produce", in("scenes"), "--final")
	var others []*process
	for _, name := range stageNames[:len(stageNames)-1] {
		others = append(others, start(t, name))
	}
	const starts = 2
	for range starts {
		trainer := start(t, "trainer")
		<-trainer.done
		said := trainer.log.String()
		t.Log(said)
		if trainer.err == nil || !strings.Contains(said, "checkpoint-000000000004.safetensors") || !strings.Contains(said, "no space left on device") {
			t.Errorf("the trainer ended with %v and said %q, want that there is no space for its second checkpoint", trainer.err, said)
		}
		entries, err := os.ReadDir(disk.Dir)
		if err != nil || len(entries) != 1 || entries[0].Name() != "checkpoint-000000000002.safetensors" {
			t.Errorf("on the disk there are %v (%v), want the first checkpoint alone", entries, err)
		}
	}
	disk.Resize(t, info.Size()*10)
	trainer := start(t, "trainer")
	if <-trainer.done; trainer.err != nil {
		t.Errorf("trainer: %v\n%s", trainer.err, trainer.log)
	}
	for _, p := range others {
		p.stop(t)
	}
	compare(t, "after the disk was full", &want, outcome(t, "full", disk.Dir))
	figures.Record(t, figures.Figures{
		Scenario: "disk full under the trainer's checkpoints", Broker: "embedded", Faults: starts, Records: recordsIn(t, want),
	})
}

func checkpoints(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "checkpoint-*.safetensors"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no checkpoint in %s (%v)", folder, err)
	}
	return files
}
