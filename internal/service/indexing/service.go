package indexing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/faiss"
	"github.com/pairstream/pairstream/internal/nouns"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Name is the stage's, in metrics and consumer groups.
const Name = "indexer"

// Settings are those of the indexer alone.
type Settings struct {
	LiveAddr string `env:"LIVE_ADDR" desc:"address of live search (GET /neighbors, POST /search), such as :8080; empty: none"`
	Live     indexer.LiveOptions
	Core     indexer.Options
}

// Validate joins all problems.
func (s Settings) Validate() error { return errors.Join(s.Live.Validate(), s.Core.Validate()) }

// Config is what the indexer reads from its environment.
type Config struct {
	Process service.Process
	Stream  stream.Config
	Indexer Settings
}

// Common implements [service.Configuration].
func (c Config) Common() service.Process { return c.Process }

// Validate joins all problems.
func (c Config) Validate() error {
	return errors.Join(c.Process.Validate(), c.Stream.Validate(), c.Indexer.Validate())
}

// Main runs the indexer on its own.
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
	return Run(ctx, log, cfg.Indexer, stage)
}

// Run indexes the lanes that this process is given, until ctx ends.
func Run(ctx context.Context, log *stream.Log, s Settings, meter *service.Stage) error {
	tagger, err := nouns.Load()
	if err != nil {
		return err
	}
	engine := faiss.Engine{}
	var live *indexer.Live
	all, running := errgroup.WithContext(ctx)
	if s.LiveAddr != "" {
		if live, err = indexer.NewLive(s.Live, engine); err != nil {
			return err
		}
		if err := serveLive(running, all, s.LiveAddr, live); err != nil {
			return err
		}
	}
	fill := newFill(s.Core.GroupSize)
	if err := meter.Register(fill.ratio); err != nil {
		return err
	}
	meter.Loaded()
	all.Go(func() error {
		err := log.Run(running, stream.StageSpec{
			Name: Name, Inputs: []schemas.Topic{schemas.Embeddings}, Outputs: []schemas.Topic{schemas.Neighbors, schemas.Groups},
			New: newFactory(s.Core, engine, tagger, live, meter, fill), Counters: meter.Counters(),
		})
		if err == nil {
			err = context.Cause(running) // ends the other goroutines too
		}
		return err
	})
	err = all.Wait()
	if live != nil {
		err = errors.Join(err, live.Close())
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}

// serveLive keeps the live index in shape and answers searches until ctx ends.
func serveLive(ctx context.Context, all *errgroup.Group, addr string, live *indexer.Live) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("LIVE_ADDR is %q: %w", addr, err)
	}
	server := &http.Server{Handler: indexer.NewHandler(live), ReadHeaderTimeout: 10 * time.Second}
	all.Go(func() error { return live.Run(ctx) })
	all.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving live search on %s: %w", addr, err)
		}
		return nil
	})
	all.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	return nil
}
