//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/eval"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/produce"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/bootstrap"
	"github.com/pairstream/pairstream/internal/service/corpus"
	"github.com/pairstream/pairstream/internal/service/training"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/internal/token"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/testdata/scenes"
	"github.com/pairstream/pairstream/trainer"
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

const (
	demoBatch = 48
	demoVocab = 2000
	demoSlice = 0.5 // share of the images that the first model is trained on
	demoRate  = 1.5e-3
	demoLanes = 2
)

func newDemoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "run the whole pipeline on one machine and show the result",
		Long: "Trains a first model on a slice of the data, publishes all pairs, runs every stage until the crawl has ended,\n" +
			"and measures the model on held-out pairs before and after. Settings of the environment override the demo's.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &demo{demoOptions: o, out: cmd.OutOrStdout(), terminal: term.IsTerminal(int(os.Stdout.Fd()))}
			return d.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.data, "data", "", "folder of WebDataset tars; empty: scenes are generated")
	f.StringVar(&o.dir, "dir", "data/demo", "folder of everything that the demo writes; emptied first")
	f.IntVar(&o.heldOut, "holdout", 0, "images to keep back for evaluation; 0: 200 of scenes, else a seventh of the images, 100 at most")
	f.Int64Var(&o.boot, "bootstrap-steps", 0, "training steps of the first model; 0: 500, or 600 on your own data")
	f.IntVar(&o.epochs, "epochs", 0, "times that a group is trained on; 0: 12, or 14 on your own data")
	f.BoolVar(&o.short, "short", false, "half of the training, for checks")
	f.BoolVar(&o.check, "check", false, "fail when a pair is not accounted for or a loss did not fall")
	return cmd
}

// demo is one run of it.
type demo struct {
	demoOptions
	out      io.Writer
	terminal bool

	settings  pipeline
	train     *corpus.Corpus
	held      *corpus.Corpus
	images    *shard.Images // for the first model and the evaluations
	vocab     []string
	batches   int64 // expected
	summary   produce.Summary
	published stream.Counters
	stages    stages
	gauges    map[string]*gauge
	steps     lossCurve
	before    *eval.Report
	after     *eval.Report
	started   time.Time
	streaming time.Duration
}

func (d *demo) weights() string     { return filepath.Join(d.dir, "bootstrap.safetensors") }
func (d *demo) checkpoints() string { return filepath.Join(d.dir, "checkpoints") }

// run goes through the demo from data to table.
func (d *demo) run(ctx context.Context) error {
	d.started = time.Now()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	worker, err := d.settings.Device.NewWorker()
	if err != nil {
		return err
	}
	if err := d.bootstrap(ctx, worker); err != nil {
		worker.Close()
		return err
	}
	d.before, err = d.evaluate(ctx, worker, d.weights())
	worker.Close()
	if err != nil {
		return err
	}
	log, closeLog, err := d.stream(ctx)
	if err != nil {
		return err
	}
	counts, err := countRecords(ctx, log)
	if err = errors.Join(err, closeLog()); err != nil {
		return err
	}
	if worker, err = d.settings.Device.NewWorker(); err != nil {
		return err
	}
	defer worker.Close()
	checkpoint, _, err := trainer.LatestCheckpoint(d.checkpoints())
	if err != nil {
		return err
	}
	if d.after, err = d.evaluate(ctx, worker, checkpoint); err != nil {
		return err
	}
	d.report(counts, checkpoint)
	if d.check {
		return d.verify(counts)
	}
	return nil
}

// prepare generates or reads the data and settles the settings.
func (d *demo) prepare(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(d.dir), os.MkdirAll(d.dir, 0o755)); err != nil {
		return fmt.Errorf("emptying --dir: %w", err)
	}
	overrides := map[string]string{"AUGMENT_COLOR": "0.1"}
	generated := d.data == ""
	d.lengths(generated)
	if generated {
		d.data = filepath.Join(d.dir, "scenes")
		o := scenes.Defaults()
		o.Scenes, o.Captions = 1200, 3
		fmt.Fprintf(d.out, "generating %d captioned scenes in %s\n", o.Scenes, d.data)
		if err := scenes.WriteDir(ctx, d.data, o, nil); err != nil {
			return err
		}
		d.heldOut = max(d.heldOut, 200)
		// A crop changes counts, a flip left and right, and captions speak of both.
		overrides["AUGMENT_FLIP"], overrides["AUGMENT_MIN_SCALE"] = "0", "1"
	}
	if d.heldOut == 0 {
		all, _, err := corpus.Read(ctx, []string{d.data}, 0)
		if err != nil {
			return err
		}
		d.heldOut = min(100, all.Images()/7)
	}
	var err error
	if d.train, d.held, err = corpus.Read(ctx, []string{d.data}, d.heldOut); err != nil {
		return err
	}
	d.vocab = token.BuildVocab(d.train.Captions, demoVocab, 2)
	return d.settle(overrides)
}

// lengths fills in how long to train: photographs take longer to learn from than drawings.
func (d *demo) lengths(generated bool) {
	boot, epochs := int64(600), 14
	if generated {
		boot, epochs = 500, 12
	}
	if d.boot == 0 {
		d.boot = boot
	}
	if d.epochs == 0 {
		d.epochs = epochs
	}
	if d.short {
		d.boot, d.epochs = max(d.boot/2, 1), max(d.epochs/2, 1)
	}
}

// settle makes the settings: the demo's own, under those of the environment.
func (d *demo) settle(overrides map[string]string) error {
	perGroup := d.train.Pairs()/(2*demoLanes) + d.train.Pairs()/(8*demoLanes)
	d.batches = int64(d.epochs * d.train.Pairs() / demoBatch)
	roots, err := shard.Roots([]string{d.data})
	if err != nil {
		return err
	}
	settings := map[string]string{
		"LOG_LEVEL": "warn", "LANES": strconv.Itoa(demoLanes), "SEED": "1", "BUCKET_ROOTS": roots[0],
		"ENCODER_CHECKPOINT": d.weights(), "COND_CHECKPOINT": d.weights(), "TRAIN_INIT": d.weights(),
		"CHECKPOINT_DIR": d.checkpoints(), "TRAIN_EXIT_AT_END": "true", "CHECKPOINT_EVERY": "500",
		"GROUP_SIZE": strconv.Itoa(max(perGroup, 2)), "CLUSTERS": "32", "NEIGHBORS_K2": "100", "NOUN_MIN_COUNT": "5",
		"EPOCHS": strconv.Itoa(d.epochs), "BATCH_SIZE": strconv.Itoa(demoBatch),
		"QUEUE_SIZE": strconv.Itoa(8 * demoBatch), "SEARCH_SPACE": strconv.Itoa(4 * demoBatch), "GROUPER_WORKERS": "2",
		"TEXTS": "none", "LR": fmt.Sprint(demoRate), "LR_MIN": fmt.Sprint(demoRate / 20), "LR_WARMUP": fmt.Sprint(demoRate / 10),
		"LR_WARMUP_STEPS": "20", "LR_TOTAL_STEPS": strconv.FormatInt(max(d.batches, 21), 10), "MLM_PROBABILITY": "0.15",
		// A model this small learns to align first: with equal weights the words to be guessed take most of the gradient.
		"ITM_WEIGHT": "0.3", "MLM_WEIGHT": "0.05", "AUGMENT_MIN_SCALE": "0.35", "TORCH_THREADS": "1",
		// Con-D has seen a few thousand pairs: only what it is sure of is a connection, and targets stay sharp throughout.
		"ECM_HIGH": "0.95", "ITC_ALPHA": "0.1", "ITC_SOFT_FROM_EPOCH": "0",
	}
	maps.Copy(settings, overrides)
	maps.Copy(settings, config.Environ())
	d.settings, err = config.Parse[pipeline](settings)
	return err
}

// bootstrap trains the first model, for the encoder, Con-D and the trainer's start.
func (d *demo) bootstrap(ctx context.Context, w *torch.Worker) error {
	size, err := model.Preset("tiny", len(d.vocab))
	if err != nil {
		return err
	}
	var closeImages func() error
	if d.images, closeImages, err = bootstrap.Images(ctx, []string{d.data}, size.ImageSize, d.settings.Bucket.CacheBytes); err != nil {
		return err
	}
	_ = closeImages // the bucket stays open for the evaluations, until the process ends
	slice := d.train.Slice(demoSlice)
	fmt.Fprintf(d.out, "training a first model on %d images with %d captions\n", slice.Images(), slice.Pairs())
	core := d.settings.Trainer.Core
	var done atomic.Int64
	stop := watch(d.out, d.terminal, []*gauge{{
		name: "bootstrap", unit: "steps", done: done.Load, all: func() int64 { return d.boot },
	}})
	defer stop()
	return bootstrap.Train(ctx, w, d.images, slice, bootstrap.Options{
		Preset: "tiny", Vocab: d.vocab, Steps: d.boot, Batch: demoBatch, Rate: demoRate, Seed: core.Seed,
		Augment: d.settings.Trainer.Augment, Weights: bootstrap.Weights{ITC: core.ITCWeight, ITM: core.ITMWeight, MLM: core.MLMWeight},
		Report: func(r *trainer.Result) { done.Store(r.Step + 1) },
	}, d.weights())
}

func (d *demo) evaluate(ctx context.Context, w *torch.Worker, path string) (*eval.Report, error) {
	m, err := model.Load(ctx, w, path, model.LoadOptions{})
	if err != nil {
		return nil, err
	}
	defer m.Free()
	return evaluateModel(ctx, m, d.images, d.held, eval.NoRerank)
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
	stop := watch(d.out, d.terminal, d.newGauges())
	d.summary, err = publish(ctx, log, []string{d.data}, produce.Options{HeldOut: d.heldOut, Final: true}, &d.published)
	if err == nil {
		err = runStages(ctx, log, rt, d.settings, &d.stages, func(s training.Step) { d.steps.add(s.Result) })
	}
	stop()
	d.streaming = time.Since(began)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, nil, errors.Join(err, closeLog())
	}
	return log, closeLog, nil
}

func (d *demo) newGauges() []*gauge {
	pairs := func() int64 { return int64(d.train.Pairs()) }
	batches := func() int64 { return d.batches }
	d.gauges = map[string]*gauge{}
	var list []*gauge
	add := func(name, unit string, done, all func() int64) {
		d.gauges[name] = &gauge{name: name, unit: unit, done: done, all: all}
		list = append(list, d.gauges[name])
	}
	add("producer", "pairs", d.published.Out.Load, pairs)
	add("encoder", "pairs", d.stages.encoder.In.Load, pairs)
	add("indexer", "pairs", d.stages.indexer.In.Load, pairs)
	add("grouper", "batches", d.stages.grouper.Out.Load, batches)
	add("discriminator", "batches", d.stages.discriminator.Out.Load, batches)
	add("trainer", "steps", d.steps.count, batches)
	return list
}
