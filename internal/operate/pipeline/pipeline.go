// Package pipeline runs all five stages in one process, together with the console and the HTTP front door.
package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/operate/rundir"

	discriminatorservice "github.com/pairstream/pairstream/discriminator/service"

	encoderservice "github.com/pairstream/pairstream/encoder/service"

	grouperservice "github.com/pairstream/pairstream/grouper/service"

	trainerservice "github.com/pairstream/pairstream/trainer/service"

	"golang.org/x/sync/errgroup"

	indexerservice "github.com/pairstream/pairstream/indexer/service"
	"github.com/pairstream/pairstream/internal/base/cputime"
	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/crawl/ingest"
	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/process/service"
)

// Settings holds the settings of all five stages in one process. Its fields are the sections of a settings file.
type Settings struct {
	Process       service.Process `section:"-"`
	Stream        stream.Config
	Device        device.Settings `section:"-"`
	Encoder       encoderservice.Settings
	Indexer       indexerservice.Settings
	Grouper       grouperservice.Settings
	Discriminator discriminatorservice.Settings
	Trainer       trainerservice.Settings
	Console       console.Settings
	Ingest        ingest.Settings
}

// Validate refuses settings with which a record may be larger than its topic accepts, and a RANK other than 0.
func (p Settings) Validate() error {
	var second error
	if p.Trainer.Ranks.Rank > 0 {
		second = fmt.Errorf("RANK is %d, want 0 where all stages run in one process: the other ranks run the trainer alone", p.Trainer.Ranks.Rank)
	}
	return errors.Join(service.ValidateRecords(p.Indexer, p.Stream.MaxMessageBytes), service.ValidateRecords(p.Grouper, p.Stream.MaxMessageBytes), second)
}

// Stages holds the counters of a running pipeline.
type Stages struct {
	Of string // prefix of the stages' names in counts of processor time

	Encoder, Indexer, Grouper, Discriminator, trainer stream.Counters

	encoding, indexing, scoring, training torch.Meter

	Queries *encoderservice.Queries // of the console, to the encoder's model
}

// NewStages returns counters at zero.
func NewStages() *Stages { return &Stages{Queries: encoderservice.NewQueries()} }

// RunStages runs the five stages in this process until training or ctx ends. The stages share the worker and the images
// of shared. The trainer alone has its own worker, so that it makes a step while the next batches are scored.
//
// RunStages calls observe for every step. If observe is nil, another program is the trainer, and the other stages run
// until ctx ends.
func RunStages(ctx context.Context, log *stream.Log, rt service.Runtime, shared *device.Shared, p Settings, s *Stages, observe func(trainerservice.Step)) error {
	all, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	run := func(name string, counters *stream.Counters, work func(context.Context, *service.Instruments) error) {
		instruments, err := rt.NewInstruments(name, counters)
		all.Go(func() error {
			if err == nil {
				err = work(cputime.As(ctx, s.Of+name), instruments)
			}
			if ctx.Err() != nil {
				err = interrupt.Failure(err)
			}
			if err == nil {
				return nil
			}
			return fmt.Errorf("%s: %w", name, err)
		})
	}
	run(encoderservice.Name, &s.Encoder, func(ctx context.Context, i *service.Instruments) error {
		ctx, tools := shared.For(ctx, log, i, &s.encoding)
		return encoderservice.RunWithQueries(ctx, tools, p.Encoder, s.Queries)
	})
	run(indexerservice.Name, &s.Indexer, func(ctx context.Context, i *service.Instruments) error {
		ctx, tools := shared.For(ctx, log, i, &s.indexing)
		return indexerservice.Run(ctx, tools, p.Indexer)
	})
	run(grouperservice.Name, &s.Grouper, func(ctx context.Context, i *service.Instruments) error {
		return grouperservice.Run(ctx, log, i, p.Grouper)
	})
	run(discriminatorservice.Name, &s.Discriminator, func(ctx context.Context, i *service.Instruments) error {
		ctx, tools := shared.For(ctx, log, i, &s.scoring)
		return discriminatorservice.Run(ctx, tools, p.Discriminator)
	})
	if observe == nil {
		return all.Wait()
	}
	run(trainerservice.Name, &s.trainer, func(ctx context.Context, i *service.Instruments) error {
		ctx, tools := shared.For(ctx, log, i, &s.training)
		err := trainerservice.RunObserved(ctx, tools.Alone(), p.Trainer, observe)
		if err == nil {
			stop() // every lane has ended, so the other stages have no more work
		}
		return err
	})
	return all.Wait()
}

// Run is [RunStages] with its own worker and cache of images.
func Run(ctx context.Context, log *stream.Log, rt service.Runtime, p Settings, s *Stages, withoutTrainer bool) error {
	observe := func(trainerservice.Step) {}
	if withoutTrainer {
		observe = nil
	}
	shared := device.NewShared(p.Device, nil)
	err := RunStages(ctx, log, rt, shared, p, s, observe)
	return errors.Join(err, shared.Close())
}

// OpenLog connects to KAFKA_BROKERS, or starts the embedded broker with its data in dir.
func OpenLog(ctx context.Context, rt service.Runtime, cfg stream.Config, addr, dir string) (*stream.Log, func() error, error) {
	return rundir.Open(ctx, cfg, broker.Options{Addr: addr, DataDir: dir}, stream.Options{Logger: rt.Log, Registerer: rt.Registry}, (*stream.Log).EnsureTopics)
}
