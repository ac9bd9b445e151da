package encoding

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/internal/imaging"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/engine"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/schemas"
)

// Name is the stage's, in metrics and consumer groups.
const Name = "encoder"

// Settings are those of the encoder alone.
type Settings struct {
	Checkpoint string `env:"ENCODER_CHECKPOINT" desc:"weights of the dual encoder: pairstream's or CLIP's safetensors, or TorchScript (.pt)"`
	Merges     string `env:"ENCODER_MERGES" desc:"CLIP's gzipped byte-pair merges, for CLIP and TorchScript"`
	Vocab      string `env:"ENCODER_VOCAB" desc:"WordPiece vocabulary, for weights without one inside"`
	ImageSize  int    `env:"ENCODER_IMAGE_SIZE" envDefault:"0" desc:"pixels on a side, for TorchScript"`
	SpoolDir   string `env:"SPOOL_DIR" desc:"folder, under one of BUCKET_ROOTS, for images that came inline; empty: they are refused"`
	Core       encoder.Options
}

// Validate joins all problems.
func (s Settings) Validate() error {
	var missing error
	if s.Checkpoint == "" {
		missing = errors.New("ENCODER_CHECKPOINT is empty, want a weights file; `pairstream bootstrap` trains a first one")
	}
	return errors.Join(missing, s.Core.Validate())
}

// Config is what the encoder reads from its environment.
type Config struct {
	Process service.Process
	Stream  stream.Config
	Device  engine.Device
	Bucket  engine.Bucket
	Encoder Settings
}

// Common implements [service.Configuration].
func (c Config) Common() service.Process { return c.Process }

// Validate joins all problems.
func (c Config) Validate() error {
	return errors.Join(c.Process.Validate(), c.Stream.Validate(), c.Device.Validate(), c.Bucket.Validate(), c.Encoder.Validate())
}

// Main runs the encoder on its own.
func Main(ctx context.Context, rt service.Runtime, cfg Config) error {
	shared, closeAll, err := engine.Open(ctx, rt, engine.Needs{Stream: cfg.Stream, Device: &cfg.Device, Bucket: &cfg.Bucket})
	if err != nil {
		return err
	}
	defer closeAll()
	stage, err := rt.NewStage(Name, nil)
	if err != nil {
		return err
	}
	ctx, shared = shared.ForStage(ctx, stage, new(torch.Meter))
	return Run(ctx, shared, cfg.Bucket, cfg.Encoder)
}

// Run loads the model and encodes the lanes that this process is given, until ctx ends.
func Run(ctx context.Context, shared engine.Shared, bucket engine.Bucket, s Settings) error {
	m, err := model.OpenEncoder(ctx, shared.Worker, s.Checkpoint, model.EncoderOptions{
		BatchSize: s.Core.BatchSize, MergesPath: s.Merges, VocabPath: s.Vocab, ImageSize: s.ImageSize,
	})
	if err != nil {
		return fmt.Errorf("ENCODER_CHECKPOINT is %q: %w", s.Checkpoint, err)
	}
	defer m.Free()
	if shared.Images == nil {
		shared.Images = bucket.Images(shared.Bucket, m.ImageSize())
	}
	core, err := encoder.New(m, &images{cache: shared.Images, pre: m.Preprocessing()}, s.Core)
	if err != nil {
		return err
	}
	shared.Stage.Loaded()
	return shared.Log.Run(ctx, stream.StageSpec{
		Name: Name, Inputs: []schemas.Topic{schemas.Pairs}, Outputs: []schemas.Topic{schemas.Embeddings},
		New: newFactory(core, s.SpoolDir, shared.Stage), Counters: shared.Stage.Counters(),
	})
}

// images gives the core the pixels of a pair by reference.
type images struct {
	cache *shard.Images
	pre   imaging.Preprocess
}

// Load implements [encoder.Images].
func (i *images) Load(ctx context.Context, p *schemas.Pair, dst []float32) (schemas.ImageRef, error) {
	im, err := i.cache.Get(ctx, *p.Image, p.ImageID)
	switch {
	case shard.Permanent(err):
		return schemas.ImageRef{}, fmt.Errorf("%w: %w", encoder.ErrUnusable, err)
	case err != nil:
		return schemas.ImageRef{}, err
	}
	i.pre.Into(dst, im)
	return *p.Image, nil
}
