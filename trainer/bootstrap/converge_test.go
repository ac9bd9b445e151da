package bootstrap_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// convergence is a short training that ends by itself, of images of which some are held out.
type convergence struct {
	*bench
	train, held *dataset.Corpus
	walks       []string
	checks      []bootstrap.Check
}

func newConvergence(t *testing.T) *convergence {
	t.Helper()
	c := &convergence{bench: newBenchOf(t, 36)}
	var err error
	if c.train, c.held, err = c.data.HoldOut(20); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *convergence) options() (bootstrap.Options, bootstrap.Converging) {
	o := c.bench.options()
	o.Preset, o.Steps, o.Batch = "micro", 10, 8
	return o, bootstrap.Converging{
		Patience: 2, BaseRate: 0.05, Checked: func(x bootstrap.Check) { c.checks = append(c.checks, x) },
		// Walk turns the pairs round. What it is told has to be the same in every run.
		Walk: func(_ context.Context, v, t []float32, dim int, images []int32, batch, round int) ([]int32, error) {
			c.walks = append(c.walks, fmt.Sprint(round, dim, batch, images, v[0], t[dim]))
			if len(v) != len(images)*dim || len(t) != len(v) {
				return nil, fmt.Errorf("%d and %d values for %d pairs", len(v), len(t), len(images))
			}
			order := make([]int32, len(images))
			for i := range order {
				order[i] = int32(len(order) - 1 - i)
			}
			return order, nil
		},
	}
}

// A training that ends by itself ends in the same bytes when it is run again, and when it is interrupted in any phase.
// Its file says how it went and has a calibration.
func TestConvergeRepeatsAndGoesOn(t *testing.T) {
	c := newConvergence(t)
	straight, again := filepath.Join(t.TempDir(), "straight"), filepath.Join(t.TempDir(), "again")
	o, until := c.options()
	card := must.Get(bootstrap.Converge(t.Context(), c.worker, c.images, c.train, c.held, o, until, straight))(t)
	f := must.Get(safetensors.Open(straight))(t)
	told, err := json.Marshal(card)
	if err != nil || f.Metadata["pairstream.card"] != string(told) || f.Metadata["pairstream.calibration"] == "" {
		t.Errorf("metadata %q (%v), want the card %s and a calibration", f.Metadata, err, told)
	}
	if card.Steps != 10 || card.Images != 16 || card.Pairs != 32 || card.HeldOut != 20 || card.Stopped != "most steps" || len(card.Phases) != 3 ||
		card.Measured.Calibration.BaseRate != 0.05 {
		t.Errorf("card %s", told)
	}
	walks := slices.Clone(c.walks)
	if len(walks) != 2 || len(c.checks) != 4 || c.checks[3].Left != 0 || c.checks[0].Left != 3 || c.checks[1].Phase != bootstrap.Harden {
		t.Errorf("walks %q, checks %+v", walks, c.checks)
	}
	for _, at := range []int64{3, 7, 8, 9} { // in every phase
		checkpoints := bootstrap.Checkpoints{Dir: t.TempDir(), Every: 1}
		ctx, cancel := context.WithCancel(t.Context())
		o, until := c.options()
		o.Checkpoints, o.Report = checkpoints, func(r *trainer.Result) {
			if r.Step == at {
				cancel()
			}
		}
		if _, err := bootstrap.Converge(ctx, c.worker, c.images, c.train, c.held, o, until, again); err == nil {
			t.Fatalf("a training interrupted at step %d ends without an error", at)
		}
		first := int64(-1)
		o.Report = func(r *trainer.Result) {
			if first < 0 {
				first = r.Step
			}
		}
		if _, err := bootstrap.Converge(t.Context(), c.worker, c.images, c.train, c.held, o, until, again); err != nil || first < at {
			t.Fatalf("a training interrupted at step %d goes on at step %d: %v", at, first, err)
		}
		if read(t, straight) != read(t, again) {
			t.Errorf("interrupted at step %d: other bytes", at)
		}
	}
	for i, w := range c.walks {
		if !slices.Contains(walks, w) {
			t.Errorf("walk %d is of %s, want one of %q", i, w, walks)
		}
	}
}

func TestConvergeRefuses(t *testing.T) {
	c := newConvergence(t)
	path := filepath.Join(t.TempDir(), "weights")
	for want, change := range map[string]func(*bootstrap.Options, *bootstrap.Converging){
		"9 steps at most, want at least 10":       func(o *bootstrap.Options, _ *bootstrap.Converging) { o.Steps = 9 },
		"patience of 0 checks, want at least 1":   func(_ *bootstrap.Options, c *bootstrap.Converging) { c.Patience = 0 },
		"base rate is 1, want 0 to less than 1":   func(_ *bootstrap.Options, c *bootstrap.Converging) { c.BaseRate = 1 },
		"32 pairs to train on, want at least a b": func(o *bootstrap.Options, _ *bootstrap.Converging) { o.Batch = 33 },
		"hard mini-batches: 1 of ": func(_ *bootstrap.Options, c *bootstrap.Converging) {
			c.Walk = func(context.Context, []float32, []float32, int, []int32, int, int) ([]int32, error) {
				return []int32{0}, nil
			}
		},
	} {
		o, until := c.options()
		change(&o, &until)
		if _, err := bootstrap.Converge(t.Context(), c.worker, c.images, c.train, c.held, o, until, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
	few, _ := must.Get2(c.held.HoldOut(1))(t)
	o, until := c.options()
	if _, err := bootstrap.Converge(t.Context(), c.worker, c.images, c.train, few, o, until, path); err == nil || !strings.Contains(err.Error(), "19 held-out images, want at least 20") {
		t.Errorf("19 held-out images: %v", err)
	}
}

// Checkpoints of one kind of training are no start for the other.
func TestConvergeAndTrainDoNotMixCheckpoints(t *testing.T) {
	c := newConvergence(t)
	path := filepath.Join(t.TempDir(), "weights")
	for _, fixedFirst := range []bool{true, false} {
		o, until := c.options()
		o.Checkpoints = bootstrap.Checkpoints{Dir: t.TempDir(), Every: 5}
		fixed := func() error { return bootstrap.Train(t.Context(), c.worker, c.images, c.train, o, path) }
		converging := func() error {
			_, err := bootstrap.Converge(t.Context(), c.worker, c.images, c.train, c.held, o, until, path)
			return err
		}
		first, then := converging, fixed
		if fixedFirst {
			first, then = fixed, converging
		}
		must.Do(t, first())
		if err := then(); err == nil || !strings.Contains(err.Error(), o.Checkpoints.Dir) || !strings.Contains(err.Error(), "give another folder") {
			t.Errorf("fixed first %v: error %v", fixedFirst, err)
		}
	}
}
