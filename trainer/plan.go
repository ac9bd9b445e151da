package trainer

// itmPlan lists the (image, text) pairs of the matching loss with their labels, in the order of the authors' code. First
// come the N true pairs. Then follow negatives, connections and second-hardest replacements, each of the texts and then of
// the images.
type itmPlan struct {
	images, texts, labels []int64
	dropped               int // anchors that give no pair
}

func (p *itmPlan) add(image, text, label int64) {
	p.images = append(p.images, image)
	p.texts = append(p.texts, text)
	p.labels = append(p.labels, label)
}

// planITM turns the choices into pairs. An ambiguous pair is replaced by the anchor's second-hardest candidate, taken as a
// negative without asking Con-D (MAFA section 4.1, Algorithm 1). An anchor without a further candidate, or without any,
// gives no pair. With Eliminate a connection gives no pair. With ITM off every hardest candidate is a negative, as in
// GRIT-VLP.
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

// planMLM takes the N true pairs. Extra rows with masks of their own are the connections of the images and then those of
// the texts (MAFA eq. 4). A pair that is a connection in both directions makes two rows, as in the authors' code.
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
