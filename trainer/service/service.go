// Package service is the trainer as a service. It reads scored batches of its lanes, trains one step on each, publishes
// the features, reports progress and writes checkpoints.
//
// The trainer resumes from the checkpoint: weights, optimiser and, for every lane, the position of the next batch.
// After a crash it repeats the steps since the checkpoint. It does not publish feature blocks again that are in the
// log, so the first published ones count. Block s of a lane belongs to the lane's batch s, whatever happened in other
// lanes meanwhile. Its values are those of the weights at its step.
//
// # The order of lanes
//
// A step is a function of the steps before it, so everything depends on the order of lanes. With [Rotation] the order
// follows from the lanes' content. With [Arrival] it depends on when batches arrive, and:
//
//  1. Before a step is made, its lane is in the file lane-order of CHECKPOINT_DIR, synced. A step in the file is
//     never made on another lane, by this process or a later one. So every effect of a step (features in the log,
//     checkpoints) follows the order of the file, whenever a crash comes. After a crash between writing and training,
//     the batch is trained on when it comes again. After a crash between training and the checkpoint, the step is
//     repeated.
//  2. Blocks name their step, and appear in the log in the order of steps: one is sent when the one before is
//     acknowledged. So the features of all lanes, up to any moment, also give the order without gaps. A replay reads
//     it from there ([CopyOrder]), and so does a trainer whose file was lost. The file may have a few more steps than
//     the log: the last ones, whose features were not acknowledged. A broker may still execute a request of a dead
//     process, so they may appear in the log later. So the file comes first.
//  3. One process writes the file: it is locked.
//
// The trainer follows the written order, even if the setting has changed.
//
// With LR_SCHEDULE=stream the decay begins when every lane has reached the group that a final seal closes. A lane has
// no such group if it never had a pair or its last group was full. It counts when its seal is read. With [Arrival] that
// step is noted in the log. If no lane has such a group, nothing is left to decay over.
//
// A parked or late lane has no batch. With [Arrival] the others continue. With [Rotation] they wait, and say so: to
// continue would make an order that no replay has. An operator's skip is recorded in the log, so every trainer skips
// the same records, at the same step.
//
// With STEP_BATCHES above 1, the steps of this order are batches: the order is one of batches, and so are the numbers
// in feature blocks. A checkpoint lies between two steps of the optimiser. After a restart the batches of an open step
// come again, and their features are in the log already.
//
// # Ranks
//
// With WORLD_SIZE above 1, several trainers share the batches of every step (internal/model/ranks). Rank 0 alone reads
// the log and writes: features, progress, the order of lanes, checkpoints. So everything above holds unchanged. Rank 0
// hands the other ranks their batches ahead of the steps, as they are in the log. They load the images and compute. A
// batch whose result rank 0 has not received counts as not trained on.
//
//  1. A step has STEP_BATCHES batches. Rank r of R has a run of STEP_BATCHES / R of them. Gradients are added along one tree
//     over the batches, first within a rank and then across. So the weights are the same bits for every R.
//  2. The other ranks begin with the state of rank 0. They get the sum of the gradients, the momentum keys of all
//     batches and the learning rate of a step. So they hold the same state after it. Only rank 0's checkpoint counts.
//  3. When a rank is lost, all others drop the open step and keep the state after the last whole one. They join anew
//     when it is back. Rank 0 then continues as if it had started from a checkpoint of that moment: records in the
//     log are not published again. A rank with another state takes rank 0's. So a step that only some ranks made
//     counts if rank 0 made it. If rank 0 itself comes back, all others return to its checkpoint.
//
// # Two passes
//
// With ITC_GATHER a step learns from its first batch only after all of its batches were encoded once, without
// gradients. That first pass gives the features, and the keys that batches compare with each other.
//
//  1. The features of a batch are published with its first pass, before the step has all batches, because the grouper
//     may need them to make the rest. So the features of a batch that is set aside mask only its unavailable images.
//  2. The ranks exchange keys between the passes. A batch finds the keys of the others in the order of the step,
//     whichever ranks made them. So the weights are the same bits for every R.
//  3. A checkpoint still lies between two steps. A step that was begun is begun anew.
//
// # Features that are made anew
//
// With GRIT_FEATURES=current the batches of an epoch are encoded after its last step, with the weights current at that
// time. The steps publish no features, and nothing comes between the last step and the encoding of the lane. So block s
// is still that of batch s, and a function of the steps before it.
//
// # Weights for the encoder
//
// With ENCODER_CHECKPOINT=@latest the trainer publishes weights when it starts and with every checkpoint: a file in
// CHECKPOINT_DIR/published, and a note in the log. Package internal/log/weights tells which files stay.
//
// # The log of a checkpoint
//
// Positions have a meaning in one log alone. A checkpoint names its namespace and cluster, and the last record read of
// every lane. The trainer refuses to start if the log at hand differs, if another trainer holds the folder's lock, or
// if another one owns the namespace ([owner]).
package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// Name is the name of the stage, in metrics and consumer groups.
const Name = "trainer"

// Run trains until every lane has ended or ctx ends.
func Run(ctx context.Context, tools device.Tools, s Settings) error {
	return RunObserved(ctx, tools, s, func(Step) {})
}

// RunObserved does what [Run] does and calls observe after every step.
func RunObserved(ctx context.Context, tools device.Tools, s Settings, observe func(Step)) (err error) {
	if s.Ranks.Rank > 0 {
		return follow(ctx, tools, s)
	}
	lock, err := lockFolder(s.Dir)
	if err != nil {
		return fmt.Errorf("CHECKPOINT_DIR is %q: %w", s.Dir, err)
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	return owning(ctx, tools.Log, s.Dir, tools.Instruments.Log, func(o *owner) error { return runOwned(ctx, tools, s, observe, o) })
}

// runOwned does what [RunObserved] does as the owner of the namespace.
func runOwned(ctx context.Context, tools device.Tools, s Settings, observe func(Step), o *owner) (err error) {
	last, err := lastFeatures(ctx, tools.Log)
	if err != nil {
		return err
	}
	copies, err := newUploads(ctx, tools.Instruments, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, copies.close()) }()
	core, at, err := open(ctx, tools, s, last, copies)
	if err != nil {
		return err
	}
	defer core.Free()
	metrics, err := newMetrics(tools.Instruments)
	if err != nil {
		return err
	}
	l := &loop{
		core: single{core}, logger: tools.Instruments.Log, published: last, inOrder: s.Order == Arrival,
		gather: s.gather(), dir: s.Dir, every: s.Every, stay: s.Stay, at: at, observe: observe, metrics: metrics, uploads: copies,
		traces: traces{tracer: tools.Log.Tracer()}, owner: o, plan: s.Planned.planOf(s.Core, tools.Log.Config().Lanes),
	}
	l.plan.tell(l.logger)
	if s.Ranks.several() {
		l.others, err = lead(ctx, tools, s, core)
		defer func() { l.others.leave(reason(ctx, err)) }()
		if err != nil {
			return err
		}
		l.ahead = s.Core.StepBatches
	}
	return train(ctx, tools, s, core, l)
}

// train joins the loop to the log and runs it.
func train(ctx context.Context, tools device.Tools, s Settings, core *trainer.Trainer, l *loop) error {
	log, instruments := tools.Log, tools.Instruments
	load, err := newInputs(ctx, tools, s, core)
	if err != nil {
		return err
	}
	if l.eval, err = newEvaluations(ctx, tools, s, core, l.at.Judged); err != nil {
		return err
	}
	l.weights = s.publishing(log, instruments.Log)
	if err := l.weights.begin(ctx, func(ctx context.Context) (weightsOf, error) { return l.core.Snapshot(ctx) }); err != nil {
		return err
	}
	publisher := log.NewPublisher(stream.PublisherOptions{Name: Name, Counters: instruments.Counters()})
	instruments.Counters().Lanes.Store(int64(len(l.at.Lanes)))
	instruments.Loaded()
	l.publisher = publisher
	l.kept, l.keep = make(map[int]int64), log.KeepSeqs
	f, err := l.feed(ctx, tools, s, core, load, publisher)
	if err != nil {
		return errors.Join(err, publisher.Close(context.WithoutCancel(ctx)))
	}
	if err := l.keepSeqs(ctx, l.at); err != nil {
		return errors.Join(err, publisher.Close(context.WithoutCancel(ctx)), f.close())
	}
	uploaded := l.uploads.start(ctx)
	err = l.through(ctx, f, !s.ExitAtEnd, func(ctx context.Context) (f *feed, err error) {
		if l.published, err = lastFeatures(ctx, log); err != nil {
			return nil, err
		}
		l.at.know(l.published, l.logger)
		return l.feed(ctx, tools, s, core, load, publisher)
	})
	uploaded(err == nil && ctx.Err() == nil)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, publisher.Close(closing))
}

// feed makes the feed that goes on behind the last whole step, and joins the loop to it.
func (l *loop) feed(ctx context.Context, tools device.Tools, s Settings, core *trainer.Trainer, load inputs, letters *stream.Publisher) (*feed, error) {
	f := &feed{order: s.Order, at: l.at.clone(), step: core.Batches(), wholeBatch: s.wholeBatch(), metrics: l.metrics, load: load.load}
	f.follow(tools.Log, letters, stream.FollowSpec{})
	if err := f.recall(ctx, s, l.published); err != nil {
		return nil, err
	}
	if l.others != nil {
		l.core, f.errands = l.others.share()
		l.watch = l.others.group.Watch
	}
	l.follower, l.blocks = f.follower, f.blocks
	l.open, l.within, l.whole, l.spent, l.traces.open = positions{}, false, trainer.Whole{}, 0, nil
	l.reached(l.at)
	return f, nil
}

// gone stands for the seq of a lane's last features where retention has removed all of them. The checkpoint knows it.
const gone = -2

// lastFeatures returns the seq of each lane's last features: -1 where there are none, gone where there are none any
// more.
func lastFeatures(ctx context.Context, log *stream.Log) (map[int]int64, error) {
	last := make(map[int]int64)
	for lane := range log.Config().Lanes {
		seq, err := log.LastSeq(ctx, schemas.Features, lane)
		switch {
		case errors.Is(err, stream.ErrGap):
			seq = gone
		case err != nil:
			return nil, fmt.Errorf("looking for the last features of lane %d: %w", lane, err)
		}
		last[lane] = seq
	}
	return last, nil
}

// metrics report the results of steps, in addition to the metrics of every stage.
type metrics struct {
	*service.Instruments
	losses   *prometheus.GaugeVec
	anchors  *prometheus.CounterVec
	rate     prometheus.Gauge
	steps    prometheus.Gauge
	masked   prometheus.Counter
	hardest  prometheus.Gauge
	setAside prometheus.Counter
	eval     *prometheus.GaugeVec
	evalStep prometheus.Gauge
	evalTook prometheus.Gauge
	saveStep prometheus.Gauge
	saveTook prometheus.Gauge
	pause    prometheus.Gauge
	lost     prometheus.Counter
}

func newMetrics(i *service.Instruments) (*metrics, error) {
	const prefix = "pairstream_trainer_"
	m := &metrics{
		Instruments: i,
		losses:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "loss", Help: "Losses of the last step, the mean of its batches."}, []string{"kind"}),
		anchors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "anchors_total", Help: "Anchors of both directions by the class of their hardest candidate; alone: there was none.",
		}, []string{"class"}),
		rate:     prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "learning_rate", Help: "Learning rate of the last step."}),
		steps:    prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "steps", Help: "Training steps made, in earlier runs as well."}),
		masked:   prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "masked_samples_total", Help: "Samples that no step learned from, because their images are gone."}),
		hardest:  prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "hardest_scored_ratio", Help: "Share of the last scored batch's anchors whose hardest sample, by the current model, was among Con-D's candidates."}),
		setAside: prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "batches_set_aside_total", Help: "Batches that no step learned from, because their loss is not a finite number."}),
		eval:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "eval", Help: "Figures of the last evaluation on EVAL_DATA, in percent."}, []string{"measure"}),
		evalStep: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "eval_step", Help: "Training steps that the last evaluation was made after."}),
		evalTook: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "eval_seconds", Help: "Time that the last evaluation took, in which no step was made."}),
		saveStep: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "checkpoint_step", Help: "Training steps in the last checkpoint that this process has written."}),
		saveTook: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "checkpoint_seconds", Help: "Time that writing the last checkpoint took, beside training."}),
		pause:    prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "checkpoint_pause_seconds", Help: "Time that training stood still for the last checkpoint, while its state was copied."}),
		lost:     prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "ranks_lost_total", Help: "Times that training stood still because a rank was lost, until all were there again."}),
	}
	return m, i.Register(m.losses, m.anchors, m.rate, m.steps, m.masked, m.setAside, m.hardest, m.eval, m.evalStep, m.evalTook, m.saveStep, m.saveTook, m.pause, m.lost)
}

// evaluated notes the figures of an evaluation.
func (m *metrics) evaluated(step int64, values schemas.Measures, took time.Duration) {
	for name, v := range values {
		m.eval.WithLabelValues(name).Set(v)
	}
	m.evalStep.Set(float64(step))
	m.evalTook.Set(took.Seconds())
}

// saved notes a checkpoint that is on the disk.
func (m *metrics) saved(step int64, took time.Duration) {
	m.saveStep.Set(float64(step))
	m.saveTook.Set(took.Seconds())
}

// step notes the mean losses of a whole step.
func (m *metrics) step(l trainer.Losses) {
	for kind, loss := range map[string]float64{"itc": l.ITC, "itm": l.ITM, "mlm": l.MLM, "uni": l.Uni, "total": l.Total} {
		m.losses.WithLabelValues(kind).Set(loss)
	}
}

// batch notes one batch of a step.
func (m *metrics) batch(r *trainer.Result) {
	for class, n := range map[string]int{
		"negative": r.Counts.Negatives, "ambiguous": r.Counts.Ambiguous, "connection": r.Counts.Connections, "alone": r.Counts.Alone,
	} {
		m.anchors.WithLabelValues(class).Add(float64(n))
	}
	m.rate.Set(r.Rate)
	m.steps.Set(float64(r.Step + 1))
	if r.Counts.Anchors > 0 {
		m.hardest.Set(float64(r.Counts.HardestScored) / float64(r.Counts.Anchors))
	}
	m.masked.Add(float64(r.Counts.Masked))
	m.PairsOut(r.Counts.Samples)
}
