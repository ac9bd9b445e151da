package progress

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
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
		if before == nil {
			before = file
		}
		if !bytes.Equal(file, before) || bytes.Count(file, []byte("step/loss")) != 2 || !bytes.Contains(file, []byte("brain.Event:2")) {
			t.Errorf("the file has %q", file)
		}
	}
}
