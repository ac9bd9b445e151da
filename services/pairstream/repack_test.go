//go:build cgo

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestCopiesOfALostCrawl trains on copies of images, with the indexer killed when its first tar is there and the crawl
// deleted when all groups are closed. Records and weights are those of an undisturbed run, and a replay has them as
// well.
func TestCopiesOfALostCrawl(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	in := setUpPipeline(t, 24)
	t.Setenv("REPACK_ROOT", in("copies"))
	t.Setenv("REPACK_SIDE", "32")
	t.Setenv("NAMESPACE", "calm")
	t.Setenv("CHECKPOINT_DIR", in("calm"))
	mustCommand(t, "produce", in("scenes"), "--final")
	mustCommand(t, "up")
	want := outcome(t, "calm", in("calm"))
	must.Do(t, os.RemoveAll(in("copies")))

	t.Setenv("NAMESPACE", "killed")
	t.Setenv("CHECKPOINT_DIR", in("killed"))
	log := openNamespace(t)
	mustCommand(t, "produce", in("scenes"), "--final")
	encoder, indexer := start(t, "encoder"), start(t, "indexer")
	indexer.killWhen(t, func() bool {
		tars, _ := filepath.Glob(in("copies/*/*.tar"))
		return len(tars) > 0
	})
	indexer = start(t, "indexer")
	for lane := range 2 {
		var groups int64
		must.Get(fmt.Sscan(want[fmt.Sprintf("groups, lane %d", lane)], &groups))(t)
		for last := int64(-1); last+1 < groups; time.Sleep(10 * time.Millisecond) {
			var err error
			if last, err = log.LastSeq(t.Context(), schemas.Groups, lane); err != nil {
				t.Fatal(err)
			}
		}
	}
	encoder.stop(t)
	indexer.stop(t)
	must.Do(t, os.Rename(in("scenes"), in("lost")))
	others := []*process{start(t, "grouper"), start(t, "discriminator")}
	trainer := start(t, "trainer")
	if <-trainer.done; trainer.err != nil {
		t.Errorf("trainer: %v\n%s", trainer.err, trainer.log)
	}
	for _, p := range others {
		p.stop(t)
	}
	compare(t, "after a kill and without the crawl", &want, outcome(t, "killed", in("killed")))

	must.Do(t, os.Rename(in("lost"), in("scenes")))
	mustCommand(t, "run-manifest", "--out", in("run.json"))
	for _, variable := range []string{"REPACK_ROOT", "REPACK_SIDE", "CHECKPOINT_DIR", "NAMESPACE"} { // all that a replay needs is in the manifest
		t.Setenv(variable, "")
	}
	if out := mustCommand(t, "replay", in("run.json"), "--namespace", "again", "--checkpoints", in("again")); strings.Contains(out, "differ") {
		t.Errorf("replay prints\n%s", out)
	}

	t.Setenv("NAMESPACE", "killed")
	for rec, err := range log.Records(t.Context(), schemas.Neighbors, 0, stream.Position{}, 1) {
		must.Do(t, err)
		chunk, err := schemas.Unmarshal(rec.Schema, rec.Value)
		if err == nil {
			err = os.WriteFile(in("pairs"), []byte(chunk.(*schemas.NeighborChunk).ID(0).String()+"\n"), 0o600)
		}
		must.Do(t, err)
	}
	for _, want := range []string{"erased 1 copies of 1", "erased 0 copies of 1"} {
		if out := mustCommand(t, "forget", "--pair", in("pairs"), "--erase-copies", "--report"); !strings.Contains(out, want) || !strings.Contains(out, in("copies")) {
			t.Errorf("forget prints\n%s\nwant %s", out, want)
		}
	}
}
