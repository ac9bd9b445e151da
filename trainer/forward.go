package trainer

import (
	"github.com/pairstream/pairstream/internal/match"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/schemas"
)

// forward is a batch's way through the model: features, and the losses that are on (nil: off).
type forward struct {
	image, text        *torch.Tensor // unit features [N, E]
	keys               keys
	itc, itm, mlm, uni *torch.Tensor
	counts             Counts

	// What the losses are made of.
	temperature        *torch.Tensor
	tokens             *torch.Tensor // of the images
	hidden, attention  *torch.Tensor // of the texts
	simI2T, simT2I     *torch.Tensor // [N, N + queue]
	picksI2T, picksT2I []pick
	itmLogits          *torch.Tensor
	pairs              itmPlan
	rows               mlmPlan
}

// keys are the constants that the contrastive loss compares with: the batch's own features, or the momentum encoder's
// and behind them the queue.
type keys struct {
	image, text           *torch.Tensor     // [N + queue, E]
	batchImage, batchText *torch.Tensor     // [N, E]
	queue                 []schemas.ImageID // of the rows behind the batch
}

// forward runs the model and every loss that is on. Images and texts are encoded once; the fusion encoder sees the 3N
// pairs of ITM in one go.
func (t *Trainer) forward(s *torch.Scope, b *schemas.ScoredBatch, in Input, mask masker) (*forward, error) {
	pixels, err := t.images(s, in)
	if err != nil {
		return nil, err
	}
	ids, attention, err := match.Texts(s, in.IDs, t.vocabulary.Pad, t.model.Config)
	if err != nil {
		return nil, err
	}
	t.seedDropout(s, b, "texts")
	f := &forward{attention: attention, temperature: t.model.Temperature(s)}
	f.tokens, f.hidden = t.model.Image(s, pixels), t.model.Text(s, ids, attention)
	f.image, f.text = t.model.ImageFeature(s, f.tokens), t.model.TextFeature(s, f.hidden)
	f.keys = t.momentum.keys(s, f, pixels, ids)
	f.simI2T = similarities(s, f.image, f.keys.text, f.temperature)
	f.simT2I = similarities(s, f.text, f.keys.image, f.temperature)
	t.mine(s, f, b)
	if t.options.ITCWeight > 0 {
		f.itc = t.contrastive(s, f, b)
	}
	if t.options.ITMWeight > 0 {
		t.seedDropout(s, b, "itm")
		t.matching(s, f)
	}
	if t.options.MLMWeight > 0 {
		t.seedDropout(s, b, "mlm")
		if err := t.maskedLanguage(s, f, in.IDs, mask); err != nil {
			return nil, err
		}
	}
	if t.options.UniWeight > 0 {
		positives, err := t.positives(s, in)
		if err != nil {
			return nil, err
		}
		f.uni = t.options.Uni.loss(s, f.image, t.model.ImageFeature(s, t.model.Image(s, positives)), f.temperature)
	}
	return f, nil
}

// mine chooses every anchor's hardest candidates by the current similarities and counts them.
func (t *Trainer) mine(s *torch.Scope, f *forward, b *schemas.ScoredBatch) {
	n := len(b.Samples)
	i2t, t2i := directions(b, t.options.ECM)
	inBatch := func(sim *torch.Tensor) []float32 { return s.Narrow(sim, 1, 0, int64(n)).Float32s() }
	f.picksI2T, f.picksT2I = i2t.mine(inBatch(f.simI2T), n), t2i.mine(inBatch(f.simT2I), n)
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

// contrastive is ITC.
func (t *Trainer) contrastive(s *torch.Scope, f *forward, b *schemas.ScoredBatch) *torch.Tensor {
	i2t := t.direction(s, f.simI2T, hardTargets(b.Samples, f.keys.queue, f.picksI2T, t.options.ECM))
	t2i := t.direction(s, f.simT2I, hardTargets(b.Samples, f.keys.queue, f.picksT2I, t.options.ECM))
	if t.options.ITC.Targets == Distilled {
		i2t.teacher = similarities(s, f.keys.batchImage, f.keys.text, f.temperature)
		t2i.teacher = similarities(s, f.keys.batchText, f.keys.image, f.temperature)
	}
	return t.options.ITC.loss(s, i2t, t2i, t.options.ITC.alpha(b.Epoch, t.step))
}

func (t *Trainer) direction(s *torch.Scope, sim *torch.Tensor, targets rowTargets) direction {
	n, columns := sim.Size(0), int64(targets.columns)
	d := direction{sim: sim, hard: s.To(s.Float64s(targets.values, n, columns), sim.DType())}
	if targets.drop != nil {
		d.drop = s.Bools(targets.drop, n, columns)
	}
	return d
}

// matching is ITM over the planned pairs.
func (t *Trainer) matching(s *torch.Scope, f *forward) {
	f.pairs = planITM(f.counts.Samples, f.picksI2T, f.picksT2I, t.options.ECM)
	f.counts.MatchPairs, f.counts.Dropped = len(f.pairs.labels), f.pairs.dropped
	f.itmLogits = t.model.MatchPairs(s, f.hidden, f.attention, f.tokens, f.pairs.texts, f.pairs.images)
	f.itm = s.CrossEntropy(f.itmLogits, s.Int64s(f.pairs.labels, int64(len(f.pairs.labels))), IgnoreLabel)
}

// maskedLanguage is MLM over the planned rows; without a hidden token it is left out.
func (t *Trainer) maskedLanguage(s *torch.Scope, f *forward, ids [][]int32, mask masker) error {
	f.rows = planMLM(f.counts.Samples, f.picksI2T, f.picksT2I, t.options.ECM)
	texts := make([][]int32, len(f.rows.texts))
	for i, text := range f.rows.texts {
		texts[i] = ids[text]
	}
	masked := mask(texts)
	tokenIDs, attention, err := match.Texts(s, masked.ids, t.vocabulary.Pad, t.model.Config)
	if err != nil {
		return err
	}
	positions, labels := masked.selected(int(tokenIDs.Size(1)))
	f.counts.MaskedRows, f.counts.MaskedTokens = len(texts), len(labels)
	if len(labels) == 0 {
		return nil
	}
	tokens := f.tokens
	if len(texts) > f.counts.Samples {
		tokens = s.IndexSelect(tokens, 0, s.Int64s(f.rows.images, int64(len(texts))))
	}
	logits := t.model.MaskedLogitsAt(s, tokenIDs, attention, tokens, positions)
	f.mlm = s.CrossEntropy(logits, s.Int64s(labels, int64(len(labels))), IgnoreLabel)
	return nil
}

// total is the weighted sum of the losses that are there; nil when none is.
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

// losses reads the values.
func (f *forward) losses(total *torch.Tensor) Losses {
	value := func(x *torch.Tensor) float64 {
		if x == nil {
			return 0
		}
		return x.Item()
	}
	return Losses{ITC: value(f.itc), ITM: value(f.itm), MLM: value(f.mlm), Uni: value(f.uni), Total: value(total)}
}
