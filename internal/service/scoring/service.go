package scoring

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/engine"
	"github.com/pairstream/pairstream/internal/service/samples"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/schemas"
)

// Name is the stage's, in metrics and consumer groups.
const Name = "discriminator"

// Settings are those of the discriminator alone.
type Settings struct {
	Checkpoint string `env:"COND_CHECKPOINT" desc:"weights of Con-D, an image-text-matching model with its vocabulary inside"`
	Part       int    `env:"COND_PART" envDefault:"128" desc:"candidates that go through Con-D's fusion encoder at once"`
	Seed       uint64 `env:"SEED" envDefault:"0" desc:"seed of the run: keys every shuffle, mask, augmentation and initial weight"`
	Augment    samples.Augmentation
}

// Validate joins all problems.
func (s Settings) Validate() error {
	var problems []error
	if s.Checkpoint == "" {
		problems = append(problems, errors.New("COND_CHECKPOINT is empty, want a weights file; `pairstream bootstrap` trains a first one"))
	}
	if s.Part < 1 {
		problems = append(problems, fmt.Errorf("COND_PART is %d, want at least 1", s.Part))
	}
	return errors.Join(append(problems, s.Augment.Validate())...)
}

// Config is what the discriminator reads from its environment.
type Config struct {
	Process       service.Process
	Stream        stream.Config
	Device        engine.Device
	Bucket        engine.Bucket
	Discriminator Settings
}

// Common implements [service.Configuration].
func (c Config) Common() service.Process { return c.Process }

// Validate joins all problems.
func (c Config) Validate() error {
	return errors.Join(c.Process.Validate(), c.Stream.Validate(), c.Device.Validate(), c.Bucket.Validate(), c.Discriminator.Validate())
}

// Main runs the discriminator on its own.
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
	return Run(ctx, shared, cfg.Bucket, cfg.Discriminator)
}

// Run loads Con-D and scores the lanes that this process is given, until ctx ends.
func Run(ctx context.Context, shared engine.Shared, bucket engine.Bucket, s Settings) error {
	m, err := model.Load(ctx, shared.Worker, s.Checkpoint, model.LoadOptions{})
	if err != nil {
		return fmt.Errorf("COND_CHECKPOINT is %q: %w", s.Checkpoint, err)
	}
	defer m.Free()
	if shared.Images == nil {
		shared.Images = bucket.Images(shared.Bucket, m.Config.ImageSize)
	}
	core, err := discriminator.New(ctx, m, discriminator.Options{Part: s.Part})
	if err != nil {
		return err
	}
	loader, err := samples.NewLoader(shared.Images, m.Config.ImageSize, m.Config.TextTokens, m.Vocab, s.Seed, s.Augment)
	if err != nil {
		return fmt.Errorf("COND_CHECKPOINT is %q: %w", s.Checkpoint, err)
	}
	shared.Stage.Loaded()
	return shared.Log.Run(ctx, stream.StageSpec{
		Name: Name, Inputs: []schemas.Topic{schemas.Batches}, Outputs: []schemas.Topic{schemas.Scored},
		New: newFactory(core, loader, shared.Stage), Counters: shared.Stage.Counters(),
	})
}
