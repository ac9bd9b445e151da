// Package demo runs the pipeline on one machine, on drawn scenes or on the user's data. It trains with three ways to
// make mini-batches and compares the models.
package demo

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

	"golang.org/x/term"

	"github.com/pairstream/pairstream/internal/base/cputime"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/demo/models"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/operate/gauge"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/internal/operate/pages"
	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// Options select the data of the demo and the length of training.
type Options struct {
	Data    string // folder of tars; empty: scenes are generated
	Partial bool   // the captions of the scenes omit things
	Dir     string
	Seed    uint64 // of the scenes and of the runs
	HeldOut int    // images
	Boot    int64
	Epochs  int
	Short   bool
	Check   bool
}

// Run draws or reads the data, trains on it in every way, and prints the results.
func Run(ctx context.Context, o Options, out io.Writer) error {
	d := &demo{Options: o, out: out, terminal: term.IsTerminal(int(os.Stdout.Fd()))}
	return d.run(ctx)
}

// demo holds the runs of a demo and the data that they share.
type demo struct {
	Options
	*arm     // the demo's own run, which the console shows
	rivals   []*arm
	out      io.Writer
	terminal bool

	plan    plan
	drawn   string          // folder of the generated scenes
	source  string          // folder of the pairs that are published: the data, or crops of it
	known   *knowledge      // nil: the truth is not known
	own     *dataset.Corpus // the pairs of --data
	first   *dataset.Corpus // data of the first model; nil: the scenes bring the model
	train   *dataset.Corpus
	held    *dataset.Corpus
	cache   *shard.Images // of decoded images, for the stages, the first model and the evaluations
	images  *shard.Images // the cache as the first model and the evaluations see it
	vocab   []string
	truth   *truth                   // nil: not known
	guard   inspect.Checks           // of connections
	spent   map[string]time.Duration // processor time of the stages in the demo's own run
	before  *eval.Report
	started time.Time
}

func (d *demo) weights() string { return filepath.Join(d.Dir, "bootstrap.safetensors") }

// cond returns the weights of Con-D. Scenes bring weights for it; on other data it has those of the first model.
func (d *demo) cond() string {
	if d.first == nil {
		return filepath.Join(d.Dir, "con-d.safetensors")
	}
	return d.weights()
}

// run prepares the data and the settings, opens the images, and calls [demo.runOn].
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

// openImages opens the only cache of decoded images. Drawings may be outside the folder of the pairs.
func (d *demo) openImages(ctx context.Context) (closeImages func() error, err error) {
	bucket := d.settings.Encoder.Bucket
	roots, err := shard.Roots([]string{d.Data, d.source, d.drawn})
	if err != nil {
		return nil, err
	}
	bucket.Roots = append(roots, bucket.Roots...)
	d.cache, closeImages, err = bucket.OpenImages(ctx)
	return closeImages, err
}

// runOn trains, streams, measures and prints the table.
func (d *demo) runOn(ctx context.Context) (err error) {
	if err := d.bootstrap(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.closeLogs()) }()
	if err := d.stream(ctx); err != nil {
		return err
	}
	counts, err := countRecords(ctx, d.log)
	if err != nil {
		return err
	}
	if d.guard, err = inspect.ReadChecks(ctx, d.log); err != nil {
		return err
	}
	books, err := inspect.NewCollector(d.log, d.settings.Indexer.Options().GroupSize).Collect(ctx, time.Now())
	if err != nil {
		return err
	}
	if err := d.conclude(ctx); err != nil {
		return err
	}
	d.print(counts, books.Account)
	fmt.Fprintf(d.out, "\nto see it, open  file://%s\n", d.page())
	if d.Check {
		return d.verify(counts, books.Account)
	}
	return nil
}

// closeLogs closes the logs of all runs. The log of the demo's own run also closes the broker.
func (d *demo) closeLogs() error {
	var err error
	for _, a := range d.arms() {
		if a.close != nil {
			err = errors.Join(err, a.close())
		}
	}
	return err
}

// newWorker starts a worker with more threads, for use while no stage runs.
func (d *demo) newWorker() (*torch.Worker, error) {
	alone := d.settings.Device
	alone.Threads *= 2
	return alone.NewWorker()
}

// conclude compares the mini-batches of all runs with the truth, measures all models, publishes the measures to their
// logs, and writes the report.
func (d *demo) conclude(ctx context.Context) error {
	if d.known != nil {
		d.truth = &truth{knowledge: *d.known, ecm: d.settings.Trainer.Options().ECM}
		for _, a := range d.arms() {
			if err := d.truth.read(ctx, a); err != nil {
				return err
			}
		}
	}
	if err := d.measure(ctx); err != nil {
		return err
	}
	if err := d.publishEvaluations(ctx); err != nil {
		return err
	}
	known := console.Known{Titles: map[string]string{}, Result: won(d.arms()) + ".", Next: d.commands()}
	for _, a := range d.arms() {
		known.Titles[a.name] = a.title
	}
	if d.known != nil {
		known.Fits = d.known.fits
	}
	return pages.WriteReport(ctx, io.Discard, d.log, d.settings.ForConsole(d.Dir), known, d.page())
}

// page returns the path of the report.
func (d *demo) page() string {
	path := filepath.Join(d.Dir, "report.html")
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// bootstrap trains the first model, for the encoder, Con-D and the start of training. Scenes bring their own models.
func (d *demo) bootstrap(ctx context.Context) error {
	if d.first == nil {
		return d.bringModels()
	}
	w, err := d.newWorker()
	if err != nil {
		return err
	}
	defer w.Close()
	size, err := model.Preset("tiny", len(d.vocab))
	if err != nil {
		return err
	}
	d.images = d.cache.ForInput(size.ImageSize)
	fmt.Fprintf(d.out, "training a first model on %d images with %d captions\n", d.first.Images(), d.first.Pairs())
	core := d.settings.Trainer.Options()
	var done atomic.Int64
	stop := gauge.Watch(d.out, d.terminal, []*gauge.Gauge{{
		Name: "bootstrap", Unit: "steps", Done: done.Load, All: func() int64 { return d.Boot },
	}})
	defer stop()
	return bootstrap.Train(ctx, w, d.images, d.first, bootstrap.Options{
		Preset: "tiny", Vocab: d.vocab, Steps: d.Boot, Batch: demoBatch, Rate: demoFirstRate, Seed: core.Seed, Dropout: core.Dropout,
		Augment: d.settings.Trainer.Augment, Weights: bootstrap.Weights{ITC: core.ITCWeight, ITM: d.plan.matching, MLM: core.MLMWeight},
		Report: func(r *trainer.Result) { done.Store(r.Step + 1) },
	}, d.weights())
}

// bringModels writes the models that come with the scenes.
func (d *demo) bringModels() error {
	size, err := model.Preset(models.Preset, 1)
	if err != nil {
		return err
	}
	d.images = d.cache.ForInput(size.ImageSize)
	for path, weights := range map[string][]byte{d.weights(): d.plan.first, d.cond(): d.plan.cond} {
		if err := os.WriteFile(path, weights, 0o644); err != nil { //nolint:gosec // weights are no secret
			return fmt.Errorf("writing the first models: %w", err)
		}
	}
	return nil
}

func (d *demo) evaluate(ctx context.Context, w *torch.Worker, path string, o eval.Options) (*eval.Report, error) {
	m, err := model.Load(ctx, w, path, model.LoadOptions{Frozen: true})
	if err != nil {
		return nil, err
	}
	defer m.Free()
	shown, err := eval.OfCorpus(ctx, m, d.images, d.held)
	if err != nil {
		return nil, err
	}
	return eval.Evaluate(ctx, m, shown, o)
}

// stream runs the pipeline of every arm, on an embedded broker unless KAFKA_BROKERS names others, and shows the
// progress.
func (d *demo) stream(ctx context.Context) (err error) {
	rt := service.NewRuntime(rundir.Logger(slog.LevelError))
	if d.log, d.close, err = pipeline.OpenLog(ctx, rt, d.settings.Stream, "127.0.0.1:0", filepath.Join(d.Dir, "broker")); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "streaming %d pairs through %d lanes; log on %s\n", d.train.Pairs(), d.log.Config().Lanes, d.log.Config().Brokers[0])
	for _, a := range d.rivals {
		fmt.Fprintf(d.out, "beside it, for comparison: the same pairs and steps with %s\n", a.title)
	}
	closeConsole := pipeline.StartConsole(ctx, d.out, d.log, rt, d.settings, d.stages, d.Dir)
	defer closeConsole()
	d.gauges = newGauges(d.arm, d.train.Pairs())
	stop := gauge.Watch(d.out, d.terminal, d.watched())
	defer stop()
	count, err := cputime.Start()
	if err != nil {
		return err
	}
	err = d.runArms(ctx, rt)
	var failed error
	d.spent, failed = count.Stop()
	return errors.Join(err, failed)
}
