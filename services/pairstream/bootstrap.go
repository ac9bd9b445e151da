//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// bootstrapSettings are the settings that training on tars shares with the stages.
type bootstrapSettings struct {
	Device  device.Settings
	Run     service.Run
	Augment dataset.Augmentation
	Weights lossWeights
	Dropout float64 `env:"DROPOUT" envDefault:"0.1" desc:"share of the text encoder's activations that training drops"`
}

// lossWeights has the fields of [bootstrap.Weights].
type lossWeights struct {
	ITC float64 `env:"ITC_WEIGHT" envDefault:"1" desc:"weight of ITC in the loss"`
	ITM float64 `env:"ITM_WEIGHT" envDefault:"1" desc:"weight of ITM in the loss"`
	MLM float64 `env:"MLM_WEIGHT" envDefault:"1" desc:"weight of MLM in the loss"`
}

// bootstrapJob holds the flags of the command.
type bootstrapJob struct {
	bootstrap.Options
	vocab, out     string
	slice          float64
	heldOut, words int
	checked        int   // images on which it is measured when to stop
	most           int64 // steps without a number of steps
	converging     bootstrap.Converging
	ifMissing      bool
}

func newBootstrapCommand() *cobra.Command {
	var j bootstrapJob
	cmd := &cobra.Command{
		Use: "bootstrap " + tarsUse,
		Long: "Trains a first model until its AUC on hard pairs of held-out images no longer rises: on random mini-batches, then on\n" +
			"GRIT's hard ones, then on random ones while the learning rate decays. The file contains a card, which this command and\n" +
			"`eval --cond` print. --base-rate also calibrates Con-D's probabilities. With --steps it trains for that many steps on\n" +
			"random mini-batches, without calibration and card.",
		Args: wantArgs(1, anyNumber),
		RunE: j.run,
	}
	f := cmd.Flags()
	f.StringVar(&j.out, "out", "data/bootstrap.safetensors", "file of the weights")
	f.BoolVar(&j.ifMissing, "if-missing", false, "do nothing if the file exists")
	f.StringVar(&j.Preset, "preset", "tiny", "size of the model: "+strings.Join(model.PresetNames(), ", "))
	f.StringVar(&j.vocab, "vocab", "", "WordPiece vocabulary, a token a line; empty: made from the captions")
	f.IntVar(&j.words, "vocab-size", 2000, "tokens of a vocabulary made from the captions")
	f.Float64Var(&j.slice, "slice", 0.5, "share of the images to train on")
	f.IntVar(&j.heldOut, "holdout", 0, "images to keep back for evaluation")
	f.Int64Var(&j.Steps, "steps", 0, "training steps; 0: until the AUC on hard pairs no longer rises")
	f.Int64Var(&j.most, "max-steps", 40_000, "limit of training steps without --steps")
	f.IntVar(&j.converging.Patience, "patience", bootstrap.DefaultPatience, "checks in a row without a rise that end the random mini-batches")
	f.IntVar(&j.checked, "check", 500, "images that are kept out of training to see when to stop; at most a tenth of all, and 20 at least")
	f.Float64Var(&j.converging.BaseRate, "base-rate", 0, "share of true pairs among Con-D's candidates, for the calibration of its probabilities; 0: none")
	f.IntVar(&j.Batch, "batch", 48, "pairs in a step")
	f.Float64Var(&j.Rate, "lr", 5e-4, "highest learning rate")
	addCheckpointFlags(cmd, &j.Checkpoints)
	return cmd
}

func (j *bootstrapJob) run(cmd *cobra.Command, paths []string) error {
	paths = places(paths)
	if _, err := os.Stat(j.out); err == nil && j.ifMissing {
		fmt.Fprintf(cmd.OutOrStdout(), "%s is there already\n", j.out)
		return nil
	}
	s, err := config.Parse[bootstrapSettings](config.Environ())
	if err != nil {
		return err
	}
	j.Seed, j.Augment = s.Run.Seed, s.Augment
	j.Weights, j.Dropout = bootstrap.Weights(s.Weights), s.Dropout
	ctx := cmd.Context()
	data, _, err := dataset.Read(ctx, paths, j.heldOut)
	if err != nil {
		return err
	}
	producer.PrintPassedOver(cmd.ErrOrStderr(), data.Totals())
	if j.Vocab, err = vocabulary(j.vocab, data, j.words); err != nil {
		return err
	}
	size, err := model.Preset(j.Preset, len(j.Vocab))
	if err != nil {
		return err
	}
	images, closeImages, err := bootstrap.Images(ctx, paths, size.ImageSize, device.CacheBytes())
	if err != nil {
		return err
	}
	worker, err := s.Device.NewWorker()
	if err != nil {
		return errors.Join(err, closeImages())
	}
	defer worker.Close()
	if err := errors.Join(j.train(ctx, cmd.OutOrStdout(), worker, images, data), closeImages()); err != nil {
		return config.Variables(trainer.Options{}, err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", j.out)
	return nil
}

// train trains for a number of steps, or until nothing more is gained.
func (j *bootstrapJob) train(ctx context.Context, out io.Writer, w *torch.Worker, images *shard.Images, data *dataset.Corpus) error {
	if j.Steps != 0 {
		data = data.Slice(j.slice)
		fmt.Fprintf(out, "bootstrapping %s on %d images with %d captions, %d steps of %d\n", j.Preset, data.Images(), data.Pairs(), j.Steps, j.Batch)
		j.Report = func(r *trainer.Result) { reportStep(out, r, j.Steps) }
		return bootstrap.Train(ctx, w, images, data, j.Options, j.out)
	}
	data, held, err := data.HoldOut(min(j.checked, max(data.Images()/10, 20), data.Images()))
	if err != nil {
		return err
	}
	data, j.Steps = data.Slice(j.slice), j.most
	fmt.Fprintf(out, "bootstrapping %s on %d images with %d captions in steps of %d, checked on %d other images\n",
		j.Preset, data.Images(), data.Pairs(), j.Batch, held.Images())
	j.converging.Walk = gritWalk(j.Seed)
	j.converging.Checked = checkReporter(out, time.Now)
	card, err := bootstrap.Converge(ctx, w, images, data, held, j.Options, j.converging, j.out)
	if err != nil {
		return err
	}
	if err := card.Print(out); err != nil {
		return err
	}
	return card.Measured.Print(out)
}

// vocabulary reads a vocabulary from the file, or makes one from the captions.
func vocabulary(path string, data *dataset.Corpus, size int) ([]string, error) {
	if path == "" {
		return token.BuildVocab(data.Captions, size, 2), nil
	}
	return token.FromFile("vocabulary", path, token.ReadVocab)
}

// reportStep prints a step, twenty times in a training.
func reportStep(w io.Writer, r *trainer.Result, steps int64) {
	if every := max(steps/20, 1); (r.Step+1)%every == 0 {
		fmt.Fprintf(w, "step %5d of %d  loss %.3f  itc %.3f  itm %.3f  mlm %.3f\n",
			r.Step+1, steps, r.Losses.Total, r.Losses.ITC, r.Losses.ITM, r.Losses.MLM)
	}
}

// walkBatches is the search space of the hard phase, in mini-batches: GRIT-VLP's 960 pairs of mini-batches of 96.
const walkBatches = 10

// gritWalk orders pairs by GRIT's walks.
func gritWalk(seed uint64) bootstrap.Walk {
	return func(ctx context.Context, v, t []float32, dim int, images []int32, batch, round int) ([]int32, error) {
		order := make([]int32, len(images))
		for i := range order {
			order[i] = int32(i)
		}
		rule := grouper.GRITRule{BatchSize: batch, SearchSpace: walkBatches * batch, Workers: runtime.GOMAXPROCS(0)}
		plan, err := grouper.GRIT(ctx, order, vectors{v, t, dim}, images, rule, grouper.Key{Seed: seed, Epoch: round}.Draws())
		return plan.Order, err
	}
}

// vectors implements [grouper.Features].
type vectors struct {
	v, t []float32
	dim  int
}

func (x vectors) Dim() int { return x.dim }

func (x vectors) Read(position int32, v, t []float32) {
	at := int(position) * x.dim
	copy(v, x.v[at:at+x.dim])
	copy(t, x.t[at:at+x.dim])
}

// checkReporter prints checks, with the time that is left at most: as long as the steps since the first check took.
func checkReporter(w io.Writer, now func() time.Time) func(bootstrap.Check) {
	var first *bootstrap.Check
	var began time.Time
	return func(c bootstrap.Check) {
		fmt.Fprintf(w, "step %5d  %-8s  AUC on hard pairs %.3f, best %.3f", c.Step, c.Phase, c.HardAUC, c.Best)
		if c.Left > 0 {
			fmt.Fprintf(w, "; at most %d steps are left", c.Left)
			if first != nil && c.Step > first.Step {
				each := now().Sub(began) / time.Duration(c.Step-first.Step)
				fmt.Fprintf(w, ", %s", (each * time.Duration(c.Left)).Round(time.Second))
			}
		}
		fmt.Fprintln(w)
		if first == nil {
			first, began = &c, now()
		}
	}
}

// addCheckpointFlags adds the flags of checkpoints, with which an interrupted training continues.
func addCheckpointFlags(cmd *cobra.Command, c *bootstrap.Checkpoints) {
	cmd.Flags().StringVar(&c.Dir, "checkpoint-dir", "", "folder of checkpoints; an interrupted run continues from the newest one; empty: none")
	cmd.Flags().Int64Var(&c.Every, "checkpoint-every", 500, "steps between two checkpoints")
}
