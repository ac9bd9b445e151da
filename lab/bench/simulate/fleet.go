package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/grouper"
	groupers "github.com/pairstream/pairstream/grouper/service"
	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
)

// fleet is the cluster that is played: one grouper for each lane, discriminators, and one trainer of all GPUs.
type fleet struct {
	Crawl  crawl
	Epochs int
	Batch  int           // pairs of a mini-batch
	Space  int           // pairs of a walk
	Queue  int           // pairs of a queue; 0: the whole group
	Epoch  time.Duration // that the trainer takes for one epoch of all lanes
	Walks  time.Duration // that the walks of one group take in an epoch
}

// walk returns the time of one walk.
func (f fleet) walk() time.Duration {
	return f.Walks * time.Duration(f.Space) / time.Duration(f.Crawl.Pairs)
}

// rest sleeps in the place of a core that works.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// step returns the trainer's time for one mini-batch.
func (f fleet) step() time.Duration {
	return f.Epoch * time.Duration(f.Batch) / time.Duration(f.Crawl.Pairs*f.Crawl.Lanes)
}

// open connects to the log of the fleet.
func (f fleet) open(ctx context.Context, broker string) (*stream.Log, error) {
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Lanes, cfg.SessionTimeout = []string{broker}, f.Crawl.Lanes, 2*time.Second
	return stream.Connect(ctx, cfg, stream.Options{Logger: slog.New(slog.DiscardHandler)})
}

// grouper returns the real stage. Its walks sleep.
func (f fleet) grouper(ctx context.Context, log *stream.Log) (stream.StageSpec, error) {
	i, err := service.NewRuntime(slog.New(slog.DiscardHandler)).NewInstruments(groupers.Name, nil)
	if err != nil {
		return stream.StageSpec{}, err
	}
	s := groupers.Settings{Core: grouper.Options{
		Strategy: grouper.StrategyGRIT, Epochs: f.Epochs, BatchSize: f.Batch, QueueSize: f.Queue, SearchSpace: f.Space, Features: grouper.SourceTraining,
		Candidates: 2, Texts: grouper.TextNone, Workers: 1, EpochGroups: 1,
	}}
	if err := s.Core.Validate(); err != nil {
		return stream.StageSpec{}, err
	}
	return groupers.Spec(ctx, log, i, s, func(int) { rest(ctx, f.walk()) }), nil
}

// scoring is a discriminator that knows nothing.
type scoring struct{}

// Input implements [stream.Stage].
func (scoring) Input() schemas.Topic { return schemas.Batches }

// Process implements [stream.Stage].
func (scoring) Process(_ context.Context, rec stream.Record, out stream.Output) error {
	value, err := schemas.Unmarshal(rec.Schema, rec.Value)
	if err != nil {
		return err
	}
	if b, ok := value.(*schemas.Batch); ok {
		value = &schemas.ScoredBatch{
			Batch: *b, Model: "simulated", ProbI2T: make(schemas.Floats32, len(b.I2T)), ProbT2I: make(schemas.Floats32, len(b.T2I)),
		}
	}
	return out.Emit(schemas.Scored, value, out.After(rec, nil))
}

// Flush implements [stream.Stage].
func (scoring) Flush(context.Context, stream.Output) error { return nil }

func scoringSpec() stream.StageSpec {
	return stream.StageSpec{
		Name: "discriminator", Inputs: []schemas.Topic{schemas.Batches}, Outputs: []schemas.Topic{schemas.Scored},
		New: func(int, []byte) (stream.Stage, error) { return scoring{}, nil },
	}
}

// trainer takes the lanes in turn, sleeps for each step, and writes features.
type trainer struct {
	fleet
	log   *stream.Log
	lanes []chan *schemas.ScoredBatch // closed at the lane's end
	took  func(b *schemas.Batch)      // called with every batch that is trained on; nil: nobody asks
	made  [2][]schemas.Float16s       // v and t of a position, the same in all lanes and epochs
}

func (f fleet) newTrainer(log *stream.Log) *trainer {
	t := &trainer{fleet: f, log: log}
	for range f.Crawl.Lanes {
		t.lanes = append(t.lanes, make(chan *schemas.ScoredBatch, 4))
	}
	t.made = f.Crawl.vectors()
	return t
}

// read hands the records of the lanes to the steps.
func (t *trainer) read(ctx context.Context) error {
	spec := stream.FollowSpec{
		Name: "trainer", Topic: schemas.Scored, Writes: []schemas.Topic{schemas.Features}, From: make(map[int]stream.Position),
		Waiting: func(int) (string, bool) { return "the next batch", false },
		Take: func(ctx context.Context, lane *stream.FollowedLane, rec stream.Record) error {
			value, err := schemas.Unmarshal(rec.Schema, rec.Value)
			if err != nil {
				return err
			}
			b, ok := value.(*schemas.ScoredBatch)
			if !ok {
				close(t.lanes[lane.ID])
				return io.EOF
			}
			select {
			case t.lanes[lane.ID] <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
	for lane := range t.Crawl.Lanes {
		spec.From[lane] = stream.Position{}
	}
	return t.log.Follow(spec).Run(ctx)
}

// train makes the steps until every lane has ended.
func (t *trainer) train(ctx context.Context) error {
	p := t.log.NewPublisher(stream.PublisherOptions{})
	seqs, ended, free := make([]int64, t.Crawl.Lanes), 0, time.Time{}
	for step := int64(1); ended < t.Crawl.Lanes; {
		ended = 0
		for lane := range t.Crawl.Lanes {
			var b *schemas.ScoredBatch
			select {
			case b = <-t.lanes[lane]:
			case <-ctx.Done():
				return ctx.Err()
			}
			if b == nil {
				ended++
				continue
			}
			free = t.work(ctx, &b.Batch, free)
			if err := t.answer(ctx, p, lane, seqs[lane], step, &b.Batch); err != nil {
				return err
			}
			seqs[lane]++
			step++
		}
	}
	return p.Close(ctx)
}

// work sleeps for a step that begins when the batch is there and the step before is over. It returns its end.
func (t *trainer) work(ctx context.Context, b *schemas.Batch, free time.Time) time.Time {
	if now := time.Now(); now.After(free) {
		free = now
	}
	free = free.Add(t.step())
	rest(ctx, time.Until(free))
	if t.took != nil {
		t.took(b)
	}
	return free
}

// answer writes the features of a batch, and a note of a checkpoint now and then.
func (t *trainer) answer(ctx context.Context, p *stream.Publisher, lane int, seq, step int64, b *schemas.Batch) error {
	if err := p.PublishSeq(ctx, schemas.Features, lane, seq, stream.Mark{}, t.Crawl.features(b, t.made, step)); err != nil {
		return err
	}
	every := int64(t.Crawl.Pairs*t.Crawl.Lanes/t.Batch/4 + 1)
	if step%every > 0 {
		return nil
	}
	return p.Publish(ctx, schemas.ProgressLog, 0, &schemas.Progress{Kind: schemas.ProgressCheckpoint, Step: step, Checkpoint: fmt.Sprint("step-", step)})
}

// grouping runs the real stage on all lanes.
func (f fleet) grouping(log *stream.Log) func(context.Context) error {
	return func(ctx context.Context) error {
		spec, err := f.grouper(ctx, log)
		if err != nil {
			return err
		}
		return log.Run(ctx, spec)
	}
}

// run plays the fleet with what groups, until all is trained on.
func (f fleet) run(ctx context.Context, log *stream.Log, t *trainer, grouping func(context.Context) error) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	var all errgroup.Group
	fail := func(work func(context.Context) error) {
		all.Go(func() error {
			err := work(running)
			if err != nil {
				stop()
			}
			return err
		})
	}
	fail(func(ctx context.Context) error { return log.Run(ctx, scoringSpec()) })
	fail(t.read)
	fail(grouping)
	err := t.train(running)
	stop()
	if failed := interrupt.Failure(errors.Join(all.Wait(), err)); failed != nil {
		return failed
	}
	return ctx.Err()
}

// cluster is a broker in memory with the log of a crawl.
type cluster struct {
	*stream.Log
	broker *broker.Broker
}

// begin starts a broker and writes the crawl into its log.
func (f fleet) begin(ctx context.Context) (*cluster, error) {
	broker, err := broker.Start(broker.Options{})
	if err != nil {
		return nil, err
	}
	c := &cluster{broker: broker}
	if c.Log, err = f.open(ctx, broker.Addr()); err == nil {
		err = c.EnsureTopics(ctx)
	}
	if err == nil {
		err = f.Crawl.publish(ctx, c.Log)
	}
	if err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

func (c *cluster) end() {
	if c.Log != nil {
		c.Close()
	}
	_ = c.broker.Close() // it is in memory
}
