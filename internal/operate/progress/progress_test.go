package progress

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/replay"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/testing/kafkatest"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestProgressOfANewerVersion: reports that this program cannot read are counted aloud, and the others are printed.
func TestProgressOfANewerVersion(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 2)
	p := log.NewPublisher(stream.PublisherOptions{})
	must.Do(t, p.Publish(t.Context(), schemas.ProgressLog, 0, &schemas.Progress{Kind: schemas.ProgressEval, Step: 20, Values: schemas.Measures{"tr_r1": 35}}))
	must.Do(t, p.Close(t.Context()))
	cfg := log.Config()
	newer := kafkatest.Message{Topic: schemas.ProgressLog.Name(cfg.Namespace), Value: []byte{0x80}, Headers: []kafkatest.MessageHeader{
		{Key: schemas.HeaderSchema, Value: []byte("pairstream.progress/2")},
	}}
	must.Do(t, kafkatest.WriteMessage(t.Context(), cfg.Brokers, newer))
	var out, said bytes.Buffer
	must.Do(t, Options{CSV: true}.Run(t.Context(), log, &out, &said))
	if want := "kind,step,time,checkpoint,tr_r1\neval,20,,,35\n"; out.String() != want {
		t.Errorf("prints\n%s\nwant\n%s", &out, want)
	}
	if got := said.String(); !strings.Contains(got, "records of progress left out: 1") || !strings.Contains(got, "progress/2") {
		t.Errorf("says %q, want how many were left out, and why", got)
	}
}

// TestProgressForTensorBoard writes a file of curves twice: it is written anew.
func TestProgressForTensorBoard(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 2)
	p := log.NewPublisher(stream.PublisherOptions{})
	must.Do(t, p.Publish(t.Context(), schemas.ProgressLog, 0, &schemas.Progress{
		Kind: schemas.ProgressStep, Step: 10, Time: 1_750_000_000_000, Values: schemas.Measures{"loss": 3.25, "loss_itc": 1},
	}))
	must.Do(t, p.Close(t.Context()))
	dir := t.TempDir()
	path := filepath.Join(dir, boardFile)
	var before []byte
	for range 2 {
		var out bytes.Buffer
		must.Do(t, Options{Board: dir}.Run(t.Context(), log, &out, io.Discard))
		if got, want := out.String(), "wrote 2 points to "+path+": `tensorboard --logdir "+dir+"` shows them\n"; got != want {
			t.Errorf("prints %q, want %q", got, want)
		}
		file := must.Get(os.ReadFile(path))(t)
		if !bytes.Contains(file, []byte("_hparams_/session_start_info")) || !bytes.Contains(file, []byte("LANES")) {
			t.Errorf("the file has no settings: %q", file)
		}
		if before == nil {
			before = file
		}
		if !bytes.Equal(file, before) || bytes.Count(file, []byte("step/loss")) != 2 || !bytes.Contains(file, []byte("brain.Event:2")) {
			t.Errorf("the file has %q", file)
		}
	}
}

// TestTheRunIsDescribed: a tracker gets the settings of run.env, or those of a manifest, and the fingerprints of the
// models. Another run's manifest is refused.
func TestTheRunIsDescribed(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 1)
	namespace, dir := log.Config().Namespace, t.TempDir()
	id := schemas.NewImageID([]byte{1})
	p := log.NewPublisher(stream.PublisherOptions{})
	refused := &schemas.Refusal{ID: schemas.NewPairID(id, "a dog"), ImageID: id, Reason: "fetch"}
	must.Do(t, p.PublishSeq(t.Context(), schemas.Embeddings, 0, 0, stream.Mark{}, refused))
	v := schemas.NewFloat16s([]float32{1, 0})
	embedding := &schemas.Embedding{
		ID: schemas.NewPairID(id, "a cat"), ImageID: id, Image: schemas.ImageRef{URI: "file:///a.tar", Size: 9}, Caption: "a cat", V: v, T: v, Similarity: 1, Model: "abc",
	}
	must.Do(t, p.PublishSeq(t.Context(), schemas.Embeddings, 0, 1, stream.Mark{}, embedding))
	must.Do(t, p.Close(t.Context()))
	must.Do(t, rundir.WriteEnv(dir, namespace, map[string]string{"RECIPE": "mafa", "SEED": "7", "NAMESPACE": namespace}))

	got := must.Get(Options{Dir: dir}.describe(t.Context(), log))(t)
	if got.Params["RECIPE"] != "mafa" || got.Params["SEED"] != "7" || got.Params["LANES"] != "1" || got.Params["NAMESPACE"] != "" {
		t.Errorf("params %v, want those of run.env", got.Params)
	}
	if got.Tags["model.embeddings"] != "abc" || got.Tags["namespace"] != namespace || got.Tags["commit"] == "" {
		t.Errorf("tags %v, want the model, the namespace and the commit", got.Tags)
	}

	m := must.Get(replay.Describe(t.Context(), log, replay.DescribeOptions{Settings: map[string]string{"RECIPE": "albef", "SEED": "8"}, Open: true}))(t)
	file := filepath.Join(dir, "run.json")
	write := func() {
		var text bytes.Buffer
		must.Do(t, m.Write(&text))
		must.Do(t, os.WriteFile(file, text.Bytes(), 0o600))
	}
	write()
	got = must.Get(Options{Dir: dir, Manifest: file}.describe(t.Context(), log))(t)
	if got.Params["RECIPE"] != "albef" || got.Params["SEED"] != "8" || got.Tags["model.embeddings"] != "abc" || got.Manifest != file {
		t.Errorf("%+v, want the manifest's settings and models", got)
	}
	m.Namespace = "another"
	write()
	if _, err := (Options{Manifest: file}).describe(t.Context(), log); err == nil || !strings.Contains(err.Error(), `describes the namespace "another"`) {
		t.Errorf("another run's manifest: %v", err)
	}
}
