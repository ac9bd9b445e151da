package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/schemas"
)

// Checkpoints are written beside training. The loop copies the state to memory between two steps, and continues.
// Another goroutine writes the copy, one at a time: the next checkpoint waits for it. A checkpoint holds the weights,
// positions and evaluations at the time of the copy. A crash during the write costs only this checkpoint.

// noteTime bounds the notes about a checkpoint after training was asked to end.
const noteTime = time.Minute

// saving writes checkpoints, one at a time.
type saving struct {
	busy   chan struct{} // holds a value while a checkpoint is written
	others *interrupt.Group
	err    error // of a checkpoint that was written beside training
}

// beside lets the group's goroutines write checkpoints beside its other work; nil: the loop waits for them. Call it
// only while no checkpoint is being written.
func (s *saving) beside(others *interrupt.Group) { *s = saving{make(chan struct{}, 1), others, nil} }

// end makes the loop wait for checkpoints again, after the group has ended. It returns the error of one that was
// written beside training.
func (s *saving) end() error {
	err := s.err
	s.beside(nil)
	return err
}

// wait waits until nothing is being written.
func (s *saving) wait(ctx context.Context) error {
	select {
	case s.busy <- struct{}{}:
		<-s.busy
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// do runs write. Call it only while nothing is being written. A write that has begun continues for noteTime after ctx
// ends.
func (s *saving) do(ctx context.Context, write func(context.Context) error) error {
	if s.others == nil {
		return write(ctx)
	}
	s.busy <- struct{}{}
	s.others.Go(func() error {
		defer func() { <-s.busy }()
		ctx, cancel := outlive(ctx, noteTime)
		defer cancel()
		s.err = errors.Join(s.err, write(ctx))
		return s.err
	})
	return nil
}

// outlive returns a context that ends some time after another one.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(by, cancel) })
	return longer, func() {
		stop()
		cancel()
	}
}

// checkpoint saves weights and positions once every feature block up to the positions is acknowledged. So after a crash
// the trainer does not resume behind blocks that were lost.
func (l *loop) checkpoint(ctx context.Context) error {
	if err := l.saving.wait(ctx); err != nil {
		return err
	}
	started := time.Now()
	if err := l.publisher.Flush(ctx); err != nil {
		return fmt.Errorf("publishing features: %w", err)
	}
	at := l.at.clone()
	at.Judged = l.eval.state(at.Judged)
	raw, err := json.Marshal(at)
	if err != nil {
		return fmt.Errorf("encoding positions: %w", err)
	}
	state, err := l.core.Snapshot(ctx)
	if err != nil {
		return err
	}
	l.trained = false
	l.metrics.pause.Set(time.Since(started).Seconds())
	return l.saving.do(ctx, func(ctx context.Context) error { return l.save(ctx, state, at, raw) })
}

// save writes a checkpoint, and tells of it.
func (l *loop) save(ctx context.Context, state snapshot, at positions, raw json.RawMessage) error {
	started := time.Now()
	path, err := state.Save(l.dir, raw, l.stay)
	if err != nil {
		return err
	}
	if err := keepBest(l.dir, at.Judged, state.Steps(), path); err != nil {
		return err
	}
	l.metrics.saved(state.Steps(), time.Since(started))
	if err := l.keepSeqs(ctx, at); err != nil {
		return err
	}
	l.logger.Info("checkpoint written", keyStep, state.Steps(), keyPath, path)
	l.uploads.look()
	if err := l.weights.publish(ctx, state); err != nil {
		return err
	}
	err = l.publisher.Publish(ctx, schemas.ProgressLog, 0, &schemas.Progress{
		Kind: schemas.ProgressCheckpoint, Step: state.Steps(), Checkpoint: path, Time: time.Now().UnixMilli(),
	})
	if err != nil {
		return fmt.Errorf("publishing progress: %w", err)
	}
	return nil
}

// publishWeights publishes weights between two checkpoints, after those of the checkpoint that is being written.
func (l *loop) publishWeights(ctx context.Context) error {
	if err := l.saving.wait(ctx); err != nil {
		return err
	}
	state, err := l.core.Snapshot(ctx)
	if err != nil {
		return err
	}
	return l.weights.publish(ctx, state)
}

// keepSeqs notes the seq of each lane's last features, for the time when retention has removed them.
func (l *loop) keepSeqs(ctx context.Context, at positions) error {
	last := make(map[int]int64)
	for _, lane := range at.Lanes {
		seq := max(lane.Features-1, l.published[lane.Lane])
		if noted, ok := l.kept[lane.Lane]; seq >= 0 && (!ok || seq != noted) {
			last[lane.Lane] = seq
		}
	}
	if l.keep == nil || len(last) == 0 {
		return nil
	}
	if err := l.keep(ctx, Name, schemas.Features, last); err != nil {
		return fmt.Errorf("noting the last features: %w", err)
	}
	maps.Copy(l.kept, last)
	return nil
}

// weightsOf is what publishing needs of a [trainer.Snapshot].
type weightsOf interface {
	SaveWeights(path func(fingerprint string) string) (fingerprint string, err error)
	Steps() int64
}

// publishing publishes the weights of every checkpoint for an encoder that follows them. A nil one publishes nothing.
type publishing struct {
	log    *stream.Log
	dir    string // of checkpoints
	logger *slog.Logger
	wanted map[int64][]string // fingerprints that a replay's encoder waits for, by step
}

// begin learns which weights are waited for, and publishes those that training begins with. These may be those of a
// crash between a checkpoint and its announcement.
func (p *publishing) begin(ctx context.Context, now func(context.Context) (weightsOf, error)) error {
	if p == nil {
		return nil
	}
	known, err := weights.Read(ctx, p.log)
	if err != nil {
		return err
	}
	p.wanted = known.Wanted()
	s, err := now(ctx)
	if err != nil {
		return err
	}
	return p.publish(ctx, s)
}

// due says whether the weights of a step are waited for.
func (p *publishing) due(step int64) bool { return p != nil && len(p.wanted[step]) > 0 }

// publish announces weights, unless they were announced last. Their file is on the disk before that. Then it removes
// the files of weights that no lane of the encoder has chosen, except for the latest.
func (p *publishing) publish(ctx context.Context, of weightsOf) error {
	if p == nil {
		return nil
	}
	fingerprint, err := of.SaveWeights(func(fingerprint string) string { return weights.File(p.dir, fingerprint) })
	if err != nil {
		return err
	}
	for _, want := range p.wanted[of.Steps()] {
		if want != fingerprint {
			return fmt.Errorf("the weights of step %d are %s, and the encoder waits for %s, whose file is gone: this training does not repeat the one that made it; put the file of the original into %s",
				of.Steps(), fingerprint, want, weights.Folder(p.dir))
		}
	}
	known, err := weights.Read(ctx, p.log)
	if err != nil {
		return err
	}
	if newest, _ := known.Newest(); newest.Fingerprint == fingerprint {
		return nil
	}
	w := weights.Weights{Fingerprint: fingerprint, Step: of.Steps(), File: weights.File(p.dir, fingerprint)}
	if w.SHA256, err = weights.Hash(w.File); err != nil {
		return err
	}
	if err := weights.Announce(ctx, p.log, w); err != nil {
		return fmt.Errorf("announcing the weights of step %d: %w", w.Step, err)
	}
	p.logger.Info("weights published for the encoder", keyStep, w.Step, keyFingerprint, fingerprint, keyPath, w.File)
	stay, err := weights.Retire(ctx, p.log)
	if err != nil {
		return err
	}
	return weights.Prune(p.dir, stay)
}
