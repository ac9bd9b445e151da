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
	"github.com/pairstream/pairstream/internal/knn"
	"github.com/pairstream/pairstream/internal/nouns"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/engine"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/internal/tiled"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/schemas"
)

// Name is the stage's, in metrics and consumer groups.
const Name = "indexer"

// The values of Settings.Engine.
const (
	engineAuto   = "auto"
	engineFAISS  = "faiss"
	engineDevice = "device"
)

// Settings are those of the indexer alone.
type Settings struct {
	Engine   string `env:"NEIGHBORS_ENGINE" envDefault:"auto" desc:"what finds neighbours and clusters: faiss (the processor), device (tiles of products on DEVICE) or auto: faiss where DEVICE is cpu, else device; changes no record"`
	LiveAddr string `env:"LIVE_ADDR" desc:"address of live search (GET /neighbors, POST /search), such as :8080; empty: none"`
	Live     indexer.LiveOptions
	Core     indexer.Options
}

// Validate joins all problems.
func (s Settings) Validate() error {
	var problem error
	if s.Engine != engineAuto && s.Engine != engineFAISS && s.Engine != engineDevice {
		problem = fmt.Errorf("NEIGHBORS_ENGINE is %q, want %q, %q or %q", s.Engine, engineAuto, engineFAISS, engineDevice)
	}
	return errors.Join(problem, s.Live.Validate(), s.Core.Validate())
}

// onDevice says whether groups are computed by a worker for this device.
func (s Settings) onDevice(device string) bool {
	return s.Engine == engineDevice || s.Engine == engineAuto && device != "cpu"
}

// Config is what the indexer reads from its environment.
type Config struct {
	Process service.Process
	Stream  stream.Config
	Device  engine.Device
	Indexer Settings
}

// Common implements [service.Configuration].
func (c Config) Common() service.Process { return c.Process }

// Validate joins all problems.
func (c Config) Validate() error {
	return errors.Join(c.Process.Validate(), c.Stream.Validate(), c.Device.Validate(), c.Indexer.Validate())
}

// Main runs the indexer on its own.
func Main(ctx context.Context, rt service.Runtime, cfg Config) error {
	needs := engine.Needs{Stream: cfg.Stream}
	if cfg.Indexer.onDevice(cfg.Device.Name) {
		needs.Device = &cfg.Device
	}
	shared, closeAll, err := engine.Open(ctx, rt, needs)
	if err != nil {
		return err
	}
	defer closeAll()
	stage, err := rt.NewStage(Name, nil)
	if err != nil {
		return err
	}
	shared.Stage = stage
	return Run(ctx, shared, cfg.Indexer)
}

// Run indexes the lanes that this process is given, until ctx ends. Without a worker the processor computes, as it always
// does for live search.
func Run(ctx context.Context, shared engine.Shared, s Settings) error {
	tagger, err := nouns.Load()
	if err != nil {
		return err
	}
	log, meter := shared.Log, shared.Stage
	var groups knn.Engine = faiss.Engine{}
	if shared.Worker != nil && s.onDevice(shared.Worker.Device()) {
		ctx, _ = shared.ForStage(ctx, meter, new(torch.Meter))
		groups = tiled.New(shared.Worker, tiled.Options{})
	}
	var live *indexer.Live
	all, running := errgroup.WithContext(ctx)
	if s.LiveAddr != "" {
		if live, err = indexer.NewLive(s.Live, faiss.Engine{}); err != nil {
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
			New: newFactory(s.Core, groups, tagger, live, meter, fill), Counters: meter.Counters(),
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
