package service

import (
	"context"
	"errors"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/content/nouns"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	knndevice "github.com/pairstream/pairstream/internal/neighbors/knn/device"
	"github.com/pairstream/pairstream/schemas"
)

// Name is the stage's, in metrics and consumer groups.
const Name = "indexer"

// Run indexes the lanes that this process is given, until ctx ends. The processor computes groups unless the settings
// want the device to; live search is always the processor's.
func Run(ctx context.Context, tools device.Tools, s Settings) error {
	tagger, err := nouns.Load()
	if err != nil {
		return err
	}
	var groups knn.Engine = cpu.Engine{}
	if s.onDevice(tools.Device()) {
		worker, err := tools.Worker()
		if err != nil {
			return err
		}
		groups = withCodes{knndevice.New(worker, knndevice.Options{}), cpu.Engine{}}
	}
	all, running := interrupt.WithContext(ctx)
	live, again, err := search(running, all, tools, s)
	if err != nil {
		return err
	}
	options := s.Options()
	copies := newCopier(s.Repack, tools.Instruments, tools.Forgotten)
	if options.Repack, err = copies.open(ctx); err != nil {
		return err
	}
	closed, err := openSegments(ctx, s, tools.Log, tools.Instruments)
	if err != nil {
		return err
	}
	fill := newFill(s.Core.GroupSize)
	repeated := newRepeated()
	if err := tools.Instruments.Register(fill.ratio, repeated); err != nil {
		return err
	}
	tools.Instruments.Loaded()
	all.Go(func() error {
		err := tools.Log.Run(running, stream.StageSpec{
			Name: Name, Inputs: []schemas.Topic{schemas.Embeddings}, Outputs: []schemas.Topic{schemas.Neighbors, schemas.Groups},
			New: newFactory(options, groups, tagger, live, again, copies, closed, tools.Instruments, fill, repeated), Counters: tools.Instruments.Counters(),
		})
		if err == nil {
			err = context.Cause(running) // ends the other goroutines too
		}
		return err
	})
	err = errors.Join(all.Wait(), copies.Close(), closed.Close())
	if live != nil {
		err = errors.Join(err, live.Close())
	}
	if ctx.Err() != nil {
		return interrupt.Failure(err)
	}
	return err
}

// withCodes has the processor compare the codes of other groups.
type withCodes struct {
	knn.Engine
	knn.CodeScanner
}

// search starts live search, if the settings want it, and what brings closed groups back.
func search(ctx context.Context, all *interrupt.Group, tools device.Tools, s Settings) (*indexer.Live, *restorer, error) {
	if s.LiveAddr == "" {
		return nil, nil, nil
	}
	live, err := indexer.NewLive(s.LiveOptions(), cpu.Engine{})
	if err != nil {
		return nil, nil, err
	}
	gone, err := tools.Forgotten(ctx)
	if err != nil {
		return nil, nil, err
	}
	live.Hide(gone.Pair)
	if _, err := serveLive(ctx, all, s, live, liveLimits); err != nil {
		return nil, nil, err
	}
	again := newRestorer(tools.Log, live, tools.Instruments)
	tools.Instruments.Says(again.state)
	return live, again, nil
}
