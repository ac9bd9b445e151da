//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/encoding"
	"github.com/pairstream/pairstream/internal/service/engine"
	"github.com/pairstream/pairstream/internal/service/grouping"
	"github.com/pairstream/pairstream/internal/service/indexing"
	"github.com/pairstream/pairstream/internal/service/scoring"
	"github.com/pairstream/pairstream/internal/service/training"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/internal/torch"
)

// pipeline is the settings of all five stages in one process: those of the services together.
type pipeline struct {
	Process       service.Process
	Stream        stream.Config
	Device        engine.Device
	Bucket        engine.Bucket
	Encoder       encoding.Settings
	Indexer       indexing.Settings
	Grouper       grouper.Options
	Discriminator scoring.Settings
	Trainer       training.Settings
}

// Validate joins all problems.
func (p pipeline) Validate() error {
	return errors.Join(p.Process.Validate(), p.Stream.Validate(), p.Device.Validate(), p.Bucket.Validate(), p.Encoder.Validate(),
		p.Indexer.Validate(), p.Grouper.Validate(), p.Discriminator.Validate(), p.Trainer.Validate())
}

// stages are the counters and meters of a running pipeline.
type stages struct {
	encoder, indexer, grouper, discriminator, trainer stream.Counters

	encoding, scoring, training torch.Meter
}

// runStages runs the five stages in this process, until training ends or ctx does. The trainer has a worker to itself:
// a step and the scoring of the batches after it run side by side.
func runStages(ctx context.Context, log *stream.Log, rt service.Runtime, p pipeline, s *stages, observe func(training.Step)) error {
	sampling, err := p.Device.NewWorker()
	if err != nil {
		return err
	}
	defer sampling.Close()
	trainers, err := p.Device.NewWorker()
	if err != nil {
		return err
	}
	defer trainers.Close()
	bucket, err := p.Bucket.Open(ctx)
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	shared := engine.Shared{Log: log, Logger: rt.Log, Worker: sampling, Bucket: bucket}
	run := func(name string, counters *stream.Counters, work func(context.Context, *service.Stage) error) {
		stage, err := rt.NewStage(name, counters)
		all.Go(func() error {
			if err == nil {
				err = work(ctx, stage)
			}
			if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return nil
			}
			return fmt.Errorf("%s: %w", name, err)
		})
	}
	run(encoding.Name, &s.encoder, func(ctx context.Context, stage *service.Stage) error {
		ctx, own := shared.ForStage(ctx, stage, &s.encoding)
		return encoding.Run(ctx, own, p.Bucket, p.Encoder)
	})
	run(indexing.Name, &s.indexer, func(ctx context.Context, stage *service.Stage) error {
		own := shared
		own.Stage = stage
		return indexing.Run(ctx, own, p.Indexer)
	})
	run(grouping.Name, &s.grouper, func(ctx context.Context, stage *service.Stage) error {
		return grouping.Run(ctx, log, p.Grouper, stage)
	})
	run(scoring.Name, &s.discriminator, func(ctx context.Context, stage *service.Stage) error {
		ctx, own := shared.ForStage(ctx, stage, &s.scoring)
		return scoring.Run(ctx, own, p.Bucket, p.Discriminator)
	})
	run(training.Name, &s.trainer, func(ctx context.Context, stage *service.Stage) error {
		ctx, own := shared.ForStage(ctx, stage, &s.training)
		own.Worker = trainers
		err := training.Run(ctx, own, p.Bucket, p.Trainer, observe)
		if err == nil {
			stop() // with every lane ended, the others have nothing left to do
		}
		return err
	})
	return errors.Join(all.Wait(), bucket.Close())
}

// openLog connects to KAFKA_BROKERS, or starts the embedded broker with its data in dir.
func openLog(ctx context.Context, rt service.Runtime, cfg stream.Config, addr, dir string) (*stream.Log, func() error, error) {
	closeBroker := func() error { return nil }
	if len(cfg.Brokers) == 0 {
		broker, err := stream.StartBroker(stream.BrokerOptions{Addr: addr, DataDir: dir})
		if err != nil {
			return nil, nil, err
		}
		cfg.Brokers, closeBroker = []string{broker.Addr()}, broker.Close
	}
	log, err := stream.Connect(ctx, cfg, stream.Options{Logger: rt.Log, Registerer: rt.Registry})
	if err == nil {
		if err = log.EnsureTopics(ctx); err != nil {
			log.Close()
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, closeBroker())
	}
	return log, func() error {
		log.Close()
		return closeBroker()
	}, nil
}

func newUpCommand() *cobra.Command {
	var addr, dir string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "run all stages in this process, with the embedded broker unless KAFKA_BROKERS is set",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := config.Parse[pipeline](config.Environ())
			if err != nil {
				return err
			}
			if len(p.Stream.Brokers) == 0 { // the log will lie in dir
				if err := leaveRunEnv(dir, p.Stream, config.Environ()); err != nil {
					return err
				}
			}
			ctx := cmd.Context()
			rt := service.NewRuntime(p.Process.NewLogger(os.Stderr))
			rt.Log.Info("starting", "config", config.Redacted(p))
			log, closeLog, err := openLog(ctx, rt, p.Stream, addr, filepath.Join(dir, "broker"))
			if err != nil {
				return err
			}
			err = service.Serve(ctx, p.Process, rt, func(ctx context.Context) error {
				return runStages(ctx, log, rt, p, new(stages), nil)
			})
			return errors.Join(err, closeLog())
		},
	}
	cmd.Flags().StringVar(&addr, "addr", defaultBroker, "address of the embedded broker, on loopback")
	cmd.Flags().StringVar(&dir, "data", "data", "folder of the embedded broker's log")
	return cmd
}
