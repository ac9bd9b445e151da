package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/kafkatest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestProgressCommand prints reports of a training that has repeated a step after a crash.
func TestProgressCommand(t *testing.T) {
	log := testLog(t)
	if out, want := mustCommand(t, "progress"), "no reports yet: the trainer writes one every 10 steps, and one with every checkpoint\n"; out != want {
		t.Errorf("an empty log: %q, want %q", out, want)
	}
	p := log.NewPublisher(stream.PublisherOptions{})
	const first = 1_750_000_000_000
	for _, r := range []*schemas.Progress{
		{Kind: schemas.ProgressStep, Step: 10, Time: first, Values: schemas.Measures{"loss": 3.25, "learning_rate": 1e-5}},
		{Kind: schemas.ProgressStep, Step: 20, Time: first + 1000, Values: schemas.Measures{"loss": 9, "learning_rate": 1e-5}},
		{Kind: schemas.ProgressCheckpoint, Step: 10, Time: first + 2000, Checkpoint: "/c/10"},
		{Kind: schemas.ProgressStep, Step: 20, Time: first + 3000, Values: schemas.Measures{"loss": 2.5, "learning_rate": 1e-5}},
		{Kind: schemas.ProgressEval, Step: 20, Values: schemas.Measures{"tr_r1": 35}},
	} {
		must.Do(t, p.Publish(t.Context(), schemas.ProgressLog, 0, r))
	}
	must.Do(t, p.Close(t.Context()))
	for args, want := range map[string]string{
		"progress": `TIME                  STEP  KIND        REPORT
2025-06-15T15:06:40Z  10    step        learning_rate=1e-05 loss=3.25
2025-06-15T15:06:43Z  20    step        learning_rate=1e-05 loss=2.5
2025-06-15T15:06:42Z  10    checkpoint  /c/10
                      20    eval        tr_r1=35
`,
		"progress --csv": `kind,step,time,checkpoint,learning_rate,loss,tr_r1
step,10,2025-06-15T15:06:40Z,,1e-05,3.25,
step,20,2025-06-15T15:06:43Z,,1e-05,2.5,
checkpoint,10,2025-06-15T15:06:42Z,/c/10,,,
eval,20,,,,,35
`,
		"progress --json --kind eval,checkpoint": `{"kind":"checkpoint","step":10,"time":"2025-06-15T15:06:42Z","checkpoint":"/c/10"}
{"kind":"eval","step":20,"values":{"tr_r1":35}}
`,
	} {
		if got := mustCommand(t, strings.Fields(args)...); got != want {
			t.Errorf("%s prints\n%swant\n%s", args, got, want)
		}
	}
	for args, want := range map[string]string{
		"progress --kind loss":             `--kind is "loss", want some of step, eval, checkpoint`,
		"progress --json --csv":            "[csv json]",
		"progress --tensorboard /dev/null": "--tensorboard: mkdir /dev/null",
	} {
		if _, err := command(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", args, err, want)
		}
	}
}

// TestProgressOfANewerVersion: reports that this program cannot read are counted aloud, and the others are printed.
func TestProgressOfANewerVersion(t *testing.T) {
	log := testLog(t)
	p := log.NewPublisher(stream.PublisherOptions{})
	must.Do(t, p.Publish(t.Context(), schemas.ProgressLog, 0, &schemas.Progress{Kind: schemas.ProgressEval, Step: 20, Values: schemas.Measures{"tr_r1": 35}}))
	must.Do(t, p.Close(t.Context()))
	cfg := log.Config()
	newer := kafkatest.Message{Topic: schemas.ProgressLog.Name(cfg.Namespace), Value: []byte{0x80}, Headers: []kafkatest.MessageHeader{
		{Key: schemas.HeaderSchema, Value: []byte("pairstream.progress/2")},
	}}
	must.Do(t, kafkatest.WriteMessage(t.Context(), cfg.Brokers, newer))
	var out, said bytes.Buffer
	root := newRoot()
	root.SetArgs([]string{"progress", "--csv"})
	root.SetOut(&out)
	root.SetErr(&said)
	must.Do(t, root.ExecuteContext(t.Context()))
	if want := "kind,step,time,checkpoint,tr_r1\neval,20,,,35\n"; out.String() != want {
		t.Errorf("prints\n%s\nwant\n%s", &out, want)
	}
	if got := said.String(); !strings.Contains(got, "records of progress left out: 1") || !strings.Contains(got, "progress/2") {
		t.Errorf("says %q, want how many were left out, and why", got)
	}
}

// TestProgressForTensorBoard writes a file of curves twice: it is written anew.
func TestProgressForTensorBoard(t *testing.T) {
	log := testLog(t)
	p := log.NewPublisher(stream.PublisherOptions{})
	must.Do(t, p.Publish(t.Context(), schemas.ProgressLog, 0, &schemas.Progress{
		Kind: schemas.ProgressStep, Step: 10, Time: 1_750_000_000_000, Values: schemas.Measures{"loss": 3.25, "loss_itc": 1},
	}))
	must.Do(t, p.Close(t.Context()))
	dir := t.TempDir()
	path := filepath.Join(dir, boardFile)
	var before []byte
	for range 2 {
		if got, want := mustCommand(t, "progress", "--tensorboard", dir), "wrote 2 points to "+path+": `tensorboard --logdir "+dir+"` shows them\n"; got != want {
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
