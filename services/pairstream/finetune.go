//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/recipe"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// fineTuneSettings are the settings that fine-tuning shares with the stages.
type fineTuneSettings struct {
	Device  device.Settings
	Run     service.Run
	Augment dataset.Augmentation
	Core    trainer.Options
}

// retrievalSettings are what settings of the trainer are in fine-tuning, where the environment sets none. They stand in
// the place of a recipe, whose values are those of pre-training.
var retrievalSettings = map[string]string{
	"ITC_WEIGHT": "1", "ITM_WEIGHT": "1", "MLM_WEIGHT": "0", "UNI_WEIGHT": "0", "DROPOUT": "0.1",
	"ITC_TARGETS": "onehot", "ITC_ALPHA": "0.4", "ITC_ALPHA_RAMP_STEPS": "0", "ITC_SOFT_FROM_EPOCH": "0", "ITC_LOSS": string(trainer.Softmax),
	"ECM_LOSSES": "none", "ITM_NEGATIVES": "multinomial", "STEP_BATCHES": "4",
	"MLM_PROBABILITY": "0.15", "MLM_DISTILL": "0", "MOMENTUM_DECAY": "0.995",
	"LR_SCHEDULE": string(trainer.ReferenceEpochs), "LR": "1e-5", "LR_WARMUP_STEPS": "0", "LR_TOTAL_STEPS": "30",
	"AUGMENT_MIN_SCALE": "0.5", // the authors' fine-tuning crops less than their pre-training
}

// notFineTuned are settings of training that fine-tuning has no use for, and why. A value that asks for nothing is
// accepted.
var notFineTuned = []struct{ variable, nothing, why string }{
	{"UNI_WEIGHT", "0", "its positives come from the log"},
	{"ECM_LOSSES", "none", "Con-D does not score its mini-batches"},
	{"ECM_ELIMINATE", "false", "Con-D does not score its mini-batches"},
	{"ITC_GATHER", "false", "every mini-batch has keys of its own"},
	{"LR_TOTAL_STEPS", "", "the steps follow from --epochs"},
	{"ITC_ALPHA_RAMP_STEPS", "", "distilled shares rise over the first epoch"},
	{"EVAL_DATA", "", "--validate names the pairs that every epoch is measured on"},
	{"EVAL_EVERY", "0", "--validate measures every epoch"},
	{"CHECKPOINT_BEST", "", "with --validate the best epoch stays"},
}

// fineTuneEnvironment returns the environment of a fine-tuning. A recipe of ALBEF's has distilled targets, and TCL's its
// six terms, as their released code fine-tunes.
func fineTuneEnvironment(environ map[string]string) (map[string]string, error) {
	for _, s := range notFineTuned {
		if value := environ[s.variable]; value != "" && !strings.EqualFold(value, s.nothing) {
			return nil, fmt.Errorf("%s is %q, which finetune cannot follow: %s; take it out", s.variable, value, s.why)
		}
	}
	defaults := maps.Clone(retrievalSettings)
	name := environ[recipe.Variable]
	if strings.HasPrefix(name, "gpn-s") || name == "albef" || name == "tcl" {
		defaults["ITC_TARGETS"] = string(trainer.Distilled)
		if strings.HasSuffix(name, "tcl") {
			defaults["ITC_LOSS"] = string(trainer.Triple)
		}
	}
	defaults["MOMENTUM_QUEUE"] = "65536"
	if recipe.SameValue(environ["MOMENTUM_DECAY"], "0") {
		defaults["MOMENTUM_QUEUE"] = "0"
	}
	for variable, value := range environ {
		if _, ours := defaults[variable]; !ours || value != "" {
			defaults[variable] = value
		}
	}
	return defaults, nil
}

// fineTuneJob holds what the command line asks for.
type fineTuneJob struct {
	bootstrap.FineTuning
	flags             trainer.Options // what flags set
	start, vocab, out string
	captions, split   string
	validate          []string
	heldOut, rerank   int
	imageSize         int
}

func newFineTuneCommand() *cobra.Command {
	j := fineTuneJob{FineTuning: bootstrap.DefaultFineTuning()}
	j.flags = j.Core
	cmd := &cobra.Command{
		Use: "finetune " + tarsUse,
		Long: "Fine-tunes a model on the pairs of tars with ITC against a queue of momentum features and ITM with drawn\n" +
			"negatives (GRIT-VLP supplement 3, MAFA appendix F): what the papers evaluate retrieval with, and their Con-D. The\n" +
			"momentum model begins with a checkpoint's trained average. Settings of the trainer act here as well (ITM_WEIGHT=0:\n" +
			"ITC alone; ITC_LOSS=triple: TCL's six terms), and those that cannot are refused.",
		Args: wantArgs(1, anyNumber),
		RunE: j.run,
	}
	f := cmd.Flags()
	f.StringVar(&j.start, "checkpoint", "data/bootstrap.safetensors", "weights or checkpoint to begin with")
	f.StringVar(&j.vocab, "vocab", "", "WordPiece vocabulary, a token a line, for weights without one inside")
	f.StringVar(&j.out, "out", "data/finetuned.safetensors", "file of the weights")
	f.IntVar(&j.imageSize, "image-size", 0,
		"pixels on a side of the images (the papers: 384), to which position embeddings are resized; 0: the model's own")
	f.IntVar(&j.heldOut, "holdout", 0, "images to keep back for evaluation, those that `produce --holdout` keeps back")
	f.StringVar(&j.captions, "captions", "",
		"JSON that names images of the tars by file name and has their captions: dataset_coco.json, ALBEF's coco_train.json")
	f.StringVar(&j.split, "split", "train,restval", "splits of Karpathy's JSON to train on")
	f.StringSliceVar(&j.validate, "validate", nil,
		"tars or lists on which every epoch is measured; --out has the best. With --captions: splits of it, such as val")
	f.IntVar(&j.rerank, "rerank", 256,
		"candidates that ITM ranks again for --validate (the papers: 256 on COCO, 128 on Flickr30k); 0: all, -1: none")
	f.IntVar(&j.Epochs, "epochs", j.Epochs, "times that every caption is trained on (the papers: 5 on COCO, 10 on Flickr30k)")
	f.IntVar(&j.Batch, "batch", j.Batch, "pairs in a step")
	f.IntVar(&j.flags.StepBatches, "step-batches", j.flags.StepBatches,
		"mini-batches that share a step's pairs, a power of two (or STEP_BATCHES): each has negatives of its own, as on the papers' 4 GPUs of 64 pairs")
	f.Float64Var(&j.flags.Schedule.Rate, "lr", j.flags.Schedule.Rate,
		"learning rate of the first epoch (or LR); it falls by a cosine from epoch to epoch, to LR_MIN, by default a tenth")
	f.IntVar(&j.flags.Momentum.Queue, "queue", j.flags.Momentum.Queue,
		"earlier momentum features that are further negatives of ITC (or MOMENTUM_QUEUE)")
	f.Float64Var(&j.flags.Momentum.Decay, "momentum", j.flags.Momentum.Decay,
		"share of the momentum weights that a step keeps (or MOMENTUM_DECAY)")
	f.Float64Var(&j.Distill, "distill", 0, "share of the momentum model's similarities in ITC's targets (ALBEF: 0.4)")
	addCheckpointFlags(cmd, &j.Checkpoints)
	cmd.MarkFlagsMutuallyExclusive("captions", "holdout")
	return cmd
}

// settings reads the environment; flags that are given come before it.
func (j *fineTuneJob) settings(cmd *cobra.Command) (s fineTuneSettings, err error) {
	environ, err := fineTuneEnvironment(config.Environ())
	if err != nil {
		return s, err
	}
	given := cmd.Flags().Changed
	for flag, variable := range map[string]string{
		"step-batches": "STEP_BATCHES", "lr": "LR", "queue": "MOMENTUM_QUEUE", "momentum": "MOMENTUM_DECAY",
	} {
		if given(flag) {
			environ[variable] = cmd.Flags().Lookup(flag).Value.String()
		}
	}
	noMin, noWarmup := environ["LR_MIN"] == "", environ["LR_WARMUP"] == ""
	if noMin {
		environ["LR_MIN"] = "0"
	}
	if noWarmup {
		environ["LR_WARMUP"] = environ["LR"]
	}
	if s, err = config.Parse[fineTuneSettings](environ); err != nil {
		return s, err
	}
	if noMin {
		s.Core.Schedule.Min = s.Core.Schedule.Rate / 10
	}
	j.Seed, j.Augment, j.Core, j.Average = s.Run.Seed, s.Augment, s.Core, j.start
	return s, nil
}

func (j *fineTuneJob) run(cmd *cobra.Command, paths []string) error {
	paths = places(paths)
	s, err := j.settings(cmd)
	if err != nil {
		return err
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	data, held, err := j.read(ctx, paths, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	var vocab []string
	if j.vocab != "" {
		if vocab, err = vocabulary(j.vocab, data, 0); err != nil {
			return err
		}
	}
	worker, err := s.Device.NewWorker()
	if err != nil {
		return err
	}
	defer worker.Close()
	m, err := model.Load(ctx, worker, j.start, model.LoadOptions{Vocab: vocab, ImageSize: j.imageSize})
	if err != nil {
		return err
	}
	images, closeImages, err := bootstrap.Images(ctx, slices.Concat(paths, j.validationPaths()), m.Config.ImageSize, device.CacheBytes())
	if err != nil {
		m.Free()
		return err
	}
	fmt.Fprintf(out, "fine-tuning %s on %d images with %d captions, %d epochs in steps of %d, in %d mini-batches\n",
		j.start, data.Images(), data.Pairs(), j.Epochs, j.Batch, j.Core.StepBatches)
	j.Report = func(r *trainer.Result, steps int64) { reportStep(out, r, steps) }
	if held != nil {
		j.measureOn(held, images, out)
	}
	if err := errors.Join(bootstrap.FineTune(ctx, m, images, data, j.FineTuning, j.out), closeImages()); err != nil {
		return config.Variables(trainer.Options{}, err)
	}
	fmt.Fprintf(out, "wrote %s\n", j.out)
	return nil
}

// validationPaths returns the places of --validate, if it has places.
func (j *fineTuneJob) validationPaths() []string {
	if j.captions != "" {
		return nil
	}
	return places(j.validate)
}

// read reads the pairs to train on, and those to measure on; nil: there are none.
func (j *fineTuneJob) read(ctx context.Context, paths []string, log io.Writer) (data, held *dataset.Corpus, err error) {
	if j.captions != "" {
		data, err = evaluation{captions: j.captions, split: j.split, log: log}.read(ctx, paths)
	} else if data, _, err = dataset.Read(ctx, paths, j.heldOut); err == nil {
		producer.PrintPassedOver(log, data.Totals())
	}
	if err != nil || len(j.validate) == 0 {
		return data, nil, err
	}
	how := evaluation{log: log}
	if j.captions != "" {
		how.captions, how.split = j.captions, strings.Join(j.validate, ",")
	} else {
		paths = j.validationPaths()
	}
	if held, err = how.read(ctx, paths); err != nil {
		return nil, nil, fmt.Errorf("--validate is %q: %w", strings.Join(j.validate, ","), err)
	}
	trained := map[schemas.ImageID]bool{}
	for i := range data.Images() {
		_, id := data.Image(i)
		trained[id] = true
	}
	both := 0
	for i := range held.Images() {
		if _, id := held.Image(i); trained[id] {
			both++
		}
	}
	if both > 0 {
		return nil, nil, fmt.Errorf("--validate is %q: %d of its %d images are trained on, want others",
			strings.Join(j.validate, ","), both, held.Images())
	}
	return data, held, nil
}

// measureOn has every epoch measured by the mean of the six recalls, as the authors' code does.
func (j *fineTuneJob) measureOn(held *dataset.Corpus, images *shard.Images, out io.Writer) {
	rerank := j.rerank
	if j.Core.ITMWeight == 0 {
		rerank = eval.NoRerank // nothing teaches the matching head
	}
	j.Measure = func(ctx context.Context, m *model.Model) (float64, error) {
		shown, err := eval.OfCorpus(ctx, m, images, held)
		if err != nil {
			return 0, err
		}
		report, err := eval.Evaluate(ctx, m, shown, eval.Options{TopK: rerank})
		if err != nil {
			return 0, err
		}
		by := report.ITC
		if report.ITM != nil {
			by = *report.ITM
		}
		return by.RSUM() / 6, nil
	}
	j.Measured = func(epoch int, value float64, best bool) {
		note := ""
		if best {
			note = ", the best so far"
		}
		fmt.Fprintf(out, "epoch %d of %d: mean recall %.2f on %d images%s\n", epoch, j.Epochs, value, held.Images(), note)
	}
}
