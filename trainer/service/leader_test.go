package service

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/ranks"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// threeSamples returns a batch that a step can learn from.
func threeSamples(n int) *schemas.ScoredBatch {
	b := testBatch(0, n)
	b.Batches = 7
	for k := range int32(2) {
		sample := b.Samples[0]
		sample.ImageID = schemas.NewImageID(fmt.Append(nil, "another image", n, k))
		sample.ID = schemas.NewPairID(sample.ImageID, sample.Text)
		sample.Position += 100 * (k + 1)
		b.Samples = append(b.Samples, sample)
	}
	return b
}

// drawn returns an input of a batch. The positives of batch notFinite are no numbers, and batch masked has lost an
// image.
func drawn(b *schemas.ScoredBatch) trainer.Input {
	const notFinite, masked = 2, 1
	const side = 16
	in := trainer.Input{Pixels: make([]float32, 3*3*side*side), Positives: make([]float32, 3*3*side*side)}
	for i := range in.Pixels {
		in.Pixels[i] = float32(math.Sin(float64(i * int(b.Sequence+2))))
		in.Positives[i] = in.Pixels[i] / 2
		if b.Sequence == notFinite {
			in.Positives[i] = float32(math.NaN())
		}
	}
	if b.Sequence == masked {
		in.Masked = []schemas.Mask{{Sample: 1, Reason: schemas.MaskForbidden}}
	}
	for k := range int32(3) {
		in.IDs = append(in.IDs, []int32{2, 5, 1 + k, 5, 3})
	}
	return in
}

func ofFour() trainer.Options {
	o := trainer.MAFA()
	o.StepBatches, o.UniWeight, o.Seed = 4, 1, 3
	o.Momentum = trainer.MomentumOptions{Decay: 0.9, Queue: 8}
	return o
}

// newCore makes a trainer, from a state unless that is nil.
func newCore(t *testing.T, weights string, state []byte, o trainer.Options) *trainer.Trainer {
	t.Helper()
	w, err := torch.NewWorker(torch.WorkerOptions{Threads: 1, Deterministic: true})
	must.Do(t, err)
	t.Cleanup(w.Close)
	var core *trainer.Trainer
	if state != nil {
		core, err = trainer.Read(context.Background(), w, state, o)
	} else {
		var m *model.Model
		if m, err = model.Load(context.Background(), w, weights, model.LoadOptions{Trainable: true}); err == nil {
			core, err = trainer.New(context.Background(), m, o)
		}
	}
	must.Do(t, err)
	t.Cleanup(core.Free)
	return core
}

func stateOf(t *testing.T, core *trainer.Trainer) []byte {
	t.Helper()
	var state bytes.Buffer
	must.Do(t, core.Write(context.Background(), &state))
	return state.Bytes()
}

// Momentum keys travel beside the gradients, and come back in the order of the step's batches. No batch has them twice.
func TestMomentumKeysTravelWithTheGradients(t *testing.T) {
	keys := func(n float32) trainer.Keys {
		return trainer.Keys{Image: []float32{n}, Text: []float32{-n}, IDs: []schemas.ImageID{{byte(n)}}}
	}
	var notes [][]byte
	vectors := make([][]float32, 2*4)
	for rank, own := range [][]trainer.Keys{{keys(1), keys(2)}, {keys(3)}} {
		p := must.Get(partOf(5, trainer.Share{Batches: 2, Keys: own}, slots{2 * rank, 2, 4}))(t)
		notes = append(notes, p.Note)
		for i, v := range p.Vectors {
			if v != nil {
				vectors[i] = v
			}
		}
	}
	sum := must.Get(joinNotes(notes, 4, 1))(t)
	s, _, err := shareOf(5, ranks.Part{Note: sum, Vectors: vectors}, slots{0, 2, 4})
	if want := []trainer.Keys{keys(1), keys(2), keys(3)}; err != nil || !reflect.DeepEqual(s.Keys, want) {
		t.Errorf("%+v, %v, want %+v", s, err, want)
	}
	if _, err := joinNotes([][]byte{notes[0], notes[0]}, 4, 1); err == nil || !strings.Contains(err.Error(), "rank 1 has the momentum keys of batch") {
		t.Errorf("%v", err)
	}
	if _, err := partOf(5, trainer.Share{Keys: []trainer.Keys{keys(1)}}, slots{4, 2, 4}); err == nil || !strings.Contains(err.Error(), "keys of 1 batches from batch 4 on, in a step of 4") {
		t.Errorf("%v", err)
	}
}

// joinTwo joins two ranks with each other.
func joinTwo(t *testing.T) (*ranks.Leader, *ranks.Member) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	o := ranks.Options{World: 2, Address: l.Addr().String(), Silence: time.Minute, Wait: time.Minute, Log: slog.New(slog.DiscardHandler)}
	must.Do(t, l.Close())
	joined := make(chan *ranks.Member, 1)
	go func() {
		second := o
		second.Rank = 1
		m, err := ranks.Join(t.Context(), second)
		must.Check(t, err)
		joined <- m
	}()
	leader := must.Get(ranks.Lead(t.Context(), o))(t)
	return leader, <-joined
}

// behind is a rank that comes to its last step when rank 0 has ended the training.
type behind struct {
	*trainer.Trainer
	link *ranks.Member
	last int64
}

func (b behind) Complete(ctx context.Context, sum trainer.Share, rate float64) error {
	for b.Steps()+1 == b.last && !b.link.Over() {
		time.Sleep(time.Millisecond)
	}
	return b.Trainer.Complete(ctx, sum, rate)
}

// A batch whose loss is no number, and an image that is lost, come to the same on another rank as on rank 0 alone:
// results, features, masks and reasons are equal, and so is the state, to the last bit. The last step is short, and
// rank 1 completes it when rank 0 has ended.
func TestTwoRanksSayWhatOneSays(t *testing.T) {
	t.Run("one pass", func(t *testing.T) { twoRanksSayWhatOneSays(t, ofFour(), 0) })
	o := ofFour()
	o.ITC.Gather = true
	t.Run("two passes", func(t *testing.T) { twoRanksSayWhatOneSays(t, o, o.StepBatches) })
}

func twoRanksSayWhatOneSays(t *testing.T, o trainer.Options, gather int) {
	weights := firstWeights(t)
	alone := newCore(t, weights, nil, o)
	first := stateOf(t, alone)
	group, link := joinTwo(t)
	second := newCore(t, weights, first, o)
	m := &member{
		gather: gather, shares: sharesOf(behind{second, link, 2}, link, slots{2, 2, 4}), link: link, metrics: func() func() { return func() {} },
		load: func(_ context.Context, b *schemas.ScoredBatch, known []schemas.Mask) (trainer.Input, error) {
			in := drawn(b)
			in.Masked = append(in.Masked, known...)
			return in, nil
		},
	}
	ended := make(chan error, 1)
	go func() {
		err := m.run(t.Context())
		link.Close(whole(err))
		ended <- whole(err)
	}()
	p := places{world: 2, batches: 4}
	l, e := newLeader(newCore(t, weights, first, o), group, p), &errands{group, p}
	const batches = 7
	var owners []bool
	for n := range batches {
		b := threeSamples(n)
		raw := must.Get(schemas.Marshal(b))(t)
		given := must.Get(e.give(&work{batch: b, rec: stream.Record{Schema: b.Schema(), Value: raw}}, nil, trainer.Decay{}))(t)
		owners = append(owners, given)
	}
	must.Do(t, e.finish())
	if want := []bool{false, false, true, true, false, false, true}; !reflect.DeepEqual(owners, want) {
		t.Errorf("rank 1 has %v, want %v", owners, want)
	}
	setAside := 0
	for n := range batches {
		if gather > 0 && n%gather == 0 {
			prepareAlike(t, alone, l, n, min(n+gather, batches))
		}
		want := must.Get(alone.Step(t.Context(), threeSamples(n), drawn(threeSamples(n))))(t)
		got := must.Get(l.Step(t.Context(), threeSamples(n), drawn(threeSamples(n))))(t)
		if want.SetAside != "" {
			setAside++
		}
		sameFeatures(t, n, &got.Features, &want.Features)
		got.Features, want.Features = schemas.FeatureBlock{}, schemas.FeatureBlock{}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("batch %d:\n%+v, want\n%+v", n, got, want)
		}
	}
	if setAside != 1 {
		t.Errorf("%d batches were set aside, want that of rank 1", setAside)
	}
	for _, core := range []interface {
		Finish(context.Context) (bool, error)
	}{alone, l, l} {
		must.Get(core.Finish(t.Context()))(t)
	}
	group.Close(nil)
	must.Check(t, <-ended)
	if want := stateOf(t, alone); alone.Steps() != 2 || !bytes.Equal(stateOf(t, l.Trainer), want) || !bytes.Equal(stateOf(t, second), want) {
		t.Error("the ranks hold another state than a trainer alone")
	}
}

// prepareAlike makes the first pass over the batches of a step, on one process and on two.
func prepareAlike(t *testing.T, alone *trainer.Trainer, l *leader, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		want := must.Get(alone.Prepare(t.Context(), threeSamples(n), drawn(threeSamples(n))))(t)
		got := must.Get(l.Prepare(t.Context(), threeSamples(n), drawn(threeSamples(n))))(t)
		sameFeatures(t, n, got, want)
	}
}

func sameFeatures(t *testing.T, n int, got, want *schemas.FeatureBlock) {
	t.Helper()
	wantRaw := must.Get(schemas.Marshal(want))(t)
	gotRaw, err := schemas.Marshal(got)
	if err != nil || !bytes.Equal(gotRaw, wantRaw) {
		t.Errorf("batch %d has other features (%v)", n, err)
	}
}

// Shares of different steps, or of too few batches, are no step.
func TestSharesThatAreNoStep(t *testing.T) {
	share := func(step int64, batches int) []byte {
		p := must.Get(partOf(step, trainer.Share{Batches: batches, Learned: batches}, slots{}))(t)
		return p.Note
	}
	for want, notes := range map[string][][]byte{
		"rank 1 is at step 6, rank 0 at step 5":                {share(5, 2), share(6, 2)},
		"the ranks have taken 3 batches in step 5, want 4":     {share(5, 2), share(5, 1)},
		"reading the share of rank 1: invalid character 'x' l": {share(5, 2), []byte("x")},
	} {
		if _, err := joinNotes(notes, 4, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	sum := must.Get(joinNotes([][]byte{share(5, 2), share(5, 2)}, 4, 0.25))(t)
	if s, rate, err := shareOf(5, ranks.Part{Note: sum}, slots{}); err != nil || rate != 0.25 || s.Batches != 4 || s.Learned != 4 {
		t.Errorf("%+v at %g, %v", s, rate, err)
	}
	if _, _, err := shareOf(6, ranks.Part{Note: sum}, slots{}); err == nil || !strings.Contains(err.Error(), "rank 0 is at step 5, this rank at step 6") {
		t.Errorf("%v", err)
	}
	if _, _, err := shareOf(5, ranks.Part{Note: sum}, slots{0, 2, 4}); err == nil || !strings.Contains(err.Error(), "it has 0 vectors, want 8 of keys") {
		t.Errorf("%v", err)
	}
	features := &schemas.FeatureBlock{Positions: schemas.Int32s{0}, Dim: 2, V: schemas.NewFloat16s([]float32{1, 0}), T: schemas.NewFloat16s([]float32{1, 0}), Sequence: 1}
	raw := must.Get(outcomeOf(trainer.Result{}, features))(t)
	if _, err := readOutcome(raw, testBatch(0, 0)); err == nil || !strings.Contains(err.Error(), "another batch than batch 0") {
		t.Errorf("%v", err)
	}
}
