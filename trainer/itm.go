package trainer

import "github.com/pairstream/pairstream/internal/model/torch"

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

// matching computes ITM over the planned pairs.
func (t *Trainer) matching(s *torch.Scope, f *forward) {
	f.pairs = planITM(f.counts.Samples, f.picksI2T, f.picksT2I, t.options.ECM)
	f.counts.MatchPairs, f.counts.Dropped = len(f.pairs.labels), f.pairs.dropped
	f.itmLogits = t.model.MatchPairs(s, f.hidden, f.attention, f.view, f.pairs.texts, f.pairs.images)
	f.itm = s.CrossEntropy(f.itmLogits, s.Int64s(f.pairs.labels, int64(len(f.pairs.labels))), IgnoreLabel)
}
