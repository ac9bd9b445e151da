//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/service/corpus"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/token"
	"github.com/pairstream/pairstream/testdata/scenes"
)

const (
	demoBatch     = 48
	demoVocab     = 2000
	demoSlice     = 0.5 // share of the images that the first model is trained on
	demoFirstRate = 1.5e-3
	demoLanes     = 2
)

// recipe is what suits the kind of data.
type recipe struct {
	boot     int64
	epochs   int
	matching float64 // weight of ITM in the training of the first model, which is Con-D, too
	rate     float64 // highest learning rate of the trainer
	kinds    scenes.Kinds
	settings map[string]string
}

// onScenes trains on drawings of few kinds, so that many captions are true of other pictures, too: connections are there
// to be found. A crop changes counts, a flip left and right, and captions speak of both. No drawing is seen often enough to
// be learned by heart, so nothing is dropped.
func onScenes() recipe {
	return recipe{
		boot: 800, epochs: 12, matching: 1, rate: demoFirstRate,
		kinds:    scenes.Kinds{Shapes: 4, Colours: 4, Objects: 2, Large: true},
		settings: map[string]string{"AUGMENT_FLIP": "0", "AUGMENT_MIN_SCALE": "1", "DROPOUT": "0"},
	}
}

// onPhotographs trains on few and varied pictures, which a model soon knows by heart: dropout and small crops stand
// against that.
func onPhotographs() recipe {
	return recipe{
		boot: 900, epochs: 10, matching: 0.3, rate: 1e-3,
		settings: map[string]string{"AUGMENT_MIN_SCALE": "0.35", "ECM_HIGH": "0.95"},
	}
}

// prepare generates or reads the data and settles the settings.
func (d *demo) prepare(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(d.dir), os.MkdirAll(d.dir, 0o755)); err != nil {
		return fmt.Errorf("emptying --dir: %w", err)
	}
	d.drawn = filepath.Join(d.dir, "scenes")
	generated := d.data == ""
	d.recipe = onPhotographs()
	if generated {
		d.recipe, d.data = onScenes(), d.drawn
		d.heldOut = max(d.heldOut, 200)
	}
	d.lengths()
	o := scenes.Defaults()
	o.Scenes, o.Captions, o.Kinds = 1200, 3, d.recipe.kinds
	fmt.Fprintf(d.out, "drawing %d captioned scenes in %s\n", o.Scenes, d.drawn)
	if err := scenes.WriteDir(ctx, d.drawn, o, nil); err != nil {
		return err
	}
	if err := d.read(ctx, generated); err != nil {
		return err
	}
	return d.settle()
}

// read parts the pairs into those to stream and those to evaluate on, and finds what the first model learns from.
func (d *demo) read(ctx context.Context, generated bool) error {
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
	drawings := new(corpus.Corpus)
	if !generated {
		// The papers' encoders have seen millions of pictures. Ours learns colours and counts from drawings, too: cropped
		// and mirrored, not every caption of theirs is true, but most words are.
		if drawings, _, err = corpus.Read(ctx, []string{d.drawn}, 0); err != nil {
			return err
		}
	}
	d.first = corpus.Join(drawings, d.train.Slice(demoSlice))
	d.vocab = token.BuildVocab(corpus.Join(drawings, d.train).Captions, demoVocab, 2)
	return nil
}

// lengths fills in how long to train.
func (d *demo) lengths() {
	if d.boot == 0 {
		d.boot = d.recipe.boot
	}
	if d.epochs == 0 {
		d.epochs = d.recipe.epochs
	}
	if d.short {
		d.boot, d.epochs = max(d.boot/2, 1), max(d.epochs/2, 1)
	}
}

// settle makes the settings: the demo's own, under those of the environment.
func (d *demo) settle() error {
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
		"TEXTS": "none", "LR": fmt.Sprint(d.recipe.rate), "LR_MIN": fmt.Sprint(d.recipe.rate / 20),
		"LR_WARMUP": fmt.Sprint(d.recipe.rate / 10), "LR_WARMUP_STEPS": "20",
		"LR_TOTAL_STEPS": strconv.FormatInt(max(d.batches, 21), 10), "MLM_PROBABILITY": "0.15", "AUGMENT_COLOR": "0.1",
		// A model this small learns to align first: with equal weights the words to be guessed take most of the gradient.
		"ITM_WEIGHT": "0.3", "MLM_WEIGHT": "0.05", "TORCH_THREADS": "1",
		// Targets stay sharp throughout: there is little time.
		"ITC_ALPHA": "0.1", "ITC_SOFT_FROM_EPOCH": "0",
	}
	maps.Copy(settings, d.recipe.settings)
	maps.Copy(settings, config.Environ())
	if d.settings, err = config.Parse[pipeline](settings); err != nil {
		return err
	}
	return leaveRunEnv(d.dir, d.settings.Stream, settings)
}
