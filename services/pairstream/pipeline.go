//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"

	discriminatorservice "github.com/pairstream/pairstream/discriminator/service"
	encoderservice "github.com/pairstream/pairstream/encoder/service"
	grouperservice "github.com/pairstream/pairstream/grouper/service"
	trainerservice "github.com/pairstream/pairstream/trainer/service"

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
	"golang.org/x/sync/errgroup"
)

// pipeline holds the settings of all five stages in one process: those of the services together.
type pipeline struct {
	Process       service.Process
	Stream        stream.Config
	Device        device.Settings
	Encoder       encoderservice.Settings
	Indexer       indexerservice.Settings
	Grouper       grouperservice.Settings
	Discriminator discriminatorservice.Settings
	Trainer       trainerservice.Settings
	Console       console.Settings
	Ingest        ingest.Settings
}

// Validate refuses settings that allow a record to be larger than its topic takes, and a second pipeline beside rank
// 0's.
func (p pipeline) Validate() error {
	var second error
	if p.Trainer.Ranks.Rank > 0 {
		second = fmt.Errorf("RANK is %d, want 0 where all stages run in one process: the other ranks run the trainer alone", p.Trainer.Ranks.Rank)
	}
	return errors.Join(service.ValidateRecords(p.Indexer, p.Stream.MaxMessageBytes), service.ValidateRecords(p.Grouper, p.Stream.MaxMessageBytes), second)
}

// stages holds the counters of a running pipeline.
type stages struct {
	of string // begins the names of the stages where processor time is counted

	encoder, indexer, grouper, discriminator, trainer stream.Counters

	encoding, indexing, scoring, training torch.Meter

	queries *encoderservice.Queries // of the console, to the encoder's model
}

func newStages() *stages { return &stages{queries: encoderservice.NewQueries()} }

// runStages runs the five stages in this process, until training ends or ctx does. They share what is in shared. Only
// the trainer has a worker to itself, so that a step and the scoring of the batches after it run side by side.
//
// runStages tells observe of every step. Without observe, another program is the trainer, and the stages run until
// ctx ends.
func runStages(ctx context.Context, log *stream.Log, rt service.Runtime, shared *device.Shared, p pipeline, s *stages, observe func(trainerservice.Step)) error {
	all, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	run := func(name string, counters *stream.Counters, work func(context.Context, *service.Instruments) error) {
		instruments, err := rt.NewInstruments(name, counters)
		all.Go(func() error {
			if err == nil {
				err = work(cputime.As(ctx, s.of+name), instruments)
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
	run(encoderservice.Name, &s.encoder, func(ctx context.Context, i *service.Instruments) error {
		ctx, tools := shared.For(ctx, log, i, &s.encoding)
		return encoderservice.RunWithQueries(ctx, tools, p.Encoder, s.queries)
	})
	run(indexerservice.Name, &s.indexer, func(ctx context.Context, i *service.Instruments) error {
		ctx, tools := shared.For(ctx, log, i, &s.indexing)
		return indexerservice.Run(ctx, tools, p.Indexer)
	})
	run(grouperservice.Name, &s.grouper, func(ctx context.Context, i *service.Instruments) error {
		return grouperservice.Run(ctx, log, i, p.Grouper)
	})
	run(discriminatorservice.Name, &s.discriminator, func(ctx context.Context, i *service.Instruments) error {
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
			stop() // when every lane has ended, the others have nothing left to do
		}
		return err
	})
	return all.Wait()
}

// runPipeline runs the stages like [runStages], with a worker and a cache of images that nobody else has.
func runPipeline(ctx context.Context, log *stream.Log, rt service.Runtime, p pipeline, s *stages, withoutTrainer bool) error {
	observe := func(trainerservice.Step) {}
	if withoutTrainer {
		observe = nil
	}
	shared := device.NewShared(p.Device, nil)
	err := runStages(ctx, log, rt, shared, p, s, observe)
	return errors.Join(err, shared.Close())
}

// openLog connects to KAFKA_BROKERS, or starts the embedded broker with its data in dir.
func openLog(ctx context.Context, rt service.Runtime, cfg stream.Config, addr, dir string) (*stream.Log, func() error, error) {
	return open(ctx, cfg, broker.Options{Addr: addr, DataDir: dir}, stream.Options{Logger: rt.Log, Registerer: rt.Registry}, (*stream.Log).EnsureTopics)
}
