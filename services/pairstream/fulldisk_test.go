//go:build cgo

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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

// TestBatchesOnAFullDisk writes plans to disks with little room. The command says so, with the file and the reason:
// where it waits as well as where it ends. When there is room, it goes on or is started again, and the plan is that of
// a disk with room.
func TestBatchesOnAFullDisk(t *testing.T) {
	if apart(t) {
		return
	}
	disk := fulldisk.Mount(t, 64<<20)
	in := setUpPipeline(t, 24)
	for name, value := range map[string]string{"GRIT_FEATURES": "encoder", "KAFKA_BROKERS": "", "NAMESPACE": ""} {
		t.Setenv(name, value)
	}
	mustCommand(t, "batches", "--out", in("roomy"), in("scenes"))
	want := planIn(t, in("roomy"))
	for _, pages := range []int64{6, 30, 60} {
		dir := filepath.Join(disk.Dir, strconv.FormatInt(pages, 10))
		disk.Resize(t, pages*int64(os.Getpagesize()))
		run := func() *process {
			return start(t, "produce", "PRODUCE_ARGS=batches\n--out\n"+dir+"\n"+in("scenes"))
		}
		p := run()
		ended := false
		for full := "no space left on device"; !ended && !strings.Contains(p.log.String(), full); {
			select {
			case <-p.done:
				ended = true
			case <-time.After(10 * time.Millisecond):
			}
		}
		said := p.log.String()
		if !strings.Contains(said, dir) || !strings.Contains(said, "no space left on device") {
			t.Errorf("%d pages: it says %q", pages, said)
		}
		disk.Resize(t, 64<<20)
		if <-p.done; p.err != nil {
			p = run()
			<-p.done
		}
		if p.err != nil {
			t.Errorf("%d pages, with room: %v\n%s", pages, p.err, p.log)
		}
		samePlan(t, fmt.Sprint(pages, " pages"), planIn(t, dir), want)
		must.Do(t, os.RemoveAll(dir))
	}
}
