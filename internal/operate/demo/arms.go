package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/operate/gauge"
	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/recipe"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/trainer"

	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

// arm is a run of the whole pipeline. All runs of a demo start with the first model, read the same pairs with the same
// seed, and make the same number of steps. Their strategies of making mini-batches differ.
type arm struct {
	name     string // the namespace; empty: the demo's own run
	title    string // in the tables
	settings pipeline.Settings
	log      *stream.Log
	close    func() error // of the log; nil: it is not open

	batches   int64 // expected
	published stream.Counters
	summary   dataset.Summary
	stages    *pipeline.Stages
	gauges    map[string]*gauge.Gauge
	steps     lossCurve
	streaming time.Duration

	hardest    negatives // of its mini-batches in the first epoch
	checkpoint string
	report     *eval.Report // of its last checkpoint
}

// rivals returns the settings of the runs that a run is compared with: random mini-batches, and GRIT without
// connections, except the one that the run itself uses.
func rivals(own pipeline.Settings) map[string]map[string]string {
	o := own.Grouper.Options()
	all := map[string]map[string]string{
		"random": {"STRATEGY": "random", "CANDIDATES": "0"},
		"grit":   {"STRATEGY": "grit", "CANDIDATES": "0"},
	}
	if o.Candidates == 0 {
		delete(all, string(o.Strategy))
	}
	return all
}

const randomTitle = "random mini-batches"

// titleOf returns the title of a run, after its strategy.
func titleOf(p pipeline.Settings, of string) string {
	switch o := p.Grouper.Options(); {
	case o.Candidates == 0 && string(o.Strategy) == "random":
		return randomTitle
	case o.Candidates == 0 && string(o.Strategy) == "grit":
		return "GRIT"
	case o.Candidates > 0: // not MAFA, because the demo's targets of ITC are one-hot
		return "GRIT + ECM"
	}
	return strings.ToUpper(of)
}

// newArm parses the settings of a run. The overrides differ from the demo's own run.
func (d *demo) newArm(name string, settings, overrides map[string]string) (*arm, error) {
	mine := maps.Clone(settings)
	maps.Copy(mine, overrides)
	if name != "" {
		mine["NAMESPACE"], mine["CHECKPOINT_DIR"] = name, filepath.Join(d.Dir, name, "checkpoints")
	}
	a := &arm{name: name, stages: pipeline.NewStages()}
	a.stages.Of = name
	var err error
	if a.settings, err = config.Parse[pipeline.Settings](mine); err != nil {
		return nil, err
	}
	a.title = titleOf(a.settings, cmp.Or(mine[recipe.Variable], recipe.Default))
	a.batches = int64(a.settings.Grouper.Options().Epochs) * int64(d.train.Pairs()/a.settings.Grouper.Options().BatchSize)
	return a, pipeline.LeaveSettings(d.Dir, a.settings.Stream, mine)
}

// runArms runs the pipeline of every arm, all at the same time. The log of the demo's own run must be open.
func (d *demo) runArms(ctx context.Context, rt service.Runtime) error {
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return d.runArm(ctx, rt, d.arm) })
	for _, a := range d.rivals {
		all.Go(func() (err error) {
			settings := a.settings.Stream
			settings.Brokers = d.log.Config().Brokers
			rt := service.NewRuntime(rundir.Logger(slog.LevelError))
			if a.log, a.close, err = pipeline.OpenLog(ctx, rt, settings, "", ""); err != nil {
				return err
			}
			if err = d.runArm(ctx, rt, a); err != nil {
				return fmt.Errorf("comparing with %s: %w", a.title, err)
			}
			return nil
		})
	}
	return all.Wait()
}

// runArm publishes the pairs and runs every stage until the crawl has ended.
func (d *demo) runArm(ctx context.Context, rt service.Runtime, a *arm) (err error) {
	began := time.Now()
	a.summary, err = producer.Publish(ctx, a.log, []string{d.source}, dataset.ProduceOptions{Held: d.held, Final: true}, &a.published, producer.Pace{})
	if err == nil {
		shared := device.NewShared(a.settings.Device, d.cache)
		err = pipeline.RunStages(ctx, a.log, rt, shared, a.settings, a.stages, func(s trainerservice.Step) { a.steps.add(s.Result) })
		err = errors.Join(err, shared.Close())
	}
	a.streaming = time.Since(began)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		a.checkpoint, _, err = trainer.LatestCheckpoint(a.settings.Trainer.Dir)
	}
	return err
}

// newGauges returns the gauges of a run, by stage.
func newGauges(a *arm, pairs int) map[string]*gauge.Gauge {
	all := func() int64 { return int64(pairs) }
	// The stages also count the seals, which come last.
	counted := func(n *atomic.Int64) func() int64 { return func() int64 { return min(n.Load(), all()) } }
	batches := func() int64 { return a.batches }
	list := map[string]*gauge.Gauge{}
	add := func(name, unit string, done, of func() int64) {
		list[name] = &gauge.Gauge{Name: name, Unit: unit, Done: done, All: of}
	}
	add("producer", "pairs", counted(&a.published.Out), all)
	add("encoder", "pairs", counted(&a.stages.Encoder.In), all)
	add("indexer", "pairs", counted(&a.stages.Indexer.In), all)
	add("grouper", "batches", a.stages.Grouper.Out.Load, batches)
	add("discriminator", "batches", a.stages.Discriminator.Out.Load, batches)
	add("trainer", "steps", a.steps.count, batches)
	return list
}

// watched returns the gauges that the demo shows: the stages of its own run in their order, then the training of the
// rivals.
func (d *demo) watched() []*gauge.Gauge {
	var list []*gauge.Gauge
	for _, name := range []string{"producer", "encoder", "indexer", "grouper", "discriminator", "trainer"} {
		list = append(list, d.gauges[name])
	}
	for _, a := range d.rivals {
		trained := newGauges(a, d.train.Pairs())["trainer"]
		trained.Name = a.name
		list = append(list, trained)
	}
	return list
}

// arms returns all runs in the order of the tables, the demo's own run last.
func (d *demo) arms() []*arm { return append(slices.Clone(d.rivals), d.arm) }
