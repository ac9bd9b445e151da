//go:build cgo

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

// fineTuneJob holds what the command line asks for.
type fineTuneJob struct {
	bootstrap.FineTuning
	start, vocab, out string
	heldOut           int
}

func newFineTuneCommand() *cobra.Command {
	j := fineTuneJob{FineTuning: bootstrap.DefaultFineTuning()}
	cmd := &cobra.Command{
		Use:   "finetune " + tarsUse,
		Short: "fine-tune a model for retrieval, as the papers make Con-D",
		Long: "Fine-tunes a model on the pairs of tars with ITC against a queue of momentum features and ITM with drawn\n" +
			"negatives (GRIT-VLP supplement 3, MAFA appendix F): what the papers evaluate retrieval with, and their Con-D.",
		Args: wantArgs(1, anyNumber),
		RunE: j.run,
	}
	f := cmd.Flags()
	f.StringVar(&j.start, "checkpoint", "data/bootstrap.safetensors", "weights or checkpoint to begin with")
	f.StringVar(&j.vocab, "vocab", "", "WordPiece vocabulary, a token a line, for weights without one inside")
	f.StringVar(&j.out, "out", "data/finetuned.safetensors", "file of the weights")
	f.IntVar(&j.heldOut, "holdout", 0, "images to keep back for evaluation, those that `produce --holdout` keeps back")
	f.IntVar(&j.Epochs, "epochs", j.Epochs, "times that every caption is trained on (the papers: 5 on COCO, 10 on Flickr30k)")
	f.IntVar(&j.Batch, "batch", j.Batch, "pairs in a step")
	f.IntVar(&j.StepBatches, "step-batches", j.StepBatches, "mini-batches that share a step's pairs, a power of two: each has negatives of its own, as on the papers' 4 GPUs of 64 pairs")
	f.Float64Var(&j.Rate, "lr", j.Rate, "learning rate at the start; a tenth of it at the end")
	f.IntVar(&j.Queue, "queue", j.Queue, "earlier momentum features that are further negatives of ITC")
	f.Float64Var(&j.Decay, "momentum", j.Decay, "share of the momentum weights that a step keeps")
	f.Float64Var(&j.Distill, "distill", 0, "share of the momentum model's similarities in ITC's targets (ALBEF: 0.4)")
	addCheckpointFlags(cmd, &j.Checkpoints)
	return cmd
}

// addCheckpointFlags adds the flags with which an interrupted training goes on.
func addCheckpointFlags(cmd *cobra.Command, c *bootstrap.Checkpoints) {
	cmd.Flags().StringVar(&c.Dir, "checkpoint-dir", "", "folder of checkpoints, from the newest of which an interrupted run goes on; empty: none")
	cmd.Flags().Int64Var(&c.Every, "checkpoint-every", 500, "steps between two checkpoints")
}

func (j *fineTuneJob) run(cmd *cobra.Command, paths []string) error {
	paths = places(paths)
	environ := config.Environ()
	if environ["AUGMENT_MIN_SCALE"] == "" {
		environ["AUGMENT_MIN_SCALE"] = "0.5" // the authors' fine-tuning crops less than their pre-training
	}
	s, err := config.Parse[bootstrapSettings](environ)
	if err != nil {
		return err
	}
	j.Seed, j.Augment = s.Run.Seed, dataset.Augmentation(s.Augment)
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	data, _, err := dataset.Read(ctx, paths, j.heldOut)
	if err != nil {
		return err
	}
	printPassedOver(cmd.ErrOrStderr(), data.Totals())
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
	m, err := model.Load(ctx, worker, j.start, model.LoadOptions{Vocab: vocab})
	if err != nil {
		return err
	}
	images, closeImages, err := bootstrap.Images(ctx, paths, m.Config.ImageSize, s.Cache)
	if err != nil {
		m.Free()
		return err
	}
	fmt.Fprintf(out, "fine-tuning %s on %d images with %d captions, %d epochs in steps of %d, in %d mini-batches\n", j.start, data.Images(), data.Pairs(), j.Epochs, j.Batch, j.StepBatches)
	j.Report = func(r *trainer.Result, steps int64) { reportStep(out, r, steps) }
	if err := errors.Join(bootstrap.FineTune(ctx, m, images, data, j.FineTuning, j.out), closeImages()); err != nil {
		return config.Variables(trainerservice.Core{}, err)
	}
	fmt.Fprintf(out, "wrote %s\n", j.out)
	return nil
}
