package trainer

import (
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// forward holds a batch's way through the model: features, and the losses that are on (nil: off).
type forward struct {
	allImages, allTexts *torch.Tensor    // unit features of every sample [batch, E], to be published
	masks               []schemas.Mask   // of the batch and its input
	samples             []schemas.Sample // that are not masked; everything below is of these N alone
	texts               [][]int32        // their token ids

	image, text        *torch.Tensor // unit features [N, E]
	keys               keys
	itc, itm, mlm, uni *torch.Tensor
	counts             Counts

	// These are the inputs of the losses.
	temperature        *torch.Tensor
	tokens             *torch.Tensor // of the images
	view               model.View    // of them, for ITM and MLM
	hidden, attention  *torch.Tensor // of the texts
	simI2T, simT2I     *torch.Tensor // [N, N + others]
	simI2I, simT2T     *torch.Tensor // the same within a modality, for TCL
	itcTerms           []*torch.Tensor
	picksI2T, picksT2I []pick
	itmLogits          *torch.Tensor
	pairs              itmPlan
	rows               mlmPlan
	mlmHard, mlmSoft   *torch.Tensor // MLM before distillation, and the distilled part
}

// keys are the constants that the contrastive loss compares with. They are the batch's own features, or the momentum
// encoder's. Behind them come those of the step's other batches (ITC.Gather), and then the queue.
type keys struct {
	image, text           *torch.Tensor     // [N + others, E]
	batchImage, batchText *torch.Tensor     // [N, E]
	others                []schemas.ImageID // of the rows behind the batch: the step's other batches, if gathered, and the queue
	tokens, hidden        *torch.Tensor     // of the batch's images and texts in the momentum encoder; nil without one
}

// forward runs the model and every loss that is on. It encodes images and texts once. The fusion encoder sees the 3N
// pairs of ITM in one go. Masked samples are encoded for their features, and have no part in anything else.
func (t *Trainer) forward(s *torch.Scope, b *schemas.ScoredBatch, x tensors, masks []schemas.Mask, mask masker) (*forward, error) {
	f, b, x := t.encode(s, b, x, masks)
	if len(f.samples) == 0 {
		return f, nil
	}
	t.momentum.stack(s, &f.keys, x.others)
	f.simI2T = similarities(s, f.image, f.keys.text, f.temperature)
	f.simT2I = similarities(s, f.text, f.keys.image, f.temperature)
	t.mine(s, f, b)
	return f, t.losses(s, f, b, x, mask)
}

// encode makes the features of a batch and its own keys. It returns the batch and the tensors without masked samples.
func (t *Trainer) encode(s *torch.Scope, b *schemas.ScoredBatch, x tensors, masks []schemas.Mask) (*forward, *schemas.ScoredBatch, tensors) {
	t.seedDropout(s, b, "texts")
	f := &forward{masks: masks, temperature: t.model.Temperature(s)}
	f.tokens, f.hidden = t.model.Image(s, x.pixels), t.model.Text(s, x.ids, x.attention)
	f.image, f.text = t.model.ImageFeature(s, f.tokens), t.model.TextFeature(s, f.hidden)
	f.allImages, f.allTexts = f.image, f.text
	if kept := unmasked(len(b.Samples), masks); len(kept) < len(b.Samples) {
		f.counts.Masked = len(b.Samples) - len(kept)
		b, x = f.restrict(s, b, x, kept)
	}
	if f.samples, f.texts, f.attention = b.Samples, x.texts, x.attention; len(f.samples) == 0 {
		return f, b, x
	}
	if t.options.Gathers() {
		t.seedDropout(s, b, "keys") // so that both passes make the same keys
	}
	f.keys = t.momentum.keys(s, x)
	if t.momentum == nil {
		f.keys = keys{batchImage: f.image, batchText: f.text}
	}
	return f, b, x
}

// losses computes the losses that are on.
func (t *Trainer) losses(s *torch.Scope, f *forward, b *schemas.ScoredBatch, x tensors, mask masker) error {
	if t.options.ITCWeight > 0 {
		f.itc = t.contrastive(s, f, b)
	}
	if t.options.ITMWeight > 0 || t.options.MLMWeight > 0 {
		f.view = t.model.View(s, f.tokens)
	}
	if t.options.ITMWeight > 0 {
		t.seedDropout(s, b, "itm")
		t.matching(s, f)
	}
	if t.options.MLMWeight > 0 {
		t.seedDropout(s, b, "mlm")
		if err := t.maskedLanguage(s, f, mask); err != nil {
			return err
		}
	}
	if t.options.UniWeight > 0 {
		positives := t.model.ImageFeature(s, t.model.Image(s, x.positives))
		f.uni = t.options.Uni.loss(s, f.image, positives, f.temperature)
	}
	return nil
}

// mine chooses every anchor's negatives by the current similarities and counts them.
func (t *Trainer) mine(s *torch.Scope, f *forward, b *schemas.ScoredBatch) {
	n := len(b.Samples)
	i2t, t2i := directions(b, t.options.ECM)
	inBatch := func(sim *torch.Tensor) *torch.Tensor { return s.Narrow(sim, 1, 0, int64(n)) }
	both := s.Cat(0, inBatch(f.simI2T), inBatch(f.simT2I)).Float32s() // one wait for the device
	choose := t.options.ITMNegatives.chooser(t.options.Seed, b)
	for _, way := range []struct {
		candidates
		sim   []float32
		picks *[]pick
	}{{i2t, both[:n*n], &f.picksI2T}, {t2i, both[n*n:], &f.picksT2I}} {
		*way.picks = way.mine(way.sim, n, choose)
		anchors, scored := way.hardestScored(way.sim, n)
		f.counts.Anchors += anchors
		f.counts.HardestScored += scored
	}
	f.counts.Samples = n
	for _, c := range []candidates{i2t, t2i} {
		total, confirmed := c.scored()
		f.counts.Candidates += total
		f.counts.Confirmed += confirmed
	}
	for _, picks := range [][]pick{f.picksI2T, f.picksT2I} {
		for _, p := range picks {
			switch p.class {
			case Negative:
				f.counts.Negatives++
			case Ambiguous:
				f.counts.Ambiguous++
			case Connection:
				f.counts.Connections++
			case NoCandidate:
				f.counts.Alone++
			}
		}
	}
}

// contrastive computes ITC.
func (t *Trainer) contrastive(s *torch.Scope, f *forward, b *schemas.ScoredBatch) *torch.Tensor {
	rowsI2T := hardTargets(b.Samples, f.keys.others, f.picksI2T, t.options.ECM)
	rowsT2I := hardTargets(b.Samples, f.keys.others, f.picksT2I, t.options.ECM)
	if t.options.ITC.Loss == Sigmoid {
		bias := t.model.Bias()
		return s.MulScalar(s.Add(
			sigmoidLoss(s, f.image, f.keys.text, f.temperature, bias, rowsI2T),
			sigmoidLoss(s, f.text, f.keys.image, f.temperature, bias, rowsT2I)), 0.5)
	}
	i2t, t2i := directionOf(s, f.simI2T, rowsI2T), directionOf(s, f.simT2I, rowsT2I)
	if t.options.ITC.Targets == Distilled {
		i2t.teacher = similarities(s, f.keys.batchImage, f.keys.text, f.temperature)
		t2i.teacher = similarities(s, f.keys.batchText, f.keys.image, f.temperature)
	}
	alpha := t.options.ITC.alpha(b.Epoch, t.step)
	if t.options.ITC.Loss == Triple {
		return t.tripleContrastive(s, f, i2t, t2i, alpha)
	}
	return t.options.ITC.loss(s, i2t, t2i, alpha)
}

func directionOf(s *torch.Scope, sim *torch.Tensor, targets rowTargets) direction {
	return direction{sim: sim, hard: targets.hard(s, sim.DType()), drop: targets.dropped(s)}
}

// total returns the weighted sum of the losses that are there, or nil when there is none.
func (f *forward) total(s *torch.Scope, o Options) *torch.Tensor {
	var total *torch.Tensor
	for _, term := range []struct {
		loss   *torch.Tensor
		weight float64
	}{{f.mlm, o.MLMWeight}, {f.itc, o.ITCWeight}, {f.itm, o.ITMWeight}, {f.uni, o.UniWeight}} {
		if term.loss == nil {
			continue
		}
		weighted := s.MulScalar(term.loss, term.weight)
		if total == nil {
			total = weighted
		} else {
			total = s.Add(total, weighted)
		}
	}
	return total
}

// losses reads the values of the losses, in one wait for the device.
func (f *forward) losses(s *torch.Scope, total *torch.Tensor) (l Losses) {
	var there []*torch.Tensor
	var into []*float64
	for _, term := range []struct {
		loss *torch.Tensor
		to   *float64
	}{{f.itc, &l.ITC}, {f.itm, &l.ITM}, {f.mlm, &l.MLM}, {f.uni, &l.Uni}, {total, &l.Total}} {
		if term.loss != nil {
			there, into = append(there, s.Reshape(s.Detach(term.loss), 1)), append(into, term.to)
		}
	}
	if len(there) > 0 {
		for i, v := range s.Cat(0, there...).Float64s() {
			*into[i] = v
		}
	}
	return l
}

// Look lends the model out between two steps, without dropout. It may be read then, and nothing else.
func (t *Trainer) Look(look func(*model.Model) error) error {
	t.model.SetDropout(0)
	defer t.model.SetDropout(t.options.Dropout)
	return look(t.model)
}
