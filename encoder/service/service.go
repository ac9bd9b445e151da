package service

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/internal/imaging"
	"github.com/pairstream/pairstream/internal/latest"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/service/device"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Name is the stage's, in metrics and consumer groups.
const Name = "encoder"

// Run loads the model and encodes the lanes that this process is given, until ctx ends.
func Run(ctx context.Context, tools device.Tools, s Settings) error {
	return RunWithQueries(ctx, tools, s, NewQueries())
}

// RunWithQueries is [Run], and answers queries with the model besides.
func RunWithQueries(ctx context.Context, tools device.Tools, s Settings, q *Queries) error {
	cache, err := tools.Images(ctx, s.Bucket)
	if err != nil {
		return err
	}
	worker, err := tools.Worker()
	if err != nil {
		return err
	}
	none, err := newSieve("")
	if err != nil {
		return err
	}
	none.detect = detector(s.LanguageModels)
	rules, err := none.with(s.Filter)
	if err != nil {
		return err
	}
	if err := tools.Instruments.Register(rules.dropped); err != nil {
		return err
	}
	if rules.gone, err = tools.Forgotten(ctx); err != nil {
		return err
	}
	load := func(ctx context.Context, path string) (*model.Encoder, *encoder.Encoder, error) {
		m, err := model.OpenEncoder(ctx, worker, path, model.EncoderOptions{
			BatchSize: s.Core.BatchSize, MergesPath: s.Merges, VocabPath: s.Vocab, ImageSize: s.ImageSize,
		})
		if err != nil {
			return nil, nil, err
		}
		core, err := encoder.New(m, &images{cache: cache.ForInput(m.ImageSize()), pre: m.Preprocessing()}, encoder.Options(s.Core))
		if err != nil {
			m.Free()
		}
		return m, core, err
	}
	config := tools.Log.Config()
	spool := s.spool(config.Namespace, config.Lanes)
	like, next := stage{sieve: rules, instruments: tools.Instruments}, spans{size: s.GroupSize, filter: s.Filter}
	if s.Checkpoint == latest.Setting {
		m := &models{log: tools.Log, dir: s.Checkpoints, load: load, lend: q.lend, loaded: make(map[string]*loaded)}
		defer m.free()
		next.weights = m
		return run(ctx, tools, newStages(like, spool, next))
	}
	m, core, err := load(ctx, s.Checkpoint)
	if err != nil {
		return fmt.Errorf("ENCODER_CHECKPOINT is %q: %w", s.Checkpoint, err)
	}
	defer m.Free()
	q.lend(m)
	defer q.lend(nil)
	like.core = core
	return run(ctx, tools, newStages(like, spool, next))
}

// run encodes lanes with what a factory makes.
func run(ctx context.Context, tools device.Tools, factory stream.Factory) error {
	tools.Instruments.Loaded()
	return tools.Log.Run(ctx, stream.StageSpec{
		Name: Name, Inputs: []schemas.Topic{schemas.Pairs}, Outputs: []schemas.Topic{schemas.Embeddings},
		New: factory, Counters: tools.Instruments.Counters(),
	})
}

// images gives the core the pixels of a pair by reference.
type images struct {
	cache *shard.Images
	pre   imaging.Preprocess
}

// Load implements [encoder.Images]. An image whose size is not wanted is not embedded.
func (i *images) Load(ctx context.Context, p *schemas.Pair, wanted encoder.Wanted, dst []byte) (encoder.Loaded, error) {
	im, how, err := i.cache.GetReduced(ctx, *p.Image, p.ImageID)
	switch {
	case shard.Permanent(err):
		return encoder.Loaded{}, fmt.Errorf("%w: %w", encoder.ErrUnusable, err)
	case err != nil:
		return encoder.Loaded{}, err
	}
	if err := wanted(p, how.Width, how.Height); err != nil {
		return encoder.Loaded{}, err
	}
	i.pre.Bytes(dst, im)
	return encoder.Loaded{Ref: *p.Image, Width: how.Width, Height: how.Height}, nil
}
