//go:build cgo

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/device"
	"github.com/pairstream/pairstream/internal/token"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

// bootstrapSettings are the settings that training on tars shares with the stages.
type bootstrapSettings struct {
	Device  device.Settings
	Run     service.Run
	Augment device.Augmentation
	Weights lossWeights
	Dropout float64 `env:"DROPOUT" envDefault:"0.1" desc:"share of the text encoder's activations that training drops"`
	Cache   int64   `env:"IMAGE_CACHE_BYTES" envDefault:"268435456" desc:"decoded images kept in memory"`
}

// lossWeights has the fields of [bootstrap.Weights].
type lossWeights struct {
	ITC float64 `env:"ITC_WEIGHT" envDefault:"1" desc:"weight of ITC in the loss"`
	ITM float64 `env:"ITM_WEIGHT" envDefault:"1" desc:"weight of ITM in the loss"`
	MLM float64 `env:"MLM_WEIGHT" envDefault:"1" desc:"weight of MLM in the loss"`
}

// bootstrapJob holds what the command line asks for.
type bootstrapJob struct {
	bootstrap.Options
	vocab, out     string
	slice          float64
	heldOut, words int
	ifMissing      bool
}

func newBootstrapCommand() *cobra.Command {
	var j bootstrapJob
	cmd := &cobra.Command{
		Use:   "bootstrap " + tarsUse,
		Short: "train a first model on a slice of the data, for the encoder, Con-D and the trainer's start",
		Args:  wantArgs(1, anyNumber),
		RunE:  j.run,
	}
	f := cmd.Flags()
	f.StringVar(&j.out, "out", "data/bootstrap.safetensors", "file of the weights")
	f.BoolVar(&j.ifMissing, "if-missing", false, "do nothing when the file is there")
	f.StringVar(&j.Preset, "preset", "tiny", "size of the model: "+strings.Join(model.PresetNames(), ", "))
	f.StringVar(&j.vocab, "vocab", "", "WordPiece vocabulary, a token a line; empty: made from the captions")
	f.IntVar(&j.words, "vocab-size", 2000, "tokens of a vocabulary made from the captions")
	f.Float64Var(&j.slice, "slice", 0.5, "share of the images to train on")
	f.IntVar(&j.heldOut, "holdout", 0, "images to keep back for evaluation")
	f.Int64Var(&j.Steps, "steps", 500, "training steps")
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
	j.Seed, j.Augment = s.Run.Seed, dataset.Augmentation(s.Augment)
	j.Weights, j.Dropout = bootstrap.Weights(s.Weights), s.Dropout
	ctx := cmd.Context()
	data, _, err := dataset.Read(ctx, paths, j.heldOut)
	if err != nil {
		return err
	}
	printPassedOver(cmd.ErrOrStderr(), data.Totals())
	if j.Vocab, err = vocabulary(j.vocab, data, j.words); err != nil {
		return err
	}
	size, err := model.Preset(j.Preset, len(j.Vocab))
	if err != nil {
		return err
	}
	images, closeImages, err := bootstrap.Images(ctx, paths, size.ImageSize, s.Cache)
	if err != nil {
		return err
	}
	worker, err := s.Device.NewWorker()
	if err != nil {
		return errors.Join(err, closeImages())
	}
	defer worker.Close()
	data = data.Slice(j.slice)
	fmt.Fprintf(cmd.OutOrStdout(), "bootstrapping %s on %d images with %d captions, %d steps of %d\n", j.Preset, data.Images(), data.Pairs(), j.Steps, j.Batch)
	j.Report = func(r *trainer.Result) { reportStep(cmd.OutOrStdout(), r, j.Steps) }
	if err := errors.Join(bootstrap.Train(ctx, worker, images, data, j.Options, j.out), closeImages()); err != nil {
		return config.Variables(trainerservice.Core{}, err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", j.out)
	return nil
}

// vocabulary reads a vocabulary from the file, or makes one from the captions.
func vocabulary(path string, data *dataset.Corpus, size int) ([]string, error) {
	if path == "" {
		return token.BuildVocab(data.Captions, size, 2), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the vocabulary: %w", err)
	}
	defer file.Close()
	return token.ReadVocab(file)
}

// reportStep prints a step, twenty times in a training.
func reportStep(w io.Writer, r *trainer.Result, steps int64) {
	if every := max(steps/20, 1); (r.Step+1)%every == 0 {
		fmt.Fprintf(w, "step %5d of %d  loss %.3f  itc %.3f  itm %.3f  mlm %.3f\n",
			r.Step+1, steps, r.Losses.Total, r.Losses.ITC, r.Losses.ITM, r.Losses.MLM)
	}
}
