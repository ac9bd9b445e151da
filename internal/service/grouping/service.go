package grouping

import (
	"context"
	"errors"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Name is the stage's, in metrics and consumer groups.
const Name = "grouper"

// Config is what the grouper reads from its environment.
type Config struct {
	Process service.Process
	Stream  stream.Config
	Grouper grouper.Options
}

// Common implements [service.Configuration].
func (c Config) Common() service.Process { return c.Process }

// Validate joins all problems.
func (c Config) Validate() error {
	return errors.Join(c.Process.Validate(), c.Stream.Validate(), c.Grouper.Validate())
}

// Main runs the grouper on its own.
func Main(ctx context.Context, rt service.Runtime, cfg Config) error {
	log, err := service.OpenLog(ctx, rt, cfg.Stream)
	if err != nil {
		return err
	}
	defer log.Close()
	stage, err := rt.NewStage(Name, nil)
	if err != nil {
		return err
	}
	return Run(ctx, log, cfg.Grouper, stage)
}

// Run groups the lanes that this process is given, until ctx ends.
func Run(ctx context.Context, log *stream.Log, o grouper.Options, meter *service.Stage) error {
	meter.Loaded()
	return log.Run(ctx, stream.StageSpec{
		Name:     Name,
		Inputs:   []schemas.Topic{schemas.Groups, schemas.Neighbors, schemas.Embeddings, schemas.Features},
		Outputs:  []schemas.Topic{schemas.Batches},
		New:      newFactory(o, meter),
		Counters: meter.Counters(),
	})
}
