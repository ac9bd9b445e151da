//go:build cgo

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestGroupsThatAskTheCrawlAreKilled kills the indexer when its first and its fourth segment are there. Groups ask
// those of both lanes, and a replay comes to the same records. One with another seed makes other segments, and asks
// these. A searcher finds a pair in the segments.
func TestGroupsThatAskTheCrawlAreKilled(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	in := setUpPipeline(t, 60)
	t.Setenv("NEIGHBORS_SCOPE", "crawl")
	t.Setenv("SEGMENTS_ROOT", "file://"+in("segments"))
	t.Setenv("NAMESPACE", "killed")
	t.Setenv("CHECKPOINT_DIR", in("killed"))
	log := openNamespace(t)
	mustCommand(t, "produce", in("scenes"), "--final")
	others := []*process{start(t, "encoder"), start(t, "grouper"), start(t, "discriminator")}
	for _, segments := range []int{1, 4} {
		start(t, "indexer").killWhen(t, func() bool {
			found, _ := filepath.Glob(in("segments/killed/*/*.segment"))
			return len(found) >= segments
		})
	}
	others = append(others, start(t, "indexer"))
	trainer := start(t, "trainer")
	if <-trainer.done; trainer.err != nil {
		t.Errorf("trainer: %v\n%s", trainer.err, trainer.log)
	}
	for _, p := range others {
		p.stop(t)
	}
	foreign, outside, pair := askedOthers(t, log)
	if foreign == 0 || outside == 0 {
		t.Errorf("%d groups have asked another lane, and %d images come from other groups", foreign, outside)
	}
	searchSegments(t, pair)

	mustCommand(t, "run-manifest", "--out", in("run.json"))
	for _, variable := range []string{"CHECKPOINT_DIR", "NAMESPACE", "NEIGHBORS_SCOPE", "SEGMENTS_ROOT"} { // all that a replay needs is in the manifest
		t.Setenv(variable, "")
	}
	if out := mustCommand(t, "replay", in("run.json"), "--namespace", "again", "--checkpoints", in("again")); strings.Contains(out, "differ") {
		t.Errorf("replay prints\n%s", out)
	}
	_, err := command(t, "replay", in("run.json"), "--namespace", "other", "--checkpoints", in("other"), "--set", "SEED=77")
	if err == nil || !strings.HasPrefix(err.Error(), "the replay differs in ") {
		t.Errorf("a replay with another seed: error %v, want one that it differs", err)
	}
}

// askedOthers counts the groups that have asked another lane and the equivalent images of other groups, and names a
// pair.
func askedOthers(t *testing.T, log *stream.Log) (foreign, outside int, pair schemas.PairID) {
	t.Helper()
	for _, topic := range []schemas.Topic{schemas.Groups, schemas.Neighbors} {
		for lane := range 2 {
			for rec, err := range log.Records(t.Context(), topic, lane, stream.Position{}, -1) {
				must.Do(t, err)
				record := must.Get(schemas.Unmarshal(rec.Schema, rec.Value))(t)
				switch r := record.(type) {
				case *schemas.Group:
					for _, id := range r.Asked {
						if int(id.Lane) != lane {
							foreign++
							break
						}
					}
				case *schemas.NeighborChunk:
					outside, pair = outside+len(r.OutImages)/16, r.ID(0)
				}
			}
		}
	}
	return foreign, outside, pair
}

// searchSegments asks a searcher for the neighbours of a pair.
func searchSegments(t *testing.T, pair schemas.PairID) {
	t.Helper()
	addr := "127.0.0.1:" + strings.TrimPrefix(masterPort(t), "MASTER_PORT=")
	t.Setenv("LIVE_ADDR", addr)
	defer t.Setenv("LIVE_ADDR", "")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		root := newRoot()
		root.SetArgs([]string{"search"})
		root.SetOut(io.Discard)
		done <- root.ExecuteContext(ctx)
	}()
	url := fmt.Sprintf("http://%s/neighbors?k=3&pair=%s", addr, pair)
	for {
		r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody))(t)
		response, err := http.DefaultClient.Do(r)
		if err != nil { // it does not listen yet
			select {
			case err := <-done:
				t.Fatal("search has ended:", err)
			case <-time.After(10 * time.Millisecond):
				continue
			}
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || strings.Count(string(body), `"similarity"`) != 6 {
			t.Errorf("search answers %d: %s (%v)", response.StatusCode, body, err)
		}
		break
	}
	stop()
	must.Check(t, <-done)
}
