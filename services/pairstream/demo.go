//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/eval"
	"github.com/pairstream/pairstream/internal/inspect"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/device"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

// demoOptions say what the demo runs on and how long.
type demoOptions struct {
	data    string // folder of tars; empty: scenes are generated
	dir     string
	heldOut int // images
	boot    int64
	epochs  int
	short   bool
	check   bool
}

func newDemoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "run the whole pipeline on one machine and show the result",
		Long: "Trains a first model on a slice of the data, publishes all pairs, and runs every stage until the crawl has ended.\n" +
			"Then it trains the first model as long on random mini-batches, and measures all three models on held-out pairs.\n" +
			"Settings of the environment override the demo's.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &demo{demoOptions: o, out: cmd.OutOrStdout(), terminal: term.IsTerminal(int(os.Stdout.Fd())), stages: newStages()}
			return d.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.data, "data", "", "folder of WebDataset tars; empty: scenes are generated")
	f.StringVar(&o.dir, "dir", "data/demo", "folder of everything that the demo writes; emptied first")
	f.IntVar(&o.heldOut, "holdout", 0, "images to keep back for evaluation; 0: 200 of scenes, else a seventh of the images, 100 at most")
	f.Int64Var(&o.boot, "bootstrap-steps", 0, "training steps of the first model; 0: 800")
	f.IntVar(&o.epochs, "epochs", 0, "times that a group is trained on; 0: 7, or 6 on your own data")
	f.BoolVar(&o.short, "short", false, "half of the training, for checks")
	f.BoolVar(&o.check, "check", false, "fail when a pair is not accounted for or a loss did not fall")
	return cmd
}

// demo is one run of the demo.
type demo struct {
	demoOptions
	out      io.Writer
	terminal bool

	plan      demoPlan
	settings  pipeline
	drawn     string          // folder of the generated scenes
	source    string          // folder of the pairs that are published: the data, or twins of it
	known     *knowledge      // nil: nobody knows what is true
	first     *dataset.Corpus // what the first model is trained on
	train     *dataset.Corpus
	held      *dataset.Corpus
	cache     *shard.Images // of decoded images, for the stages and what comes before and after them
	images    *shard.Images // the cache as the first model and the evaluations see it
	vocab     []string
	batches   int64 // expected
	summary   dataset.Summary
	published stream.Counters
	stages    *stages
	gauges    map[string]*gauge
	steps     lossCurve
	truth     *truth // nil: nobody knows it
	guard     checks // of connections
	outcomes
	started   time.Time
	streaming time.Duration
}

func (d *demo) weights() string     { return filepath.Join(d.dir, "bootstrap.safetensors") }
func (d *demo) checkpoints() string { return filepath.Join(d.dir, "checkpoints") }

// run makes the data and settles the settings, then goes on with [demo.runOn].
func (d *demo) run(ctx context.Context) error {
	d.started = time.Now()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	closeImages, err := d.openImages(ctx)
	if err != nil {
		return err
	}
	return errors.Join(d.runOn(ctx), closeImages())
}

// openImages opens the one cache of decoded images. Drawings may lie outside the folder of the pairs.
func (d *demo) openImages(ctx context.Context) (closeImages func() error, err error) {
	bucket := d.settings.Encoder.Bucket
	roots, err := shard.Roots([]string{d.data, d.source, d.drawn})
	if err != nil {
		return nil, err
	}
	bucket.Roots = append(roots, bucket.Roots...)
	d.cache, closeImages, err = bucket.OpenImages(ctx)
	return closeImages, err
}

// runOn trains, streams, measures and prints the table.
func (d *demo) runOn(ctx context.Context) error {
	worker, err := d.newWorker()
	if err != nil {
		return err
	}
	err = d.bootstrap(ctx, worker)
	worker.Close()
	if err != nil {
		return err
	}
	log, closeLog, err := d.stream(ctx)
	if err != nil {
		return err
	}
	counts, err := countRecords(ctx, log)
	if err == nil {
		d.guard, err = readChecks(ctx, log)
	}
	if err == nil && d.known != nil {
		err = d.compare(ctx, log)
	}
	var books *inspect.Status
	if err == nil {
		books, err = inspect.NewCollector(log, d.settings.Indexer.Options().GroupSize).Collect(ctx, time.Now())
	}
	var checkpoint string
	if err == nil {
		checkpoint, err = d.conclude(ctx, log)
	}
	if err = errors.Join(err, closeLog()); err != nil {
		return err
	}
	d.report(counts, books.Account, checkpoint)
	fmt.Fprintf(d.out, "\nto see it, open  file://%s\n", d.page())
	if d.check {
		return d.verify(counts, books.Account)
	}
	return nil
}

// newWorker starts a worker for the times at which no stage runs.
func (d *demo) newWorker() (*torch.Worker, error) {
	alone := d.settings.Device
	alone.Threads *= 2
	return alone.NewWorker()
}

// conclude trains on random mini-batches for comparison and measures all models. It reports the first one and the last
// checkpoint to the log, and writes the page that shows the run.
func (d *demo) conclude(ctx context.Context, log *stream.Log) (checkpoint string, err error) {
	worker, err := d.newWorker()
	if err != nil {
		return "", err
	}
	defer worker.Close()
	random, err := d.trainRandom(ctx, worker)
	if err != nil {
		return "", err
	}
	if checkpoint, _, err = trainer.LatestCheckpoint(d.checkpoints()); err != nil {
		return "", err
	}
	if d.outcomes, err = d.measure(ctx, worker, random, checkpoint); err != nil {
		return "", err
	}
	if err := d.publishEvaluations(ctx, log); err != nil {
		return "", err
	}
	return checkpoint, writeReport(ctx, io.Discard, log, d.settings.forConsole(d.dir), d.page())
}

// page returns where the page that shows the run is.
func (d *demo) page() string {
	path := filepath.Join(d.dir, "report.html")
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// bootstrap trains the first model, for the encoder, Con-D and the trainer's start.
func (d *demo) bootstrap(ctx context.Context, w *torch.Worker) error {
	size, err := model.Preset("tiny", len(d.vocab))
	if err != nil {
		return err
	}
	d.images = d.cache.ForInput(size.ImageSize)
	fmt.Fprintf(d.out, "training a first model on %d images with %d captions\n", d.first.Images(), d.first.Pairs())
	core := d.settings.Trainer.Options()
	var done atomic.Int64
	stop := watch(d.out, d.terminal, []*gauge{{
		name: "bootstrap", unit: "steps", done: done.Load, all: func() int64 { return d.boot },
	}})
	defer stop()
	return bootstrap.Train(ctx, w, d.images, d.first, bootstrap.Options{
		Preset: "tiny", Vocab: d.vocab, Steps: d.boot, Batch: demoBatch, Rate: demoFirstRate, Seed: core.Seed, Dropout: core.Dropout,
		Augment: dataset.Augmentation(d.settings.Trainer.Augment), Weights: bootstrap.Weights{ITC: core.ITCWeight, ITM: d.plan.matching, MLM: core.MLMWeight},
		Report: func(r *trainer.Result) { done.Store(r.Step + 1) },
	}, d.weights())
}

func (d *demo) evaluate(ctx context.Context, w *torch.Worker, path string, o eval.Options) (*eval.Report, error) {
	m, err := model.Load(ctx, w, path, model.LoadOptions{})
	if err != nil {
		return nil, err
	}
	defer m.Free()
	return evaluateModel(ctx, m, d.images, d.held, o)
}

// stream publishes the pairs and runs every stage until the crawl has ended.
func (d *demo) stream(ctx context.Context) (*stream.Log, func() error, error) {
	began := time.Now()
	rt := service.NewRuntime(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	log, closeLog, err := openLog(ctx, rt, d.settings.Stream, "127.0.0.1:0", filepath.Join(d.dir, "broker"))
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(d.out, "streaming %d pairs through %d lanes; log on %s\n", d.train.Pairs(), log.Config().Lanes, log.Config().Brokers[0])
	closeConsole := startConsole(ctx, d.out, log, rt, d.settings, d.stages, d.dir)
	stop := watch(d.out, d.terminal, d.newGauges())
	d.summary, err = publish(ctx, log, []string{d.source}, dataset.ProduceOptions{Held: d.held, Final: true}, &d.published, pace{})
	if err == nil {
		shared := device.NewShared(d.settings.Device, d.cache)
		err = runStages(ctx, log, rt, shared, d.settings, d.stages, func(s trainerservice.Step) { d.steps.add(s.Result) })
		err = errors.Join(err, shared.Close())
	}
	stop()
	closeConsole()
	d.streaming = time.Since(began)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, nil, errors.Join(err, closeLog())
	}
	return log, closeLog, nil
}

// compare judges the connections by what is true of the pictures.
func (d *demo) compare(ctx context.Context, log *stream.Log) error {
	d.truth = &truth{knowledge: *d.known, ecm: d.settings.Trainer.Options().ECM}
	return d.truth.read(ctx, log, demoBatch)
}

func (d *demo) newGauges() []*gauge {
	pairs := func() int64 { return int64(d.train.Pairs()) }
	// The stages also count seals, which come last.
	counted := func(n *atomic.Int64) func() int64 { return func() int64 { return min(n.Load(), pairs()) } }
	batches := func() int64 { return d.batches }
	d.gauges = map[string]*gauge{}
	var list []*gauge
	add := func(name, unit string, done, all func() int64) {
		d.gauges[name] = &gauge{name: name, unit: unit, done: done, all: all}
		list = append(list, d.gauges[name])
	}
	add("producer", "pairs", counted(&d.published.Out), pairs)
	add("encoder", "pairs", counted(&d.stages.encoder.In), pairs)
	add("indexer", "pairs", counted(&d.stages.indexer.In), pairs)
	add("grouper", "batches", d.stages.grouper.Out.Load, batches)
	add("discriminator", "batches", d.stages.discriminator.Out.Load, batches)
	add("trainer", "steps", d.steps.count, batches)
	return list
}
