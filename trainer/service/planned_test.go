package service

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/trainer"
)

// The rate that was planned for 5M pairs ends where the papers' does. A run of other data says so at its end, and what
// to set.
func TestScheduleSaysForWhichDataItWasPlanned(t *testing.T) {
	core := trainer.Options{StepBatches: 4, Schedule: trainer.Schedule{Kind: trainer.CosineSteps, Rate: 1e-4, Min: 1e-5, WarmupRate: 1e-5, WarmupSteps: 2000}}
	sizes := Planned{GroupSize: 5_000_000, BatchSize: 96, Epochs: 20}
	for name, c := range map[string]struct {
		pairs, total, made int64
		start, end         []string
	}{
		"the papers' data": {5_000_000, 390_600, 260_400, []string{"pairs=5000000", "steps=260400", "rate=3.2"}, nil},
		"a tenth less":     {5_000_000, 390_600, 260_400 - 26_040, []string{"pairs=5000000"}, nil},
		"lanes that are not full": {
			0, 1_562_490, 260_400,
			[]string{"pairs=20000000", "steps=1041660"},
			[]string{"planned for other data", "planned=20000000", "step=260400", "rate=9.4", "wanted=3.2", "pairs=4999680", "set PAIRS"},
		},
	} {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, nil))
		sizes.Pairs, core.Schedule.TotalSteps = c.pairs, c.total
		p := sizes.planOf(core, 4)
		p.tell(logger)
		start := out.String()
		out.Reset()
		p.compare(c.made, logger)
		for _, want := range c.start {
			if !strings.Contains(start, want) {
				t.Errorf("%s: at the start %q, want %q in it", name, start, want)
			}
		}
		for _, want := range c.end {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: at the end %q, want %q in it", name, &out, want)
			}
		}
		if len(c.end) == 0 && out.Len() > 0 {
			t.Errorf("%s: at the end %q, want nothing", name, &out)
		}
	}
	core.Schedule.Kind = trainer.StreamSteps
	if p := sizes.planOf(core, 4); p != (plan{}) {
		t.Errorf("a schedule that follows the data has the plan %+v", p)
	}
	if err := (Planned{Pairs: -1}).validate(); err == nil || !strings.Contains(err.Error(), "PAIRS is -1") {
		t.Errorf("PAIRS=-1: %v", err)
	}
}
