// Package batches writes the mini-batches of a finished data set into Parquet files, which form a plan. It runs all
// stages but the trainer in this process, on a log in the folder of the plan.
package batches

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/plans"
	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/operate/gauge"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/internal/operate/pages"
	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/recipe"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
)

// planning holds the state of a plan while it is written.
type planning struct {
	sources []string // as the user gave them
	input
	columns  table.PictureColumns
	features []*plans.Features // of a model that is trained elsewhere, by epoch

	forgotten map[string][]byte // tombstones
	out       string
	settings  pipeline.Settings
	environ   map[string]string
	w         io.Writer
	terminal  bool

	published stream.Counters
	stages    *pipeline.Stages
	pairs     atomic.Int64 // of the data
	batches   atomic.Int64 // written
	empty     bool         // the run has failed, and another run could use nothing of it
}

// Options hold the data, the models and the folder of a plan.
type Options struct {
	Sources  []string // tars, folders, Parquet files
	Columns  table.PictureColumns
	Features []string // files with the features of a model that is trained elsewhere, one for each epoch before the last
	Out      string   // folder of the plan
	Recipe   string   // empty: RECIPE
	Epochs   int      // 0: EPOCHS
	Weights  string   // of the encoder and Con-D, if the environment names none
	Log      string   // folder of an embedded broker's log, whose tombstones apply without KAFKA_BROKERS
	Tars     string   // folder for the mini-batches as tars with their images; empty: none
	PerTar   int      // full mini-batches in a tar
	Strategy string   // module:function of Python that orders the pairs of each epoch; empty: STRATEGY
	Blend    string   // plans and weights that make the plan, such as a/:0.7,b/:0.3; empty: the data do
}

// Run writes the plan with the settings of environ, to which it adds defaults. Then it writes the tars. Without sources
// it writes those of a plan that is complete.
func Run(ctx context.Context, o Options, environ map[string]string, out io.Writer) error {
	if err := o.checkTars(); err != nil {
		return err
	}
	if o.Recipe != "" {
		environ[recipe.Variable] = o.Recipe
	}
	if len(o.Features) > 0 && environ["GRIT_FEATURES"] == "" {
		environ["GRIT_FEATURES"] = string(grouper.SourceTraining)
	}
	if o.Strategy != "" {
		environ["STRATEGY"] = string(grouper.StrategyOwn) + ":" + o.Strategy
	}
	if o.Epochs > 0 {
		environ["EPOCHS"] = strconv.Itoa(o.Epochs)
	}
	forgotten, err := readForgotten(ctx, environ, o.Log)
	if err != nil {
		return err
	}
	terminal := term.IsTerminal(int(os.Stdout.Fd()))
	if o.Blend != "" {
		if err := o.blend(ctx, out); err != nil || o.Tars == "" {
			return err
		}
	}
	if len(o.Sources) == 0 {
		return o.tars(ctx, environ, forgotten, out, terminal)
	}
	roots := environ["BUCKET_ROOTS"]
	p, err := newPlanning(o.Sources, o.Out, o.Weights, environ)
	if err != nil {
		return err
	}
	p.forgotten, p.columns = forgotten, o.Columns
	if err := errors.Join(p.folder().Check(), p.apart(), p.validateLoop(len(o.Features)), p.readFeatures(ctx, o.Features)); err != nil {
		return err
	}
	p.w, p.terminal = out, terminal
	if err := p.run(ctx); err != nil || o.Tars == "" {
		return err
	}
	return o.tars(ctx, map[string]string{"BUCKET_ROOTS": roots}, forgotten, out, terminal)
}

// planDefaults are used for settings that the environment leaves out. With one lane, all pairs up to GROUP_SIZE form
// one group.
var planDefaults = map[string]string{"LANES": "1", "GRIT_FEATURES": "encoder"}

// newPlanning parses the settings. The plan has a log of its own, which exists during the run.
func newPlanning(paths []string, out, weights string, environ map[string]string) (*planning, error) {
	in, err := findInput(paths, filepath.Join(out, "images"))
	if err != nil {
		return nil, err
	}
	if more := environ["BUCKET_ROOTS"]; more != "" {
		in.roots = append(in.roots, more)
	}
	environ["BUCKET_ROOTS"] = strings.Join(in.roots, ",")
	for name, value := range planDefaults {
		if environ[name] == "" {
			environ[name] = value
		}
	}
	for _, name := range planModels {
		if environ[name] == "" {
			environ[name] = weights
		}
	}
	for _, name := range []string{"KAFKA_BROKERS", "NAMESPACE"} {
		delete(environ, name)
	}
	p := &planning{sources: paths, input: in, out: out, environ: environ, stages: pipeline.NewStages()}
	p.settings, err = config.Parse[pipeline.Settings](environ)
	p.settings.Discriminator.KeepCandidates = true
	p.settings.Grouper.Planner = p.planner()
	p.boundCaches()
	return p, errors.Join(err, modelsAreThere(environ, p.settings.Discriminator.Candidates))
}

// Most memory of what a run keeps to save time, over all lanes. Data that is larger than a cache is decoded again in
// each epoch, whatever the size of the cache.
const (
	mostImageBytes   = 64 << 20 // decoded
	mostEncodedBytes = 64 << 20 // images and texts of Con-D
	mostScores       = 1 << 20  // of Con-D, about 50 bytes each
)

// boundCaches bounds the caches of the stages, which run in one process here and see every pair of the data.
func (p *planning) boundCaches() {
	lanes := max(1, p.settings.Stream.Lanes)
	images := min(mostImageBytes, device.CacheBytes())
	p.settings.Encoder.Bucket.CacheBytes, p.settings.Discriminator.Bucket.CacheBytes = images, images
	p.settings.Discriminator.KeepBytes = max(1, min(mostEncodedBytes, service.CacheBytes(4))/int64(lanes))
	p.settings.Discriminator.Keep = max(1, mostScores/lanes)
}

func (p *planning) run(ctx context.Context) error {
	began := time.Now()
	settings, err := pipeline.ReplaySettings(p.environ)
	if err != nil {
		return err
	}
	ecm := p.settings.Trainer.Options().ECM
	function, err := p.functionDigest(ctx)
	if err != nil {
		return err
	}
	m := Manifest{
		Version: plans.Version, Sources: shownSources(p.sources), Recipe: p.settings.Process.Recipe, Settings: settings, Lanes: p.settings.Stream.Lanes,
		Epochs: p.settings.Grouper.Options().Epochs, High: ecm.High, Low: ecm.Low, Features: p.digests(), Forgotten: forgottenDigest(p.forgotten),
	}
	if m.Inputs, err = p.inputs(ctx, settings); err != nil {
		return err
	}
	m.Inputs.Function = function
	done, err := p.begin(m)
	if err != nil {
		return err
	}
	if done {
		fmt.Fprintf(p.w, "%s is complete\n", p.out)
		return p.leave()
	}
	if err := p.make(ctx, &m); err != nil {
		if p.empty || errors.Is(err, errNoBatches) {
			err = errors.Join(err, p.abandon())
		}
		return err
	}
	if err := writeJSON(p.manifest(), m); err != nil {
		return err
	}
	p.print(m, time.Since(began))
	return p.leave()
}

// make runs the stages on a log in the folder and writes the files meanwhile, until every lane has ended.
func (p *planning) make(ctx context.Context, m *Manifest) (err error) {
	if err := plans.Pack(ctx, p.tables, p.images(), p.columns); err != nil {
		disk := errors.As(err, new(*fs.PathError)) // a full disk, for example: the next run continues, as after an interruption
		p.empty = p.fresh() && ctx.Err() == nil && !disk
		return err
	}
	keys, err := p.readKeys(ctx)
	if err != nil {
		p.empty = p.fresh()
		return err
	}
	m.Pairs = int(p.pairs.Load())
	rt := service.NewRuntime(rundir.Logger(slog.LevelError))
	log, closeLog, err := pipeline.OpenLog(ctx, rt, p.settings.Stream, "127.0.0.1:0", p.broker())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	if _, err := log.AddTombstones(ctx, p.forgotten); err != nil {
		return err
	}
	stopGauges := gauge.Watch(p.w, p.terminal, p.gauges())
	all, running := errgroup.WithContext(ctx)
	stagesCtx, stop := context.WithCancel(running)
	defer stop()
	all.Go(func() error {
		_, err := producer.Publish(running, log, p.tars, dataset.ProduceOptions{Final: true}, &p.published, producer.Pace{})
		return err
	})
	all.Go(func() error {
		shared := device.NewShared(p.settings.Device, nil)
		err := pipeline.RunStages(stagesCtx, log, rt, shared, p.settings, p.stages, nil)
		if err = errors.Join(err, shared.Close()); err == nil && stagesCtx.Err() == nil {
			err = errors.New("the stages have ended before the lanes did")
		}
		return err
	})
	all.Go(func() error {
		defer stop()
		return p.export(running, log, m, keys)
	})
	err = all.Wait()
	stopGauges()
	if err == nil {
		err = p.tellAside(ctx, log)
	}
	if err == nil {
		err = p.tellGuard(ctx, log)
	}
	if err != nil {
		p.empty = pipeline.NothingEncoded(ctx, log)
		return err
	}
	return pages.WriteReport(ctx, p.w, log, p.settings.ForConsole(p.work()), console.Known{}, filepath.Join(p.out, "report.html"))
}

// tellGuard prints why a plan has no connections, or which share of them is true.
func (p *planning) tellGuard(ctx context.Context, log *stream.Log) error {
	said, err := inspect.ReadChecks(ctx, log)
	if err != nil {
		return err
	}
	for _, line := range said.Lines() {
		fmt.Fprintln(p.w, "Con-D: "+line)
	}
	return nil
}

// export writes the files of all lanes.
func (p *planning) export(ctx context.Context, log *stream.Log, m *Manifest, keys plans.Keys) error {
	var mu sync.Mutex
	all, ctx := errgroup.WithContext(ctx)
	for lane := range log.Config().Lanes {
		all.Go(func() error {
			w := plans.NewWriter(p.out, lane, m.High, keys)
			model, err := p.follow(ctx, log, lane, w, keys)
			if err != nil {
				return errors.Join(err, w.Discard())
			}
			files, err := w.Close()
			mu.Lock()
			defer mu.Unlock()
			m.Files = append(m.Files, files...)
			if model != "" {
				m.ConD = model
			}
			return err
		})
	}
	err := all.Wait()
	slices.SortFunc(m.Files, func(a, b plans.File) int {
		if a.Epoch != b.Epoch {
			return int(a.Epoch - b.Epoch)
		}
		return int(a.Lane - b.Lane)
	})
	return err
}

// follow writes the mini-batches of a lane until its final seal, or until those of the run's epochs are written.
func (p *planning) follow(ctx context.Context, log *stream.Log, lane int, w *plans.Writer, keys plans.Keys) (model string, err error) {
	var loop *closing
	if p.closesLoop() {
		if loop, err = p.newClosing(ctx, log, lane, keys); err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, producer.ClosePublisher(loop.publisher)) }()
	}
	r := log.OpenReader(schemas.Scored, lane, stream.Position{}, stream.ReaderOptions{})
	defer r.Close()
	for {
		rec, err := r.Next(ctx)
		if err != nil {
			return "", fmt.Errorf("reading lane %d of %s: %w", lane, schemas.Scored, err)
		}
		value, err := schemas.Unmarshal(rec.Schema, rec.Value)
		if err != nil {
			return "", err
		}
		switch b := value.(type) {
		case *schemas.ScoredBatch:
			model = b.Model
			if err := w.Add(b); err != nil {
				return "", err
			}
			p.batches.Add(1)
			if loop == nil {
				continue
			}
			if ended, err := loop.add(ctx, b); ended || err != nil {
				return model, err
			}
		case *schemas.Seal:
			if b.Final {
				return model, nil
			}
		}
	}
}

// gauges returns the progress of the stages, with estimated totals.
func (p *planning) gauges() []*gauge.Gauge {
	pairs := p.pairs.Load
	batches := func() int64 {
		o := p.settings.Grouper.Options()
		return (pairs() + int64(o.BatchSize) - 1) / int64(o.BatchSize) * int64(p.target())
	}
	return []*gauge.Gauge{
		{Name: "encoder", Unit: "pairs", Done: p.stages.Encoder.In.Load, All: pairs},
		{Name: "indexer", Unit: "pairs", Done: p.stages.Indexer.In.Load, All: pairs},
		{Name: "discriminator", Unit: "batches", Done: p.stages.Discriminator.Out.Load, All: batches},
		{Name: "written", Unit: "batches", Done: p.batches.Load, All: batches},
	}
}

func (p *planning) print(m Manifest, took time.Duration) {
	var samples, scores, high int64
	batches := 0
	for _, f := range m.Files {
		samples, scores, high, batches = samples+f.Samples, scores+f.Scores, high+f.High, batches+f.Batches
	}
	fmt.Fprintf(p.w, "%s: %d mini-batches of %d epochs with %d samples; %d of %d candidates are connections; %.1f s, %.0f samples/s\n",
		p.out, batches, p.target(), samples, high, scores, took.Seconds(), float64(samples)/took.Seconds())
}
