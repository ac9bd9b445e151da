//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	discriminatorservice "github.com/pairstream/pairstream/discriminator/service"
	encoderservice "github.com/pairstream/pairstream/encoder/service"
	grouperservice "github.com/pairstream/pairstream/grouper/service"
	indexerservice "github.com/pairstream/pairstream/indexer/service"
	"github.com/pairstream/pairstream/internal/base/cputime"
	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/crawl/ingest"
	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
	trainerservice "github.com/pairstream/pairstream/trainer/service"
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

// beside runs something beside the stages, which do not need it. The log says when it has ended before stop is called.
func beside(ctx context.Context, logger *slog.Logger, what string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := run(ctx)
		if ctx.Err() != nil {
			err = interrupt.Failure(err)
		}
		if err != nil {
			logger.Error("it has ended; the stages go on", keyWhat, what, keyErr, err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
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

const withoutTrainerUsage = "leave the trainer to another program, such as one of the Python package"

func newUpCommand() *cobra.Command {
	var addr, dir string
	var withoutTrainer bool
	cmd := &cobra.Command{
		Use:  "up",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			environ := config.Environ()
			p, err := config.Parse[pipeline](environ)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			rt := service.NewRuntime(p.Process.NewLogger(os.Stderr))
			if err := errors.Join(rt.LogStart(p, environ), rt.Registry.Register(p.Device.Info())); err != nil {
				return err
			}
			log, closeLog, err := openLog(ctx, rt, p.Stream, addr, filepath.Join(dir, "broker"))
			if err != nil {
				return err
			}
			if len(p.Stream.Brokers) == 0 { // the log lies in dir, and is locked by now: no other run has these settings
				if err := leaveChanges(ctx, log, dir, p.Stream, environ); err != nil {
					return errors.Join(err, closeLog())
				}
			}
			closeIngest, err := startIngest(ctx, cmd.OutOrStdout(), log, rt, p.Ingest)
			if err != nil {
				return errors.Join(err, closeLog())
			}
			s := newStages()
			closeConsole := startConsole(ctx, cmd.OutOrStdout(), log, rt, p, s, dir)
			err = service.Serve(ctx, p.Process, rt, func(ctx context.Context) error {
				return runPipeline(ctx, log, rt, p, s, withoutTrainer)
			})
			closeConsole()
			closeIngest()
			return errors.Join(err, closeLog())
		},
	}
	cmd.Flags().StringVar(&addr, "addr", defaultBroker, "address of the embedded broker, on loopback")
	cmd.Flags().StringVar(&dir, "data", "data", "folder of the embedded broker's log")
	cmd.Flags().BoolVar(&withoutTrainer, "without-trainer", false, withoutTrainerUsage)
	return cmd
}

// startIngest serves the front door beside the stages, where it has an address. The stages do not need it, but whoever
// set INGEST_ADDR does: what keeps it from starting is an error.
func startIngest(ctx context.Context, out io.Writer, log *stream.Log, rt service.Runtime, s ingest.Settings) (stop func(), err error) {
	if s.Addr == "" {
		return func() {}, nil
	}
	listener, err := ingest.Listen(s)
	if err != nil {
		return nil, err
	}
	server, err := newIngest(log, rt, s, listener)
	if err != nil {
		_ = listener.Close() // nothing was served
		return nil, err
	}
	fmt.Fprintf(out, "ingest: %s\n", server.Address())
	return beside(ctx, rt.Log.With(keyStage, ingest.Name), "the front door", server.Run), nil
}

// startConsole serves the console beside the stages and prints its address. The stages do not need it: when it cannot
// start, or ends, the log says why and they go on.
func startConsole(ctx context.Context, out io.Writer, log *stream.Log, rt service.Runtime, p pipeline, s *stages, dir string) (stop func()) {
	if p.Console.Off() {
		return func() {}
	}
	logger := rt.Log.With(keyStage, "console")
	listener, err := console.Listen(p.Console)
	if err != nil {
		logger.Warn("there is no console", keyErr, err)
		return func() {}
	}
	fmt.Fprintf(out, "console: %s\n", console.Address(listener))
	return beside(ctx, logger, "the console", func(ctx context.Context) error {
		o := console.Options{Logger: logger, Embedder: s.queries, Busy: func() map[string]time.Duration { return rt.Ready.Busy() }}
		return runConsole(ctx, log, p.forConsole(dir), listener, o)
	})
}

// forConsole returns what the console needs to know of the settings of the stages beside it.
func (p pipeline) forConsole(dir string) consoleSettings {
	ecm := p.Trainer.Options().ECM
	s := consoleSettings{
		Console: p.Console, Group: groupSettings{GroupSize: p.Indexer.Options().GroupSize},
		Shown: shownSettings{Roots: p.Encoder.Bucket.Roots, High: ecm.High, Low: ecm.Low, LiveToken: p.Indexer.LiveToken},
	}
	s.Console.Dir = consoleDir(config.Environ(), s.Console.Dir, dir)
	if host, port, err := net.SplitHostPort(p.Indexer.LiveAddr); err == nil && s.Console.LiveURL == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		s.Console.LiveURL = "http://" + net.JoinHostPort(host, port)
	}
	return s
}
