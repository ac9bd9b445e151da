package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/ranks"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// member is a rank above 0. It carries out rank 0's requests and writes nothing: no records, no checkpoints, no files.
type member struct {
	shares
	link       *ranks.Member
	load       func(context.Context, *schemas.ScoredBatch, []schemas.Mask) (trainer.Input, error)
	wholeBatch bool
	metrics    func() (end func()) // times a batch
	gather     int                 // batches that a step gathers before it learns from the first; 0: none
	gathered   []task              // batches of the open step that had the first of two passes
}

// sharesOf makes the shares of a rank above 0.
func sharesOf(core sharedCore, link *ranks.Member, at slots) shares {
	return shares{core: core, slots: at, sum: func(ctx context.Context, own ranks.Part, _ joinFunc) (ranks.Part, error) { return link.Sum(ctx, own) }}
}

// membership is the part of a rank above 0 in the training, through losses of other ranks. It keeps its state when
// another rank is lost.
type membership struct {
	tools    device.Tools
	settings Settings
	core     *trainer.Trainer // nil: it has no state yet
	load     inputs
	traffic  traffic
}

// follow trains as a rank above 0 until rank 0 ends the training.
func follow(ctx context.Context, tools device.Tools, s Settings) error {
	t := &membership{tools: tools, settings: s}
	defer t.free()
	if err := t.traffic.register(tools.Instruments); err != nil {
		return err
	}
	for {
		err := t.train(ctx)
		switch {
		case !errors.Is(err, ranks.ErrLost):
			return err
		case ctx.Err() != nil:
			return ctx.Err() // all ranks are stopping, and one was quicker
		}
		tools.Instruments.Log.Warn("a rank is lost: this one keeps its state and waits until all are there", keyRank, s.Ranks.Rank, keyErr, err)
	}
}

// train joins the other ranks, and trains with them until rank 0 ends the training or one is lost.
func (t *membership) train(ctx context.Context) (err error) {
	link, err := ranks.Join(ctx, t.settings.group(t.tools))
	if err != nil {
		return err
	}
	t.traffic.of(link.Traffic)
	defer func() {
		link.Close(reason(ctx, err))
		if errors.Is(err, ranks.ErrLost) && link.Over() {
			err = nil
		}
	}()
	if err := t.agree(ctx, link); err != nil {
		return whole(err)
	}
	s := t.settings
	t.tools.Instruments.Counters().Lanes.Store(int64(t.tools.Log.Config().Lanes))
	t.tools.Instruments.Loaded()
	t.tools.Instruments.Log.Info("training with rank 0", keyStage, Name, keyRank, s.Ranks.Rank, keyCount, s.Ranks.WorldSize, keyStep, t.core.Steps())
	p := places{world: s.Ranks.WorldSize, batches: s.Core.StepBatches}
	m := &member{shares: sharesOf(t.core, link, p.slots(s.Ranks.Rank)), link: link, load: t.load.load, wholeBatch: s.wholeBatch(), metrics: t.tools.Instruments.Batch, gather: s.gather()}
	return whole(m.run(ctx))
}

// agree takes the state of rank 0, unless this rank holds it.
func (t *membership) agree(ctx context.Context, link *ranks.Member) error {
	var held stateful // a nil trainer is none
	if t.core != nil {
		held = t.core
	}
	state, err := takeState(ctx, link, held)
	if err != nil || state == nil {
		return err
	}
	worker, err := t.tools.Worker()
	if err != nil {
		return err
	}
	t.free()
	if t.core, err = trainer.Read(ctx, worker, state, t.settings.Options()); err != nil {
		return err
	}
	t.load, err = newInputs(ctx, t.tools, t.settings, t.core)
	return err
}

func (t *membership) free() {
	if t.core != nil {
		t.core.Free()
	}
	t.core = nil
}

// whole turns an orderly end of the training into nil.
func whole(err error) error {
	if errors.Is(err, ranks.ErrDone) {
		return nil
	}
	return err
}

// task is an errand whose images are loaded.
type task struct {
	errand
	batch *schemas.ScoredBatch
	input trainer.Input
}

// run carries out rank 0's requests until rank 0 ends the training. It finishes the requests that came before the end,
// so this rank completes the last step too.
func (m *member) run(ctx context.Context) error {
	both, working := interrupt.WithContext(ctx)
	doing, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(working, func() {
		if !errors.Is(context.Cause(working), ranks.ErrDone) {
			stop()
		}
	})
	both.Go(func() error { return m.link.Watch(working) })
	ready := make(chan task, prepared)
	both.Go(func() error {
		defer close(ready)
		for {
			t, err := m.prepare(doing)
			if err != nil {
				return err
			}
			select {
			case ready <- t:
			case <-doing.Done():
				t.input.Free()
				return doing.Err()
			}
		}
	})
	both.Go(func() error {
		defer stop()
		for t := range ready {
			if err := m.do(doing, t); err != nil {
				return err
			}
		}
		return nil
	})
	err := both.Wait()
	for t := range ready {
		t.input.Free()
	}
	for _, t := range m.gathered {
		t.input.Free()
	}
	return err
}

// prepare hears the next errand and loads its images.
func (m *member) prepare(ctx context.Context) (t task, err error) {
	raw, err := m.link.Hear(ctx)
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(raw, &t.errand); err != nil {
		return t, fmt.Errorf("reading what rank 0 asks for: %w", err)
	}
	if t.Kind == errandComplete {
		return t, nil
	}
	value, err := schemas.Unmarshal(t.Schema, t.Record)
	if err != nil {
		return t, fmt.Errorf("reading a batch of rank 0: %w", err)
	}
	batch, ok := value.(*schemas.ScoredBatch)
	if !ok {
		return t, fmt.Errorf("reading a batch of rank 0: it is a %s", t.Schema)
	}
	if t.batch = batch; t.Kind == errandLearn && m.wholeBatch {
		forgetCandidates(batch)
	}
	t.input, err = m.load(ctx, batch, t.Masked)
	t.input.Decay = t.Decay
	return t, err
}

// do carries out an errand, and tells rank 0 the result.
func (m *member) do(ctx context.Context, t task) error {
	switch t.Kind {
	case errandComplete:
		if err := m.learnGathered(ctx); err != nil {
			return err
		}
		return m.complete(ctx, nil)
	case errandLearn:
		if m.gather > 0 {
			return m.prepareKeys(ctx, t)
		}
		return m.learn(ctx, t)
	case errandEncode:
		features, err := m.core.EncodeAt(ctx, t.batch, t.input, t.Number)
		if err != nil {
			return err
		}
		return m.tell(trainer.Result{}, features)
	}
	t.input.Free()
	return fmt.Errorf("rank 0 asks for %q, which this rank does not know", t.Kind)
}

// learn learns from a batch.
func (m *member) learn(ctx context.Context, t task) error {
	end := m.metrics()
	r, err := m.shares.learn(ctx, t.batch, t.input, t.Number)
	end()
	if err != nil {
		return err
	}
	features := r.Features
	return m.tell(*r, &features)
}

// tell tells rank 0 the result of an errand.
func (m *member) tell(r trainer.Result, f *schemas.FeatureBlock) error {
	answer, err := outcomeOf(r, f)
	if err != nil {
		return err
	}
	return m.link.Tell(answer)
}
