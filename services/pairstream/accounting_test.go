//go:build cgo

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestAccountOfEverything publishes pairs twice, some that are broken and some that a rule drops, and takes two images
// back: one before the encoder has it, one behind. What status says adds up to what was published. All that is in
// groups was trained on in each epoch, except for forgotten images.
func TestAccountOfEverything(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	t.Setenv("FILTER", `colour: !caption.contains("red")`)
	t.Setenv("DEDUPE_IMAGES", "drop")
	t.Setenv("DEDUPE_NEAR", "drop:0.999")
	t.Setenv("NAMESPACE", "accounted")
	in := setUpPipeline(t, 60)
	t.Setenv("CHECKPOINT_DIR", in("checkpoints"))
	writeBroken(t, filepath.Join(in("scenes"), "99999.tar"))
	mustCommand(t, "produce", in("scenes"))
	mustCommand(t, "produce", "--resume=false", in("scenes"), "--final")
	log := openNamespace(t)
	takeBack(t, in("early.txt"), pairsOf(t, log, schemas.Pairs)[:1])
	encoder := start(t, "encoder")
	waitFor(t, []*process{encoder}, func() bool { return accountOf(t, log).Waiting == 0 })
	encoder.stop(t)
	takeBack(t, in("late.txt"), pairsOf(t, log, schemas.Embeddings)[:1])
	mustCommand(t, "up")

	var status inspect.Status
	must.Do(t, json.Unmarshal([]byte(mustCommand(t, "status", "--json")), &status))
	a := status.Account
	if !a.Adds() || a.Waiting+a.Open+a.Closed.Since != 0 || a.Published != inLog(t, log) {
		t.Errorf("of %d records the account is %s", inLog(t, log), a)
	}
	if a.Closed.Members == 0 || a.Closed.Duplicates+a.Closed.Repeats == 0 || a.Closed.SameImage == 0 || a.Closed.LeftOut == 0 || a.Closed.Filtered["colour"] == 0 ||
		a.Closed.Refused[schemas.MaskForgotten] == 0 || a.Closed.Refused[schemas.MaskUnusable] != 2 || a.NoPairs == 0 || a.Closed.Seals != 2 {
		t.Errorf("want some of every kind: %s", a)
	}
	letters := int64(0)
	for _, err := range log.DeadLetters(t.Context()) {
		if letters++; err != nil {
			t.Fatal(err)
		}
	}
	if letters != a.SetAside() {
		t.Errorf("%d dead letters, want %d: %s", letters, a.SetAside(), a)
	}
	trained, masked := int64(0), int64(0)
	for lane := range log.Config().Lanes {
		for rec, err := range log.Records(t.Context(), schemas.Features, lane, stream.Position{}, -1) {
			must.Do(t, err)
			if block, ok := stream.As[*schemas.FeatureBlock](rec); ok {
				trained += int64(len(block.Positions) - len(block.Masked))
				masked += int64(len(block.Masked))
			}
		}
	}
	const epochs = 2
	if trained+masked != epochs*a.Closed.Members || masked == 0 || masked%epochs != 0 {
		t.Errorf("%d samples were trained on and %d masked in %d epochs: %s", trained, masked, epochs, a)
	}
	t.Logf("%s; %d trained on and %d masked in %d epochs", a, trained, masked, epochs)
}

func accountOf(t *testing.T, log *stream.Log) inspect.Account {
	t.Helper()
	s := must.Get(inspect.NewCollector(log, 1).Collect(t.Context(), time.Now()))(t)
	return s.Account
}

// writeBroken writes a tar with an image that cannot be decoded and an image without a caption.
func writeBroken(t *testing.T, path string) {
	t.Helper()
	file := must.Get(os.Create(path))(t)
	w := shard.NewWriter(file)
	for key, files := range map[string][]shard.File{
		"a": {{Ext: "jpg", Data: []byte("\xff\xd8\xff\xe0 no picture")}, {Ext: "txt", Data: []byte("a picture of nothing")}},
		"b": {{Ext: "png", Data: []byte("nobody has described it")}},
	} {
		must.Get(w.Write(key, files...))(t)
	}
	must.Do(t, w.Close())
	must.Do(t, file.Close())
}

// pairsOf returns the ids of the pairs in lane 0 of a topic.
func pairsOf(t *testing.T, log *stream.Log, topic schemas.Topic) (ids []schemas.PairID) {
	t.Helper()
	return inLane(t, log, topic, 0)
}

// inLane returns the ids of the pairs in a lane of a topic.
func inLane(t *testing.T, log *stream.Log, topic schemas.Topic, lane int) (ids []schemas.PairID) {
	t.Helper()
	for rec, err := range log.Records(t.Context(), topic, lane, stream.Position{}, -1) {
		must.Do(t, err)
		r, err := schemas.Unmarshal(rec.Schema, rec.Value)
		if err != nil {
			continue // what is no pair
		}
		switch v := r.(type) {
		case *schemas.Pair:
			ids = append(ids, v.ID)
		case *schemas.Embedding:
			ids = append(ids, v.ID)
		}
	}
	return ids
}

func takeBack(t *testing.T, file string, pairs []schemas.PairID) {
	t.Helper()
	var lines []string
	for _, id := range pairs {
		lines = append(lines, id.String())
	}
	must.Do(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))
	mustCommand(t, "forget", "--pair", file)
}
