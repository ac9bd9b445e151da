//go:build cgo

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/service/bootstrap"
	"github.com/pairstream/pairstream/internal/service/corpus"
	"github.com/pairstream/pairstream/internal/service/engine"
	"github.com/pairstream/pairstream/internal/service/samples"
	"github.com/pairstream/pairstream/internal/token"
	"github.com/pairstream/pairstream/trainer"
)

// bootstrapSettings are those that the stages share.
type bootstrapSettings struct {
	Device  engine.Device
	Augment samples.Augmentation
	Seed    uint64 `env:"SEED" envDefault:"0" desc:"seed of the run: keys every shuffle, mask, augmentation and initial weight"`
	Cache   int64  `env:"IMAGE_CACHE_BYTES" envDefault:"268435456" desc:"decoded images kept in memory"`
}

// Validate joins all problems.
func (s bootstrapSettings) Validate() error {
	return errors.Join(s.Device.Validate(), s.Augment.Validate())
}

func newBootstrapCommand() *cobra.Command {
	var o bootstrap.Options
	var vocab, out string
	var slice float64
	var heldOut, words int
	var ifMissing bool
	cmd := &cobra.Command{
		Use:   "bootstrap DIR|TAR...",
		Short: "train a first model on a slice of the data, for the encoder, Con-D and the trainer's start",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if _, err := os.Stat(out); err == nil && ifMissing {
				fmt.Fprintf(cmd.OutOrStdout(), "%s is there already\n", out)
				return nil
			}
			s, err := config.Parse[bootstrapSettings](config.Environ())
			if err != nil {
				return err
			}
			o.Seed, o.Augment = s.Seed, s.Augment
			ctx := cmd.Context()
			data, _, err := corpus.Read(ctx, paths, heldOut)
			if err != nil {
				return err
			}
			if o.Vocab, err = vocabulary(vocab, data, words); err != nil {
				return err
			}
			size, err := model.Preset(o.Preset, len(o.Vocab))
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
			data = data.Slice(slice)
			fmt.Fprintf(cmd.OutOrStdout(), "bootstrapping %s on %d images with %d captions, %d steps of %d\n", o.Preset, data.Images(), data.Pairs(), o.Steps, o.Batch)
			o.Report = func(r *trainer.Result) { reportStep(cmd.OutOrStdout(), r, o.Steps) }
			if err := errors.Join(bootstrap.Train(ctx, worker, images, data, o, out), closeImages()); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", out)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "data/bootstrap.safetensors", "file of the weights")
	f.BoolVar(&ifMissing, "if-missing", false, "do nothing when the file is there")
	f.StringVar(&o.Preset, "preset", "tiny", "size of the model: tiny, small or base")
	f.StringVar(&vocab, "vocab", "", "WordPiece vocabulary, a token a line; empty: made from the captions")
	f.IntVar(&words, "vocab-size", 2000, "tokens of a vocabulary made from the captions")
	f.Float64Var(&slice, "slice", 0.5, "share of the images to train on")
	f.IntVar(&heldOut, "holdout", 0, "images to keep back for evaluation")
	f.Int64Var(&o.Steps, "steps", 500, "training steps")
	f.IntVar(&o.Batch, "batch", 48, "pairs in a step")
	f.Float64Var(&o.Rate, "lr", 5e-4, "highest learning rate")
	return cmd
}

// vocabulary reads the file, or makes one from the captions.
func vocabulary(path string, data *corpus.Corpus, size int) ([]string, error) {
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

// reportStep prints every twentieth part of a training.
func reportStep(w io.Writer, r *trainer.Result, steps int64) {
	if every := max(steps/20, 1); (r.Step+1)%every == 0 {
		fmt.Fprintf(w, "step %5d of %d  loss %.3f  itc %.3f  itm %.3f  mlm %.3f\n",
			r.Step+1, steps, r.Losses.Total, r.Losses.ITC, r.Losses.ITM, r.Losses.MLM)
	}
}
