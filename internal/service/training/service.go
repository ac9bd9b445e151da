// Package training is the trainer as a service: it reads scored batches of its lanes, trains one step on each, publishes
// the features, reports progress and writes checkpoints.
//
// The checkpoint is what the trainer resumes from: weights, optimiser and, for every lane, the place of the next batch.
// After a crash it repeats the steps since the checkpoint; feature blocks that are in the log already are not published
// again, so the first published ones count. Block s of a lane is that of the lane's batch s, whatever happened in other
// lanes meanwhile; its values are those of the weights at its step.
//
// # The order of lanes
//
// A step is a function of the steps before it, so everything depends on the order in which lanes are taken. With
// [Rotation] it follows from the lanes' content. With [Arrival] it depends on when batches arrive, and:
//
//  1. Before a step is made, its lane is in the file lane-order of CHECKPOINT_DIR, synced. A step whose lane is there is
//     never made on another lane, by this process or one after it. So all that a step has an effect on (features in the
//     log, checkpoints) was made in the order of the file, wherever a crash comes: between writing and training, the
//     batch is trained on when it comes again; between training and the checkpoint, the step is repeated.
//  2. Blocks name their step, and appear in the log in the order of steps: one is sent when the one before is
//     acknowledged. So the features of all lanes, up to any moment, tell the order without gaps as well. From there a
//     replay takes it ([CopyOrder]), and a trainer whose file was lost. What the file knows and the log does not are the
//     last few steps, whose features were not acknowledged; they may be in the log later, if a broker executes a
//     request of a process that is gone. So the file comes first.
//  3. One process writes the file: it is locked.
//
// What is written down is followed whatever the setting is.
package training

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/engine"
	"github.com/pairstream/pairstream/internal/service/samples"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// Name is the stage's, in metrics and consumer groups.
const Name = "trainer"

// Settings are those of the trainer alone.
type Settings struct {
	Dir       string    `env:"CHECKPOINT_DIR" envDefault:"data/checkpoints" desc:"folder of checkpoints; training goes on from the newest one in it"`
	Init      string    `env:"TRAIN_INIT" desc:"weights to start from when CHECKPOINT_DIR has no checkpoint, with their vocabulary inside"`
	Every     int64     `env:"CHECKPOINT_EVERY" envDefault:"1000" desc:"steps between two checkpoints; 0: only at the end"`
	ExitAtEnd bool      `env:"TRAIN_EXIT_AT_END" envDefault:"false" desc:"end the process when every lane has ended with a final seal"`
	Order     LaneOrder `env:"TRAIN_LANE_ORDER" envDefault:"rotation" desc:"rotation: lanes in strict turn; arrival: without waiting for a lane whose batch is late, in an order that is written down in CHECKPOINT_DIR and that replays follow"`
	Rank      int       `env:"RANK" envDefault:"0" desc:"this trainer's number; it trains on the lanes that leave this rest by WORLD_SIZE"`
	WorldSize int       `env:"WORLD_SIZE" envDefault:"1" desc:"number of trainers"`
	Augment   samples.Augmentation
	Core      trainer.Options
}

// Validate joins all problems.
func (s Settings) Validate() error {
	var problems []error
	if s.Dir == "" {
		problems = append(problems, errors.New("CHECKPOINT_DIR is empty, want a folder"))
	}
	if s.Every < 0 {
		problems = append(problems, fmt.Errorf("CHECKPOINT_EVERY is %d, want 0 or more", s.Every))
	}
	if !s.Order.valid() {
		problems = append(problems, fmt.Errorf("TRAIN_LANE_ORDER is %q, want %q or %q", s.Order, Rotation, Arrival))
	}
	if s.WorldSize < 1 || s.Rank < 0 || s.Rank >= s.WorldSize {
		problems = append(problems, fmt.Errorf("RANK is %d of WORLD_SIZE %d, want 0 or more and less than it", s.Rank, s.WorldSize))
	}
	return errors.Join(append(problems, s.Augment.Validate(), s.Core.Validate())...)
}

// lanes are those of this rank.
func (s Settings) lanes(all int) ([]int, error) {
	var own []int
	for lane := s.Rank; lane < all; lane += s.WorldSize {
		own = append(own, lane)
	}
	if len(own) == 0 {
		return nil, fmt.Errorf("RANK is %d, and LANES=%d leaves it no lane", s.Rank, all)
	}
	return own, nil
}

// Config is what the trainer reads from its environment.
type Config struct {
	Process service.Process
	Stream  stream.Config
	Device  engine.Device
	Bucket  engine.Bucket
	Trainer Settings
}

// Common implements [service.Configuration].
func (c Config) Common() service.Process { return c.Process }

// Validate joins all problems.
func (c Config) Validate() error {
	return errors.Join(c.Process.Validate(), c.Stream.Validate(), c.Device.Validate(), c.Bucket.Validate(), c.Trainer.Validate())
}

// Main runs the trainer on its own.
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
	return Run(ctx, shared, cfg.Bucket, cfg.Trainer, nil)
}

// Run trains until every lane has ended or ctx ends; observe, if not nil, is told of every step.
func Run(ctx context.Context, shared engine.Shared, bucket engine.Bucket, s Settings, observe func(Step)) error {
	lanes, err := s.lanes(shared.Log.Config().Lanes)
	if err != nil {
		return err
	}
	core, at, err := open(ctx, shared, s, lanes)
	if err != nil {
		return err
	}
	defer core.Free()
	size := core.Model().Config
	if shared.Images == nil {
		shared.Images = bucket.Images(shared.Bucket, size.ImageSize)
	}
	loader, err := samples.NewLoader(shared.Images, size.ImageSize, size.TextTokens, core.Model().Vocab, s.Core.Seed, s.Augment)
	if err != nil {
		return fmt.Errorf("TRAIN_INIT is %q: %w", s.Init, err)
	}
	meter, err := newMeter(shared.Stage)
	if err != nil {
		return err
	}
	last := make(map[int]int64)
	for _, lane := range lanes {
		if last[lane], err = shared.Log.LastSeq(ctx, schemas.Features, lane); err != nil {
			return fmt.Errorf("looking for the last features of lane %d: %w", lane, err)
		}
	}
	trail, err := openTrail(ctx, shared.Log, s, at, core.Steps(), last)
	if err != nil {
		return fmt.Errorf("CHECKPOINT_DIR is %q: %w", s.Dir, err)
	}
	if observe == nil {
		observe = func(Step) {}
	}
	publisher := shared.Log.NewPublisher(stream.PublisherOptions{Name: Name, Counters: shared.Stage.Counters()})
	watchdog := shared.Log.NewWatchdog(Name)
	shared.Stage.Counters().Lanes.Store(int64(len(lanes)))
	shared.Stage.Loaded()
	l := &loop{
		core: core, publisher: publisher, logger: shared.Logger, published: last, inOrder: s.Order == Arrival,
		dir: s.Dir, every: s.Every, at: at, observe: observe, meter: meter, watchdog: watchdog,
		lag: &lag{log: shared.Log, logger: shared.Logger},
	}
	l.lag.at(at.clone())
	err = l.run(ctx, &feed{
		log: shared.Log, publisher: publisher, order: s.Order, trail: trail, at: at.clone(), step: core.Steps(),
		load: inputs{loader, shared.Logger, s.Core.UniWeight > 0, core.Send}.load, meter: meter, watchdog: watchdog,
	})
	if err == nil && !s.ExitAtEnd {
		shared.Logger.Info("every lane has ended", "step", core.Steps())
		<-ctx.Done()
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, publisher.Close(closing), trail.close())
}

// open resumes from the newest whole checkpoint, or begins with the initial weights.
func open(ctx context.Context, shared engine.Shared, s Settings, lanes []int) (*trainer.Trainer, positions, error) {
	path, bad, err := trainer.LatestCheckpoint(s.Dir)
	for _, b := range bad {
		shared.Logger.Warn("passing over a checkpoint", "err", b)
	}
	switch {
	case err != nil:
		return nil, positions{}, fmt.Errorf("CHECKPOINT_DIR is %q: %w", s.Dir, err)
	case path == "" && len(bad) > 0:
		return nil, positions{}, fmt.Errorf("CHECKPOINT_DIR is %q: no checkpoint in it is whole; restore one, or empty the folder to begin anew: %w", s.Dir, errors.Join(bad...))
	case path == "":
		return begin(ctx, shared, s, lanes)
	}
	core, raw, err := trainer.Resume(ctx, shared.Worker, path, s.Core)
	if err != nil {
		return nil, positions{}, fmt.Errorf("CHECKPOINT_DIR is %q: %w", s.Dir, err)
	}
	at, err := parsePositions(raw, lanes)
	if err != nil {
		core.Free()
		return nil, at, fmt.Errorf("CHECKPOINT_DIR is %q: %s: %w", s.Dir, path, err)
	}
	shared.Logger.Info("resuming", "path", path, "step", core.Steps())
	return core, at, nil
}

func begin(ctx context.Context, shared engine.Shared, s Settings, lanes []int) (*trainer.Trainer, positions, error) {
	if s.Init == "" {
		return nil, positions{}, fmt.Errorf("TRAIN_INIT is empty and CHECKPOINT_DIR %q has no checkpoint: want weights to start from; `pairstream bootstrap` makes them", s.Dir)
	}
	m, err := model.Load(ctx, shared.Worker, s.Init, model.LoadOptions{Trainable: true})
	if err != nil {
		return nil, positions{}, fmt.Errorf("TRAIN_INIT is %q: %w", s.Init, err)
	}
	core, err := trainer.New(ctx, m, s.Core)
	if err != nil {
		m.Free()
		return nil, positions{}, err
	}
	return core, startOf(lanes), nil
}
