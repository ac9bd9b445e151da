package main

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
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
