package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// ErrNotFinite marks a model whose features are no longer finite numbers. The weights are as before the step.
var ErrNotFinite = errors.New("not a finite number")

// Losses are a step's losses before weighting, and their weighted sum. A loss of weight 0 is 0.
type Losses struct {
	ITC, ITM, MLM, Uni, Total float64
}

// add adds a share of other losses.
func (l *Losses) add(o Losses, share float64) {
	l.ITC += share * o.ITC
	l.ITM += share * o.ITM
	l.MLM += share * o.MLM
	l.Uni += share * o.Uni
	l.Total += share * o.Total
}

// Counts describe the batch of a step.
type Counts struct {
	// Samples had a part in the losses; Masked had none.
	Samples, Masked int
	// Candidates were scored by Con-D; Confirmed counts those of them above High.
	Candidates, Confirmed int
	// Anchors counts the anchors of a scored batch that have a hardest sample. HardestScored counts those of them that
	// have it among their candidates.
	Anchors, HardestScored int
	// Negatives, Ambiguous and Connections count anchors of both directions by the class of their hardest candidate. Alone
	// counts the anchors that had none.
	Negatives, Ambiguous, Connections, Alone int
	// MatchPairs went into ITM; Dropped counts the anchors that gave none.
	MatchPairs, Dropped int
	// MaskedRows and MaskedTokens went into MLM.
	MaskedRows, MaskedTokens int
}

// add adds the counts of another batch.
func (c *Counts) add(o Counts) {
	c.Samples += o.Samples
	c.Masked += o.Masked
	c.Candidates += o.Candidates
	c.Confirmed += o.Confirmed
	c.Anchors += o.Anchors
	c.HardestScored += o.HardestScored
	c.Negatives += o.Negatives
	c.Ambiguous += o.Ambiguous
	c.Connections += o.Connections
	c.Alone += o.Alone
	c.MatchPairs += o.MatchPairs
	c.Dropped += o.Dropped
	c.MaskedRows += o.MaskedRows
	c.MaskedTokens += o.MaskedTokens
}

// Whole adds up the batches of a step. The zero value is ready to use.
type Whole struct {
	losses Losses
	counts Counts
	taught int // batches that were not set aside
}

// Add takes the result of one batch.
func (w *Whole) Add(r *Result) {
	w.counts.add(r.Counts)
	if r.SetAside == "" {
		w.losses.add(r.Losses, 1)
		w.taught++
	}
}

// Take returns the mean losses of the batches that were not set aside, and the sums of all counts. It begins a new
// step.
func (w *Whole) Take() (Losses, Counts) {
	var mean Losses
	mean.add(w.losses, 1/float64(max(1, w.taught)))
	counts := w.counts
	*w = Whole{}
	return mean, counts
}

// Result is the outcome of a step.
type Result struct {
	Step     int64   // number of the optimiser's step, from 0
	Updated  bool    // the batch completed the step
	Rate     float64 // learning rate
	Losses   Losses
	Counts   Counts
	Features schemas.FeatureBlock // of the weights before the step's update
	// SetAside says why the step learned nothing from the batch; empty: it did. Its features then mask every sample.
	SetAside string
}

// Step trains on one batch. It uses up an input that was sent.
func (t *Trainer) Step(ctx context.Context, b *schemas.ScoredBatch, in Input) (*Result, error) {
	return t.stepOn(ctx, b, in, stepSlot{number: t.open.batches}, func(s *torch.Scope, r *Result) error {
		if t.open.batches < t.options.StepBatches {
			return nil
		}
		r.Updated = true
		return t.complete(s, r.Rate)
	})
}

// stepSlot is that of a batch in the open step.
type stepSlot struct {
	number int
	give   Give // not nil: the batch is the last of this process
}

// stepOn learns from a batch of the open step, then calls then.
func (t *Trainer) stepOn(ctx context.Context, b *schemas.ScoredBatch, in Input, at stepSlot, then func(*torch.Scope, *Result) error) (*Result, error) {
	defer in.Free()
	if err := t.check(b, in); err != nil {
		return nil, fmt.Errorf("training on batch %d of group %s, epoch %d: %w", b.Sequence, b.Group, b.Epoch, err)
	}
	r := &Result{Step: t.step, Rate: t.options.Schedule.During(t.step, in.Decay)}
	t.rate = r.Rate
	err := t.worker.Do(ctx, func(s *torch.Scope) error {
		if err := t.learn(s, r, b, in, at); err != nil {
			return err
		}
		return then(s, r)
	})
	if err != nil {
		return nil, fmt.Errorf("training on batch %d of group %s, epoch %d, at step %d: %w", b.Sequence, b.Group, b.Epoch, r.Step, err)
	}
	return r, nil
}

// learn adds a batch to the open step, inside the worker.
func (t *Trainer) learn(s *torch.Scope, r *Result, b *schemas.ScoredBatch, in Input, at stepSlot) error {
	if err := t.optimizer.ZeroGrad(); err != nil {
		return err
	}
	t.follow()
	x, err := t.receive(s, in)
	if err == nil && t.options.Gathers() {
		x.others, err = t.open.others(at.number)
	}
	if err != nil {
		return err
	}
	f, total, err := t.tryForward(s, r, b, x, masksOf(b, in))
	if err != nil {
		return err
	}
	r.Counts = f.counts
	if r.Features = features(b, f, t.batches+int64(at.number)); r.SetAside != "" || wasSetAside(f.masks) {
		t.open.add(nil)
		return r.Features.Validate() // a row that is not a unit vector must not travel
	}
	if k, wanted := t.momentum.keep(s, f); wanted {
		t.open.keys = append(t.open.keys, k)
	}
	switch {
	case total != nil && at.give != nil:
		return t.lastBackward(s, total, at.give)
	case total != nil:
		s.Backward(total)
	}
	grads, err := t.takeGrads(s)
	if err == nil {
		t.open.add(grads)
	}
	return err
}

// follow moves the momentum encoder once for the open step.
func (t *Trainer) follow() {
	if !t.followed {
		t.momentum.follow(t.model)
	}
	t.followed = true
}

// tryForward computes the losses. Where they are not finite it tries again, and in the end sets the batch aside. A
// fault of the device may pass; one of the batch comes back for ever. Features that are not finite mean broken weights,
// which no other batch would mend.
func (t *Trainer) tryForward(s *torch.Scope, r *Result, b *schemas.ScoredBatch, x tensors, masks []schemas.Mask) (*forward, *torch.Tensor, error) {
	for try := 1; ; try++ {
		f, err := t.forward(s, b, x, masks, t.masker(b))
		if err != nil {
			return nil, nil, err
		}
		total := f.total(s, t.options)
		r.Losses = f.losses(s, total)
		if finite(r.Losses.Total) {
			return f, total, nil
		}
		if !finite(s.SumAll(f.allImages).Item() + s.SumAll(f.allTexts).Item()) {
			return nil, nil, brokenWeights(fmt.Sprintf("%+v", r.Losses))
		}
		if try >= t.options.Tries {
			r.SetAside = fmt.Sprintf("loss is not a finite number in %d tries: %+v", try, r.Losses)
			r.Losses = Losses{}
			f.masks = allMasked(len(b.Samples))
			return f, nil, nil
		}
	}
}

func brokenWeights(what string) error {
	return fmt.Errorf("features: %w: %s: the weights are broken; go back to an earlier checkpoint, with a lower learning rate", ErrNotFinite, what)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// reasonNotFinite is the reason in the masks of a batch that was set aside.
const reasonNotFinite = "not_finite"

// wasSetAside reports whether masks are those of a batch that was set aside when its step was made before.
func wasSetAside(masks []schemas.Mask) bool {
	return slices.ContainsFunc(masks, func(m schemas.Mask) bool { return m.Reason == reasonNotFinite })
}

func allMasked(n int) []schemas.Mask {
	masks := make([]schemas.Mask, n)
	for i := range masks {
		masks[i] = schemas.Mask{Sample: int32(i), Reason: reasonNotFinite}
	}
	return masks
}

// features returns the unit features that the batch had before the update, in training order.
func features(b *schemas.ScoredBatch, f *forward, step int64) schemas.FeatureBlock {
	block := schemas.FeatureBlock{
		Group: b.Group, Epoch: b.Epoch, Sequence: b.Sequence, Step: step,
		Positions: make(schemas.Int32s, len(b.Samples)),
		Dim:       int32(f.allImages.Size(1)),
		V:         schemas.NewFloat16s(f.allImages.Float32s()),
		T:         schemas.NewFloat16s(f.allTexts.Float32s()),
		Masked:    f.masks,
	}
	for i := range b.Samples {
		block.Positions[i] = b.Samples[i].Position
	}
	return block
}

// itmPlan lists the (image, text) pairs of the matching loss with their labels, in the order of the authors' code.
// First come the N true pairs. Then follow negatives, connections and second-hardest replacements, each of the texts
// and then of the images.
type itmPlan struct {
	images, texts, labels []int64
	dropped               int // anchors that give no pair
}

func (p *itmPlan) add(image, text, label int64) {
	p.images = append(p.images, image)
	p.texts = append(p.texts, text)
	p.labels = append(p.labels, label)
}

// planITM turns the choices into pairs. An ambiguous pair is replaced by the anchor's second-hardest candidate, taken
// as a negative without asking Con-D (MAFA section 4.1, Algorithm 1). An anchor without a further candidate, or without
// any, gives no pair. With Eliminate a connection gives no pair. With ITM off every hardest candidate is a negative, as
// in GRIT-VLP.
func planITM(n int, i2t, t2i []pick, ecm ECMOptions) itmPlan {
	var p itmPlan
	for b := range int64(n) {
		p.add(b, b, 1)
	}
	p.addClass(Negative, i2t, t2i, ecm)
	p.addClass(Connection, i2t, t2i, ecm)
	p.addClass(Ambiguous, i2t, t2i, ecm)
	p.dropped = 3*n - len(p.labels)
	return p
}

// addClass adds the pairs of the anchors whose hardest candidate is of the given class, text anchors first.
func (p *itmPlan) addClass(class Class, i2t, t2i []pick, ecm ECMOptions) {
	choose := func(k pick) (other, label int64) {
		c := k.class
		if !ecm.ITM && c != NoCandidate {
			c = Negative
		}
		switch {
		case c != class || c == Connection && ecm.Eliminate:
			return -1, 0
		case c == Ambiguous:
			return int64(k.second), 0
		case c == Connection:
			return int64(k.hardest), 1
		}
		return int64(k.hardest), 0
	}
	for text, k := range t2i {
		if image, label := choose(k); image >= 0 {
			p.add(image, int64(text), label)
		}
	}
	for image, k := range i2t {
		if text, label := choose(k); text >= 0 {
			p.add(int64(image), text, label)
		}
	}
}

// mlmPlan lists the (image, text) rows of the masked-language loss.
type mlmPlan struct{ images, texts []int64 }

// planMLM takes the N true pairs. Extra rows with masks of their own are the connections of the images and then those
// of the texts (MAFA eq. 4). A pair that is a connection in both directions makes two rows, as in the authors' code.
func planMLM(n int, i2t, t2i []pick, ecm ECMOptions) mlmPlan {
	var p mlmPlan
	for b := range int64(n) {
		p.images, p.texts = append(p.images, b), append(p.texts, b)
	}
	if !ecm.MLM || ecm.Eliminate {
		return p
	}
	for image, k := range i2t {
		if k.class == Connection {
			p.images, p.texts = append(p.images, int64(image)), append(p.texts, int64(k.hardest))
		}
	}
	for text, k := range t2i {
		if k.class == Connection {
			p.images, p.texts = append(p.images, int64(k.hardest)), append(p.texts, int64(text))
		}
	}
	return p
}
