package engine

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/internal/torch"
)

// Shared is what the stages of one process use together. Members that a stage does not need are nil.
type Shared struct {
	Log    *stream.Log
	Logger *slog.Logger
	Worker *torch.Worker
	Bucket *shard.Bucket
	Images *shard.Images
	Stage  *service.Stage // of the one stage that runs with it
}

// ForStage is the same for one stage, and a context in which the worker's time is counted as the stage's.
func (s Shared) ForStage(ctx context.Context, stage *service.Stage, m *torch.Meter) (context.Context, Shared) {
	stage.UseDevice(m.Busy)
	s.Stage = stage
	return torch.WithMeter(ctx, m), s
}

// Needs says what a service that runs on its own must open.
type Needs struct {
	Stream stream.Config
	Device *Device
	Bucket *Bucket
}

// Open connects to the log and opens what is needed; closeAll frees all of it. Images wait for the size of the model's
// input: see [Bucket.Images].
func Open(ctx context.Context, rt service.Runtime, n Needs) (shared Shared, closeAll func(), err error) {
	var closers []func()
	closeOpened := func() {
		for i := len(closers) - 1; i >= 0; i-- {
			closers[i]()
		}
	}
	defer func() {
		if err != nil {
			closeOpened()
		}
	}()
	shared = Shared{Logger: rt.Log}
	if shared.Log, err = service.OpenLog(ctx, rt, n.Stream); err != nil {
		return shared, nil, err
	}
	closers = append(closers, shared.Log.Close)
	if n.Device != nil {
		if shared.Worker, err = n.Device.NewWorker(); err != nil {
			return shared, nil, err
		}
		closers = append(closers, shared.Worker.Close)
	}
	if n.Bucket != nil {
		if shared.Bucket, err = n.Bucket.Open(ctx); err != nil {
			return shared, nil, err
		}
		closers = append(closers, func() {
			if err := shared.Bucket.Close(); err != nil {
				rt.Log.Warn("closing the bucket", "err", fmt.Sprint(err))
			}
		})
	}
	return shared, closeOpened, nil
}
