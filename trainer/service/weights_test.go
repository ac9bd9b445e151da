package service

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// counting has weights that are named after its steps.
type counting struct{ step int64 }

func (c *counting) Steps() int64 { return c.step }

func (c *counting) SaveWeights(path func(string) string) (string, error) {
	fingerprint := "w" + string(rune('0'+c.step))
	file := path(fingerprint)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	return fingerprint, os.WriteFile(file, []byte(fingerprint), 0o644)
}

// TestWeightsThatAReplayWaitsFor notes weights whose files are gone. They are due at their steps, and others are
// refused there.
func TestWeightsThatAReplayWaitsFor(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 1)
	must.Do(t, weights.Want(t.Context(), log, weights.Weights{Fingerprint: "w2", Step: 2}, weights.Weights{Fingerprint: "other", Step: 3}))
	core := new(counting)
	p := &publishing{log: log, dir: t.TempDir(), logger: slog.New(slog.DiscardHandler)}
	must.Do(t, p.begin(t.Context(), func(context.Context) (weightsOf, error) { return core, nil }))
	for step, want := range []bool{false, false, true, true, false} {
		core.step = int64(step)
		if p.due(core.step) != want {
			t.Errorf("step %d: due %v, want %v", step, p.due(core.step), want)
		}
	}
	core.step = 2
	must.Check(t, p.publish(t.Context(), core))
	core.step = 3
	if err := p.publish(t.Context(), core); err == nil || !strings.Contains(err.Error(), "the weights of step 3 are w3, and the encoder waits for other, whose file is gone") {
		t.Errorf("error %v", err)
	}
	n := must.Get(weights.Read(t.Context(), log))(t)
	if newest, _ := n.Newest(); newest.Fingerprint != "w2" {
		t.Errorf("announced last: %+v", newest)
	}
	var none *publishing
	if none.due(0) || none.begin(t.Context(), nil) != nil {
		t.Error("a trainer that noLane follows publishes")
	}
}
