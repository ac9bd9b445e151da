package bootstrap_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// bench is the start of every training here.
type bench struct {
	worker *torch.Worker
	images *shard.Images
	data   *dataset.Corpus
	vocab  []string
}

func newBench(t *testing.T) *bench { return newBenchOf(t, 14) }

func newBenchOf(t *testing.T, images int) *bench {
	t.Helper()
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "scenes")
	o := scenes.Defaults()
	o.Scenes, o.Captions, o.Side = images, 2, 48
	must.Do(t, scenes.WriteDir(ctx, dir, o, nil))
	b := &bench{}
	var err error
	if b.data, _, err = dataset.Read(ctx, []string{dir}, 0); err != nil {
		t.Fatal(err)
	}
	b.vocab = token.BuildVocab(b.data.Captions, 200, 1)
	var closeImages func() error
	if b.images, closeImages, err = bootstrap.Images(ctx, []string{dir}, 64, 1<<24); err != nil {
		t.Fatal(err)
	}
	before := torch.Live()
	if b.worker, err = torch.NewWorker(torch.WorkerOptions{Device: "cpu", Threads: 1, Deterministic: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.worker.Close()
		must.Check(t, closeImages())
		if n := torch.Live() - before; n != 0 {
			t.Errorf("%d tensors were not given back", n)
		}
	})
	return b
}

func (b *bench) options() bootstrap.Options {
	return bootstrap.Options{
		Preset: "tiny", Vocab: b.vocab, Steps: 5, Batch: 8, Rate: 1e-3, Seed: 1,
		Augment: dataset.Augmentation{MinScale: 0.8, Color: 0.1, Workers: 2}, Weights: bootstrap.Weights{ITC: 1, ITM: 1, MLM: 1},
	}
}

func (b *bench) fineTuning() bootstrap.FineTuning {
	o := bootstrap.DefaultFineTuning()
	o.Epochs, o.Batch, o.Core.StepBatches, o.Core.Schedule.Rate, o.Core.Momentum.Queue, o.Seed, o.Augment = 2, 8, 2, 1e-3, 20, 1, b.options().Augment
	return o
}

func read(t *testing.T, path string) string {
	t.Helper()
	content := must.Get(os.ReadFile(path))(t)
	return string(content)
}

// interrupt runs a training with a checkpoint after every second step, stops it before the end, and runs it again.
func interrupt(t *testing.T, at int64, train func(ctx context.Context, c bootstrap.Checkpoints, report func(*trainer.Result)) error) {
	t.Helper()
	c := bootstrap.Checkpoints{Dir: t.TempDir(), Every: 2}
	ctx, cancel := context.WithCancel(context.Background())
	err := train(ctx, c, func(r *trainer.Result) {
		if r.Step == at {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("an interrupted training ends with %v", err)
	}
	first := int64(-1)
	err = train(context.Background(), c, func(r *trainer.Result) {
		if first < 0 {
			first = r.Step
		}
	})
	if err != nil || first < 2 || first > at {
		t.Fatalf("a training interrupted after step %d goes on at step %d: %v", at, first, err)
	}
}

func TestTrainGoesOnWhereItWasInterrupted(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	straight, again := filepath.Join(dir, "new", "straight"), filepath.Join(dir, "again")
	must.Do(t, bootstrap.Train(context.Background(), b.worker, b.images, b.data, b.options(), straight))
	interrupt(t, 3, func(ctx context.Context, c bootstrap.Checkpoints, report func(*trainer.Result)) error {
		o := b.options()
		o.Checkpoints, o.Report = c, report
		return bootstrap.Train(ctx, b.worker, b.images, b.data, o, again)
	})
	if read(t, straight) != read(t, again) {
		t.Error("the weights of a straight and of an interrupted training differ")
	}
}

// A training may begin with weights that have a size and a vocabulary of their own. It goes on from them.
func TestTrainBeginsWithWeights(t *testing.T) {
	b := newBench(t)
	size := must.Get(model.Preset("micro", len(b.vocab)-1))(t)
	m := must.Get(model.New(t.Context(), b.worker, size, 7))(t)
	defer m.Free()
	m.Vocab = b.vocab[:len(b.vocab)-1]
	dir := t.TempDir()
	start, out := filepath.Join(dir, "start"), filepath.Join(dir, "out")
	must.Do(t, m.Save(t.Context(), start))
	o := b.options()
	o.Start, o.Steps, o.Rate = start, 1, 1e-9
	must.Do(t, bootstrap.Train(t.Context(), b.worker, b.images, b.data, o, out))
	trained := must.Get(model.Load(t.Context(), b.worker, out, model.LoadOptions{}))(t)
	defer trained.Free()
	if trained.Config != m.Config || !slices.Equal(trained.Vocab, m.Vocab) {
		t.Errorf("size %+v and %d words, want %+v and %d", trained.Config, len(trained.Vocab), m.Config, len(m.Vocab))
	}
	before := must.Get(m.Export(t.Context()))(t)
	after := must.Get(trained.Export(t.Context()))(t)
	for i := range before {
		was, _ := before[i].Float32s()
		is, _ := after[i].Float32s()
		for k := range was {
			if math.Abs(float64(was[k]-is[k])) > 1e-6 {
				t.Fatalf("value %d of %s goes from %v to %v in a step that moves next to nothing", k, before[i].Name, was[k], is[k])
			}
		}
	}
	o.Start = filepath.Join(dir, "none")
	if err := bootstrap.Train(t.Context(), b.worker, b.images, b.data, o, out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v for weights that are not there", err)
	}
}

func TestFineTuneGoesOnWhereItWasInterrupted(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	start, straight, again := filepath.Join(dir, "start"), filepath.Join(dir, "straight"), filepath.Join(dir, "again")
	must.Do(t, bootstrap.Train(context.Background(), b.worker, b.images, b.data, b.options(), start))
	fineTune := func(ctx context.Context, o bootstrap.FineTuning, path string) error {
		m, err := model.Load(ctx, b.worker, start, model.LoadOptions{})
		if err != nil {
			return err
		}
		return bootstrap.FineTune(ctx, m, b.images, b.data, o, path)
	}
	o := b.fineTuning()
	done := 0
	o.Report = func(r *trainer.Result, steps int64) {
		if steps != 6 || r.Step != int64(done) { // 28 captions make 3 steps of 8 an epoch
			t.Errorf("step %d of %d, want %d of 6", r.Step, steps, done)
		}
		if r.Losses.MLM != 0 || r.Losses.ITC <= 0 || r.Losses.ITM <= 0 || r.Counts.MatchPairs != 24 {
			t.Errorf("step %d: %+v %+v, want ITC and ITM alone", r.Step, r.Losses, r.Counts)
		}
		done++
	}
	if err := fineTune(context.Background(), o, straight); err != nil || done != 6 {
		t.Fatalf("%d steps, error %v", done, err)
	}
	if read(t, start) == read(t, straight) {
		t.Error("fine-tuning changes nothing")
	}
	interrupt(t, 4, func(ctx context.Context, c bootstrap.Checkpoints, report func(*trainer.Result)) error {
		o := b.fineTuning()
		o.Checkpoints = c
		o.Report = func(r *trainer.Result, _ int64) { report(r) }
		return fineTune(ctx, o, again)
	})
	if read(t, straight) != read(t, again) {
		t.Error("the weights of a straight and of an interrupted fine-tuning differ")
	}
}

// A model that was pre-trained on texts of 25 tokens is fine-tuned on 30, and its file says so. Distillation makes
// other weights.
func TestFineTuneLengthensTextsAndDistils(t *testing.T) {
	b := newBench(t)
	size := must.Get(model.Preset("tiny", len(b.vocab)))(t)
	dir := t.TempDir()
	for _, c := range []struct {
		name         string
		tokens, want int
		distill      float64
	}{{"hard", 25, 30, 0}, {"distilled", 25, 30, 0.4}, {"own length", 24, 24, 0.4}} {
		size.TextTokens = c.tokens
		m := must.Get(model.New(t.Context(), b.worker, size, 1))(t)
		m.Vocab = b.vocab
		o := b.fineTuning()
		o.Distill = c.distill
		path := filepath.Join(dir, c.name)
		must.Do(t, bootstrap.FineTune(t.Context(), m, b.images, b.data, o, path))
		tuned := must.Get(model.Load(t.Context(), b.worker, path, model.LoadOptions{}))(t)
		if got := tuned.Config.TextTokens; got != c.want {
			t.Errorf("%s: texts of %d tokens, want %d", c.name, got, c.want)
		}
		tuned.Free()
	}
	if read(t, filepath.Join(dir, "hard")) == read(t, filepath.Join(dir, "distilled")) {
		t.Error("distillation changes nothing")
	}
}

// With a measure the file has the weights of the best epoch, also where the run was interrupted after it.
func TestFineTuneKeepsTheBestEpoch(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	start := filepath.Join(dir, "start")
	must.Do(t, bootstrap.Train(t.Context(), b.worker, b.images, b.data, b.options(), start))
	tune := func(ctx context.Context, path string, change func(*bootstrap.FineTuning)) error {
		o := b.fineTuning()
		change(&o)
		return bootstrap.FineTune(ctx, must.Get(model.Load(ctx, b.worker, start, model.LoadOptions{}))(t), b.images, b.data, o, path)
	}
	byValue := func(values ...float64) func(*bootstrap.FineTuning) {
		return func(o *bootstrap.FineTuning) {
			at := 0
			o.Epochs = 2
			o.Measure = func(context.Context, *model.Model) (float64, error) { at++; return values[at-1], nil }
		}
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	must.Do(t, tune(t.Context(), path("rising"), byValue(1, 2)))
	must.Do(t, tune(t.Context(), path("falling"), byValue(2, 1)))
	must.Do(t, tune(t.Context(), path("equal"), byValue(1, 1)))
	must.Do(t, tune(t.Context(), path("last"), func(o *bootstrap.FineTuning) { o.Epochs = 2 }))
	switch rising, falling := read(t, path("rising")), read(t, path("falling")); {
	case rising == falling:
		t.Error("the second epoch is written whatever its figure is")
	case rising != read(t, path("last")):
		t.Error("the second of two epochs is other than without a measure")
	case read(t, path("equal")) != falling:
		t.Error("of two equal epochs the second is kept, want the first")
	}
	measured := []float64{2, 1}
	interrupt(t, 4, func(ctx context.Context, c bootstrap.Checkpoints, report func(*trainer.Result)) error {
		return tune(ctx, path("again"), func(o *bootstrap.FineTuning) {
			o.Checkpoints = c
			o.Report = func(r *trainer.Result, _ int64) { report(r) }
			o.Measured = func(epoch int, _ float64, _ bool) { measured = measured[1:] }
			o.Measure = func(context.Context, *model.Model) (float64, error) { return measured[0], nil }
		})
	})
	if read(t, path("again")) != read(t, path("falling")) {
		t.Error("an interrupted run keeps another epoch")
	}
}

// TCL's six terms have a second view of every image, and weights of losses act.
func TestFineTuneFollowsTheCore(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	size := must.Get(model.Preset("tiny", len(b.vocab)))(t)
	fresh := func() *model.Model {
		m := must.Get(model.New(t.Context(), b.worker, size, 1))(t)
		m.Vocab = b.vocab
		return m
	}
	for name, change := range map[string]func(*bootstrap.FineTuning){
		"plain":  func(*bootstrap.FineTuning) {},
		"triple": func(o *bootstrap.FineTuning) { o.Core.ITC.Loss = trainer.Triple },
		"alone":  func(o *bootstrap.FineTuning) { o.Core.ITMWeight = 0 },
		"masked": func(o *bootstrap.FineTuning) { o.Core.MLMWeight = 1 },
	} {
		o := b.fineTuning()
		o.Epochs = 1
		change(&o)
		o.Report = func(r *trainer.Result, _ int64) {
			if (r.Losses.ITM == 0) != (name == "alone") || (r.Losses.MLM == 0) != (name != "masked") {
				t.Errorf("%s: %+v", name, r.Losses)
			}
		}
		must.Do(t, bootstrap.FineTune(t.Context(), fresh(), b.images, b.data, o, filepath.Join(dir, name)))
	}
	if read(t, filepath.Join(dir, "plain")) == read(t, filepath.Join(dir, "triple")) {
		t.Error("TCL's terms change nothing")
	}
}

// The momentum model begins with the trained average of a checkpoint, if it has one.
func TestFineTuneBeginsWithTheTrainedAverage(t *testing.T) {
	b := newBench(t)
	dir, checkpoints := t.TempDir(), t.TempDir()
	start := filepath.Join(dir, "start")
	must.Do(t, bootstrap.Train(t.Context(), b.worker, b.images, b.data, b.options(), start))
	tune := func(from, average, path string, c bootstrap.Checkpoints) {
		o := b.fineTuning()
		o.Average, o.Checkpoints = average, c
		must.Do(t, bootstrap.FineTune(t.Context(), must.Get(model.Load(t.Context(), b.worker, from, model.LoadOptions{}))(t), b.images, b.data, o, filepath.Join(dir, path)))
	}
	tune(start, start, "none", bootstrap.Checkpoints{Dir: checkpoints, Every: 2})
	trained, _, err := trainer.LatestCheckpoint(checkpoints)
	must.Do(t, err)
	tune(trained, trained, "average", bootstrap.Checkpoints{})
	tune(trained, "", "copy", bootstrap.Checkpoints{})
	tune(start, "", "bare", bootstrap.Checkpoints{})
	if read(t, filepath.Join(dir, "average")) == read(t, filepath.Join(dir, "copy")) {
		t.Error("the trained average changes nothing")
	}
	if read(t, filepath.Join(dir, "none")) != read(t, filepath.Join(dir, "bare")) {
		t.Error("weights without an average do not begin with a copy")
	}
}

func TestTrainingsRefuse(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(t.TempDir(), "weights")
	for want, change := range map[string]func(*bootstrap.Options){
		"0 steps, want at least 1":           func(o *bootstrap.Options) { o.Steps = 0 },
		"batch of 1, want at least 2":        func(o *bootstrap.Options) { o.Batch = 1 },
		"Flip is 2":                          func(o *bootstrap.Options) { o.Augment.Flip = 2 },
		"model preset \"huge\" is not known": func(o *bootstrap.Options) { o.Preset = "huge" },
		"finding special tokens":             func(o *bootstrap.Options) { o.Vocab = []string{"[UNK]", "a"} },
		"looking for a checkpoint to go on from: ": func(o *bootstrap.Options) {
			o.Checkpoints.Dir = t.TempDir()
			must.Do(t, os.WriteFile(filepath.Join(o.Checkpoints.Dir, "checkpoint-000000000004.safetensors"), []byte("cut"), 0o644))
		},
	} {
		o := b.options()
		change(&o)
		if err := bootstrap.Train(context.Background(), b.worker, b.images, b.data, o, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
	for want, change := range map[string]func(*bootstrap.FineTuning){
		"0 epochs, want at least 1":   func(o *bootstrap.FineTuning) { o.Epochs = 0 },
		"batch of 1, want at least 2": func(o *bootstrap.FineTuning) { o.Batch = 1 },
		"a step of 9 pairs in 2 mini-batches, want as many in each, and at least 2": func(o *bootstrap.FineTuning) { o.Batch = 9 },
		"a step of 2 pairs in 2 mini-batches":                                       func(o *bootstrap.FineTuning) { o.Batch = 2 },
		"StepBatches is 3, want 1, 2, 4, 8":                                         func(o *bootstrap.FineTuning) { o.Core.StepBatches = 3 },
		"28 pairs to train on, want at least 32":                                    func(o *bootstrap.FineTuning) { o.Core.StepBatches, o.Batch = 16, 32 },
		"Momentum.Queue is -1":                                                      func(o *bootstrap.FineTuning) { o.Core.Momentum.Queue = -1 },
		"Momentum.Decay is 2":                                                       func(o *bootstrap.FineTuning) { o.Core.Momentum.Decay = 2 },
		"ITC.Alpha is 2":                                                            func(o *bootstrap.FineTuning) { o.Distill = 2 },
		"Schedule.Rate is 0":                                                        func(o *bootstrap.FineTuning) { o.Core.Schedule.Rate = 0 },
	} {
		size := must.Get(model.Preset("tiny", len(b.vocab)))(t)
		m := must.Get(model.New(context.Background(), b.worker, size, 1))(t)
		m.Vocab = b.vocab
		o := b.fineTuning()
		change(&o)
		if err := bootstrap.FineTune(context.Background(), m, b.images, b.data, o, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

// The defaults are the papers' settings.
func TestDefaultFineTuning(t *testing.T) {
	o := bootstrap.DefaultFineTuning()
	if o.Epochs != 5 || o.Batch != 256 || o.Core.StepBatches != 4 || o.Core.Schedule.Rate != 1e-5 || o.Core.Momentum.Queue != 65_536 || o.Core.Momentum.Decay != 0.995 {
		t.Errorf("%+v", o)
	}
}
