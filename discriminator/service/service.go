package service

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/judged"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/nouns"
	"github.com/pairstream/pairstream/internal/service/device"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/internal/wording"
	"github.com/pairstream/pairstream/schemas"
)

// Name is the stage's, in metrics and consumer groups.
const Name = "discriminator"

// Run loads Con-D and scores the lanes that this process is given, until ctx ends.
func Run(ctx context.Context, tools device.Tools, s Settings) error {
	images, err := tools.Images(ctx, s.Bucket)
	if err != nil {
		return err
	}
	worker, err := tools.Worker()
	if err != nil {
		return err
	}
	m, err := model.OpenMatcher(ctx, worker, s.Checkpoint)
	if err != nil {
		return fmt.Errorf("COND_CHECKPOINT is %q: %w", s.Checkpoint, err)
	}
	defer m.Free()
	core, err := discriminator.New(m, discriminator.Options{Part: s.Part})
	if err != nil {
		return err
	}
	words, err := m.Words()
	if err != nil {
		return fmt.Errorf("COND_CHECKPOINT is %q: %w", s.Checkpoint, err)
	}
	loader := dataset.NewLoader(images.ForInput(m.Config.ImageSize), m.Config.ImageSize, m.Config.TextTokens, words,
		s.Run.Seed, s.augmentation())
	keep, drawn := keeping{}, loader.Drawn()
	if s.Images == plain {
		gone, err := tools.Forgotten(ctx)
		if err != nil {
			return err
		}
		keep, drawn = keeping{scores: s.Keep, bytes: s.KeepBytes, model: core.Fingerprint(), level: s.level(), gone: gone.Image}, ""
	}
	err = keep.register(tools.Instruments)
	if err != nil {
		return err
	}
	guarded, err := s.guard(core.Fingerprint(), loader)
	if err != nil {
		return err
	}
	guarded.people = countFrom(tools.Log)
	gauges, err := newGauges(tools.Instruments)
	if err != nil {
		return err
	}
	tools.Instruments.Loaded()
	return tools.Log.Run(ctx, stream.StageSpec{
		Name: Name, Inputs: []schemas.Topic{schemas.Batches}, Outputs: []schemas.Topic{schemas.Scored},
		New: newFactory(recorder{core, drawn}, loader, guarded, keep, gauges, tools.Instruments), Counters: tools.Instruments.Counters(),
	})
}

// countFrom returns a function that takes what people say from the log.
func countFrom(log *stream.Log) func(context.Context, judged.Place) (discriminator.People, error) {
	return func(ctx context.Context, p judged.Place) (discriminator.People, error) {
		c, err := judged.Take(ctx, log, p)
		if err != nil {
			return discriminator.People{}, stream.Transient(fmt.Errorf("lane %d, group %d, epoch %d: %w", p.Lane, p.Group, p.Epoch, err))
		}
		return discriminator.People{Judged: c.Judged, Right: c.Right}, nil
	}
}

// guard returns what the guard depends on.
func (s Settings) guard(model string, loader *dataset.Loader) (guardSettings, error) {
	high, err := s.threshold()
	return guardSettings{
		least: s.MinPrecision, high: high, auto: s.Threshold == autoThreshold, seed: s.Run.Seed, model: model,
		tagger: func() (wording.Tagger, error) { return nouns.Load() }, words: loader.Words,
	}, err
}
