package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/tracing"
	"github.com/pairstream/pairstream/internal/model/ranks"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// prepared is the number of batches that are read, decoded and augmented ahead of the step that trains on them.
const prepared = 2

// reportEvery is the number of steps between two records on the progress topic.
const reportEvery = 10

// Step is an observer's report of a step.
type Step struct {
	Lane   int
	Result *trainer.Result
	Took   time.Duration
}

// core is the part of a [trainer.Trainer] that the loop needs.
type core interface {
	Step(context.Context, *schemas.ScoredBatch, trainer.Input) (*trainer.Result, error)
	Encode(context.Context, *schemas.ScoredBatch, trainer.Input) (*schemas.FeatureBlock, error)
	Prepare(context.Context, *schemas.ScoredBatch, trainer.Input) (*schemas.FeatureBlock, error)
	Finish(context.Context) (bool, error)
	Steps() int64
	Snapshot(context.Context) (snapshot, error)
}

// snapshot is the part of a [trainer.Snapshot] that the loop needs.
type snapshot interface {
	weightsOf
	Save(folder string, positions json.RawMessage, stay int64) (path string, err error)
}

// output is the part of a [stream.Publisher] that the loop needs.
type output interface {
	PublishSeq(ctx context.Context, topic schemas.Topic, lane int, seq int64, resume stream.Mark, rec schemas.Record) error
	Publish(ctx context.Context, topic schemas.Topic, lane int, rec schemas.Record) error
	DeadLetter(ctx context.Context, stage string, rec stream.Record, reason string) error
	Flush(ctx context.Context) error
}

// mostInARow is the number of consecutive batches that may be set aside. More mean that the weights are broken.
const mostInARow = 10

// loop trains on the batches of its feed, publishes the features and writes checkpoints.
type loop struct {
	core      core
	publisher output
	logger    *slog.Logger
	published map[int]int64       // last seq in features, by lane
	blocks    map[laneSeq]batchID // of steps that are repeated, as published
	inOrder   bool                // features appear in the log in the order of their steps
	dir       string
	every     int64
	plan      plan
	stay      int64 // checkpoints of its multiples are kept; 0: none
	eval      *evaluations
	saving    saving
	uploads   *uploads
	at        positions // behind the last complete step
	open      positions // behind the last batch
	within    bool      // the last batch was not the last of its step
	observe   func(Step)
	metrics   *metrics
	follower  *stream.Follower
	weights   *publishing
	trained   bool          // a step was made since the last checkpoint
	inARow    int           // batches set aside since the last that was not
	whole     trainer.Whole // the open step
	spent     time.Duration // on the open step
	kept      map[int]int64 // noted seqs by lane, of the checkpoint that is being written
	keep      func(ctx context.Context, stage string, topic schemas.Topic, seqs map[int]int64) error
	others    *others                     // nil: this trainer is alone
	ahead     int                         // batches that are prepared beside those of this process
	watch     func(context.Context) error // over the other ranks; nil: there are none
	gather    int                         // batches that a step gathers before it learns from the first; 0: none
	gathered  []work                      // batches of the open step that had the first of two passes
	traces    traces
	owner     *owner
}

// run trains until every lane has ended, a rank is lost, or ctx ends.
func (l *loop) run(ctx context.Context, f *feed) error {
	both, working := interrupt.WithContext(ctx)
	watching, over := context.WithCancel(working)
	both.Go(func() error {
		l.follower.Watch(watching)
		return nil
	})
	both.Go(func() error { return l.owner.watch(watching) })
	if l.watch != nil {
		both.Go(func() error { return l.watch(watching) })
	}
	l.saving.beside(both)
	ready := make(chan work, prepared+l.ahead)
	both.Go(func() error { return f.run(working, ready) })
	both.Go(func() error {
		defer over()
		if err := l.behindStep(working); err != nil {
			return err
		}
		for w := range ready {
			if err := l.step(working, w); err != nil {
				return err
			}
			l.follower.Pulse(w.lane).Done()
		}
		if f.at.ended() { // and the loop was not cut short with batches read ahead
			l.reached(f.at)
			return l.finish(working)
		}
		return nil
	})
	err := both.Wait()
	for w := range ready { // batches read ahead but not trained on
		w.input.Free()
	}
	l.freeGathered()
	if saved := l.saving.end(); saved != nil { // a loss beside it must not hide it
		return saved
	}
	return err
}

// leave writes a checkpoint at the end of a run, unless err says that the state may be broken, and returns err. The
// loss of a rank costs the open step alone.
func (l *loop) leave(ctx context.Context, err error) error {
	sound := interrupt.Failure(err) == nil || errors.Is(err, ranks.ErrLost)
	if !sound || !l.trained {
		return err
	}
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	return errors.Join(err, l.checkpoint(final))
}

// reached reports the training's position to lag dashboards.
func (l *loop) reached(at positions) {
	for _, lane := range at.Lanes {
		l.follower.Reached(lane.Lane, lane.Scored.Offset)
	}
}

func (l *loop) step(ctx context.Context, w work) error {
	switch {
	case w.again:
		return l.encode(ctx, w)
	case l.gather > 0:
		return l.prepare(ctx, w)
	}
	return l.learn(ctx, w)
}

// learn makes a step on a batch, or a part of one.
func (l *loop) learn(ctx context.Context, w work) error {
	started := time.Now()
	result, err := l.makeStep(ctx, w)
	if err != nil {
		return err
	}
	onePass := l.gather == 0 // else the position and the features are known since the first
	if onePass {
		l.open = w.after
		l.reached(w.after)
	}
	telling := ctx
	if l.within = !result.Updated; result.Updated {
		l.trained, l.at = true, l.open
		var told context.CancelFunc
		telling, told = outlive(ctx, noteTime) // a resumed training does not repeat this step
		defer told()
	}
	if err := l.setAside(telling, w, result); err != nil {
		return err
	}
	if onePass {
		if err := l.publish(telling, w, &result.Features); err != nil {
			return fmt.Errorf("publishing features of lane %d: %w", w.lane, err)
		}
	}
	took := w.took + time.Since(started)
	l.spent += took
	l.whole.Add(result)
	l.metrics.batch(result)
	l.observe(Step{Lane: w.lane, Result: result, Took: took})
	if !result.Updated {
		return nil
	}
	losses, counts := l.whole.Take()
	rate := float64(counts.Samples) / l.spent.Seconds()
	l.spent = 0
	l.metrics.step(losses)
	if result.Step%reportEvery == 0 {
		if err := l.report(telling, result, losses, counts, rate); err != nil {
			return err
		}
	}
	return l.behindStep(ctx)
}

// behindStep evaluates, checkpoints or publishes after the last whole step, if that is due and not done.
func (l *loop) behindStep(ctx context.Context) error {
	if err := l.evaluateAt(ctx, l.core.Steps()); err != nil || !l.trained {
		return err
	}
	switch {
	case l.every > 0 && l.core.Steps()%l.every == 0:
		return l.checkpoint(ctx)
	case l.weights.due(l.core.Steps()):
		return l.publishWeights(ctx)
	}
	return nil
}

// finish completes a step for which no more batches come.
func (l *loop) finish(ctx context.Context) error {
	if err := l.learnGathered(ctx); err != nil {
		return err
	}
	completed, err := l.core.Finish(ctx)
	if completed && err == nil {
		l.trained, l.at = true, l.open
	}
	if err != nil || !l.eval.missing(l.core.Steps(), l.trained) {
		return err
	}
	l.trained = true // the checkpoint tells of the evaluation
	return l.evaluate(ctx)
}

// setAside records that nothing was learned from a batch. Its features still travel, because the next epoch waits for
// them.
func (l *loop) setAside(ctx context.Context, w work, r *trainer.Result) error {
	if r.SetAside == "" {
		l.inARow = 0
		return nil
	}
	l.inARow++
	l.logger.Error("setting a batch aside", keyStage, Name, keyGroupID, w.batch.Group.String(), keyEpoch, w.batch.Epoch,
		keyBatch, w.batch.Sequence, keyStep, r.Step, keyReason, r.SetAside)
	// A repeated step has recorded it already. With two passes the features came before that, so they do not tell.
	if l.gather > 0 || w.seq > l.published[w.lane] {
		if err := l.publisher.DeadLetter(ctx, Name, w.rec, r.SetAside); err != nil {
			return fmt.Errorf("setting batch %d of lane %d aside: %w", w.seq, w.lane, err)
		}
	}
	l.metrics.setAside.Inc()
	if l.inARow > mostInARow {
		return fmt.Errorf("%d batches in a row were set aside, the last because its %s: the weights are broken; go back to an earlier checkpoint, with a lower LR", l.inARow, r.SetAside)
	}
	return nil
}

// publish publishes the features of a step, unless the log has them already.
func (l *loop) publish(ctx context.Context, w work, features *schemas.FeatureBlock) error {
	if w.batch.Again && !w.again {
		return nil
	}
	if w.seq <= l.published[w.lane] {
		return l.compare(w)
	}
	if err := l.owner.sure(ctx); err != nil {
		return err
	}
	if l.inOrder { // the block before, of another lane perhaps, was on its way during the step
		if err := l.publisher.Flush(ctx); err != nil {
			return err
		}
	}
	return l.publisher.PublishSeq(tracing.WithAbout(ctx, w.about), schemas.Features, w.lane, w.seq, stream.Mark{}, features)
}

// compare refuses to repeat a step with another batch than the one of its features in the log.
func (l *loop) compare(w work) error {
	b := w.batch
	was, known := l.blocks[laneSeq{w.lane, w.seq}]
	if !known || was == (batchID{b.Group, b.Epoch, b.Sequence}) {
		return nil
	}
	return fmt.Errorf("features %d in the log are of batch %d of epoch %d, group %s, and would now be of batch %d of epoch %d, group %s: "+
		"a batch was skipped after it had been trained on; begin from a later checkpoint, or use another NAMESPACE",
		w.seq, was.sequence, was.epoch, was.group, b.Sequence, b.Epoch, b.Group)
}

// report publishes the progress of a step: the mean losses of its batches, and the sums of their counts.
func (l *loop) report(ctx context.Context, r *trainer.Result, losses trainer.Losses, counts trainer.Counts, pairsPerSecond float64) error {
	err := l.publisher.Publish(ctx, schemas.ProgressLog, 0, &schemas.Progress{
		Kind: "step", Step: r.Step, Time: time.Now().UnixMilli(),
		Values: map[string]float64{
			"loss": losses.Total, "loss_itc": losses.ITC, "loss_itm": losses.ITM, "loss_mlm": losses.MLM, "loss_uni": losses.Uni,
			"learning_rate": r.Rate, "pairs_per_second": pairsPerSecond,
			"candidates": float64(counts.Candidates), "connections": float64(counts.Confirmed),
		},
	})
	if err != nil {
		return fmt.Errorf("publishing progress: %w", err)
	}
	return nil
}
