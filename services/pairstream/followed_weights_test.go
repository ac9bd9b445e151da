//go:build cgo

package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	encoderservice "github.com/pairstream/pairstream/encoder/service"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/internal/operate/replay"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

// TestEncoderFollowsTheTrainer has two encoders, with a lane each, follow the weights of the trainer. Encoders and
// trainer are killed again and again. Weights change at the borders of spans alone, and close groups. A replay makes
// the same records and weights: with the files that the run has left, and without them, when its own checkpoints are
// others.
func TestEncoderFollowsTheTrainer(t *testing.T) {
	if apart(t) {
		return
	}
	const perLane = 8 // pairs of a group
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	in := setUpPipeline(t, 24)
	for variable, value := range map[string]string{
		"ENCODER_CHECKPOINT": "@latest", "GROUP_SIZE": strconv.Itoa(perLane), "CHECKPOINT_EVERY": "1", "STREAM_SESSION_TIMEOUT": "1s", "ENCODER_BATCH_SIZE": "3",
	} {
		t.Setenv(variable, value)
	}
	log, feed := setUpFeed(t, in)
	var others []*process
	for _, name := range []string{"indexer", "grouper", "discriminator"} {
		others = append(others, start(t, name))
	}
	killed := []*process{start(t, "encoder"), start(t, "encoder"), start(t, "trainer")}
	seed := soak.Seed(t, 5)
	r := rand.New(rand.NewPCG(seed, 0))
	for group := range int64(3) {
		for range 2 {
			feed.publish(t, perLane)
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
			victim := r.IntN(len(killed))
			killed[victim].kill(t)
			killed[victim] = start(t, killed[victim].name)
		}
		for lane := range 2 { // two epochs of two batches
			awaitFeatures(t, log, lane, 4*(group+1)-1) // the last ones may wait for the other lane's next
		}
	}
	feed.publish(t, -1)
	trainer := killed[2]
	select {
	case <-trainer.done:
	case <-time.After(5 * time.Minute):
		t.Fatalf("seed %d: the trainer does not end\n%s\n%s\n%s", seed, killed[0].log, killed[1].log, trainer.log)
	}
	if trainer.err != nil {
		t.Errorf("trainer: %v\n%s", trainer.err, trainer.log)
	}
	for _, p := range append(others, killed[:2]...) {
		p.stop(t)
	}
	mustCommand(t, "run-manifest", "--out", in("run.json"))
	m, err := replay.ReadManifest(in("run.json"))
	must.Do(t, err)
	checkSpans(t, log, m, perLane)

	for _, variable := range []string{"CHECKPOINT_DIR", "NAMESPACE", "ENCODER_CHECKPOINT"} { // the manifest has them
		t.Setenv(variable, "")
	}
	for _, args := range [][]string{{"again"}, {"remade", "--set", "CHECKPOINT_EVERY=1000"}} { // the second has a trainer make the files, which it would not publish
		name := args[0]
		began := time.Now()
		out := mustCommand(t, append([]string{"replay", in("run.json"), "--checkpoints", in(name), "--namespace"}, args...)...)
		t.Logf("replay %s took %s", name, time.Since(began).Round(time.Second))
		if strings.Contains(out, "differ") {
			t.Errorf("seed %d: replay %s prints\n%s", seed, name, out)
		}
		if a, b := lastCheckpoint(t, in("killed")), lastCheckpoint(t, in(name)); a != b {
			t.Errorf("the original's last checkpoint is %s, that of replay %s %s", a, name, b)
		}
		must.Do(t, os.RemoveAll(weights.Folder(in("killed"))))
	}
	_, err = command(t, "replay", in("run.json"), "--namespace", "alone", "--checkpoints", in("alone"), "--without-trainer")
	if err == nil || !strings.Contains(err.Error(), "whose file "+weights.File(in("killed"), m.Weights[0].Fingerprint)+" is gone") {
		t.Errorf("a replay without files and trainer: error %v", err)
	}
}

// checkSpans compares the fingerprints of the records with the manifest's choices, and looks for their files.
func checkSpans(t *testing.T, log *stream.Log, m *replay.Manifest, perLane int) {
	t.Helper()
	for lane := range m.Lanes {
		model, from, pairs, spans := "", int64(0), 0, 0
		for rec, err := range log.Records(t.Context(), schemas.Embeddings, lane, stream.Position{}, -1) {
			must.Do(t, err)
			value := must.Get(schemas.Unmarshal(rec.Schema, rec.Value))(t)
			e, ok := value.(*schemas.Embedding)
			if !ok {
				continue
			}
			if i := slices.IndexFunc(m.Choices, func(c weights.Choice) bool { return c.Lane == lane && c.Seq == rec.Seq }); i >= 0 {
				if model != "" && pairs != perLane {
					t.Errorf("lane %d: a span of records %d to %d with %d embeddings", lane, from, rec.Seq, pairs)
				}
				if model != m.Choices[i].Fingerprint {
					spans++
				}
				model, from, pairs = m.Choices[i].Fingerprint, rec.Seq, 0
			}
			pairs++
			if weightsOf(e.Model) != model {
				t.Errorf("lane %d, record %d has the weights %s, want %s", lane, rec.Seq, e.Model, model)
			}
		}
		if spans < 3 {
			t.Errorf("lane %d has had %d weights, want more", lane, spans)
		}
	}
	files, err := filepath.Glob(filepath.Join(weights.Folder(m.Settings["CHECKPOINT_DIR"]), "*"))
	if err != nil || len(files) < len(m.Weights) || len(files) > len(m.Weights)+2 {
		t.Errorf("%d files of weights (%v), want those of %d fingerprints, and two more at most", len(files), err, len(m.Weights))
	}
	for _, w := range m.Weights {
		if sum, err := weights.Hash(weights.File(m.Settings["CHECKPOINT_DIR"], w.Fingerprint)); err != nil || sum != w.SHA256 {
			t.Errorf("weights of step %d have the SHA-256 %q (%v), want %q", w.Step, sum, err, w.SHA256)
		}
	}
}

// weightsOf returns the fingerprint of the weights in the model that an embedding names.
func weightsOf(model string) string {
	return strings.TrimSuffix(model, encoderservice.DecodeScaled.Mark(""))
}
