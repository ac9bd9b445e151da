package eval

import (
	"context"
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/base/auc"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// DefaultBaseRate is the assumed share of true pairs among the hardest candidates. In the demo's scenes it is 6.5 %,
// and among photographs 1.5 %.
const DefaultBaseRate = 0.05

const (
	easyPairs    = 2 // images drawn for each text, as the discriminator's guard draws them
	hardestPairs = 2 // texts of each image, and images of each text: the candidates of MAFA
)

// CondOptions configure the measurement of a connection discriminator (Con-D).
type CondOptions struct {
	// BaseRate is the share of true pairs among the hardest candidates, if the truth is not known; 0:
	// [DefaultBaseRate].
	BaseRate float64
	// Holds, if set, tells whether a text is true of an image that is not its own. Without it the truth is not known.
	Holds func(image, text int) bool
	// Easy adds pairs with images drawn at random.
	Easy bool
	Seed uint64 // of the draws
	// Batch and Part are as in [Options].
	Batch, Part int
}

// Asked is a pair that Con-D was asked about.
type Asked struct {
	Score  float64 // difference of the logits, before any calibration
	True   bool
	Anchor int // the image, or the image of the text, that the pair was looked up for
	// Rivals is the number of hard pairs of an own pair's image and text that are at least as similar as the pair.
	Rivals int
}

// Cond holds a model's answers to three kinds of pairs, and the truth about them.
type Cond struct {
	Images, Texts int
	Own           []Asked // texts with their images
	Easy          []Asked // texts with images drawn at random
	Hard          []Asked // images with the most similar texts, and texts with the most similar images
	Known         bool    // whether the truth about Hard is known; otherwise True is false there
	BaseRate      float64 // share of true pairs among Hard, counted or declared
}

// AskCond asks a model about own, easy and hard pairs. The hard ones are the most similar to the model itself.
func AskCond(ctx context.Context, m *model.Model, d Data, o CondOptions) (*Cond, error) {
	truth, err := NewTruth(d.Images, d.ImageOf)
	if err == nil && (len(d.Texts) != len(d.ImageOf) || d.Images < 2) {
		err = fmt.Errorf("%d images, %d texts and the images of %d, want two images and more", d.Images, len(d.Texts), len(d.ImageOf))
	}
	if err == nil && (o.BaseRate < 0 || o.BaseRate >= 1) {
		err = fmt.Errorf("base rate is %g, want 0 to less than 1", o.BaseRate)
	}
	if err != nil {
		return nil, fmt.Errorf("asking Con-D: %w", err)
	}
	c := &Cond{Images: d.Images, Texts: len(d.Texts), Known: o.Holds != nil}
	err = m.Worker().Do(ctx, func(s *torch.Scope) error {
		e := evaluation{model: m, data: d, options: Options{Batch: o.Batch, Part: o.Part}, truth: truth, report: &Report{}}
		e.options.fill()
		var err error
		s.NoGrad(func() { err = c.ask(ctx, s, &e, o) })
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("asking Con-D: %w", err)
	}
	c.count(o.BaseRate)
	return c, nil
}

// question is a pair to ask about, with the image that it was looked up for.
type question struct {
	Pair
	anchor int32
}

func (c *Cond) ask(ctx context.Context, s *torch.Scope, e *evaluation, o CondOptions) error {
	if err := e.encode(ctx, s); err != nil {
		return err
	}
	own := make([]question, 0, len(e.truth.imageOf))
	for _, p := range e.truth.pairs() {
		own = append(own, question{p, p.Image})
	}
	var easy []question
	if o.Easy {
		easy = e.truth.easy(o)
	}
	all := append(append(own, easy...), e.truth.hardest(e.report.Sim, hardestPairs)...)
	pairs := make([]Pair, len(all))
	for i, q := range all {
		pairs[i] = q.Pair
	}
	logits, err := e.score(ctx, s, pairs)
	if err != nil {
		return err
	}
	rivals := e.truth.rivals(e.report.Sim, all[len(own)+len(easy):])
	for i, l := range logits {
		a := Asked{Score: float64(l.Match) - float64(l.Mismatch), Anchor: int(all[i].anchor)}
		if math.IsNaN(a.Score) || math.IsInf(a.Score, 0) {
			return fmt.Errorf("the matching head gives %v for image %d and text %d, want a finite number", a.Score, pairs[i].Image, pairs[i].Text)
		}
		switch {
		case i < len(own):
			a.True, a.Rivals = true, rivals[i]
			c.Own = append(c.Own, a)
		case i < len(own)+len(easy):
			c.Easy = append(c.Easy, a)
		default:
			a.True = o.Holds != nil && o.Holds(int(pairs[i].Image), int(pairs[i].Text))
			c.Hard = append(c.Hard, a)
		}
	}
	return nil
}

// count sets the base rate.
func (c *Cond) count(declared float64) {
	switch {
	case c.Known:
		c.BaseRate = shareOf(c.Hard, func(a Asked) bool { return a.True })
	case declared > 0:
		c.BaseRate = declared
	default:
		c.BaseRate = DefaultBaseRate
	}
}

func shareOf(all []Asked, is func(Asked) bool) float64 {
	return float64(count(all, is)) / float64(max(1, len(all)))
}

func count(all []Asked, is func(Asked) bool) (n int) {
	for _, a := range all {
		if is(a) {
			n++
		}
	}
	return n
}

// Half returns the pairs of images with even numbers, or with odd ones, so that a fit on one half is measured on the
// other.
func (c *Cond) Half(odd bool) *Cond {
	half := *c
	for _, list := range []*[]Asked{&half.Own, &half.Easy, &half.Hard} {
		var kept []Asked
		for _, a := range *list {
			if a.Anchor%2 == 1 == odd {
				kept = append(kept, a)
			}
		}
		*list = kept
	}
	return &half
}

// HardAUC returns the chance that an own pair has a higher score than a hard one, unless the hard one is known to be
// true.
func (c *Cond) HardAUC() float64 { return aucOf(c.Own, c.Hard) }

// EasyAUC returns the chance that an own pair has a higher score than an easy one.
func (c *Cond) EasyAUC() float64 { return aucOf(c.Own, c.Easy) }

// CandidateAUC returns the chance that a true hard pair has a higher score than a false one.
func (c *Cond) CandidateAUC() float64 { return aucOf(nil, c.Hard) }

func aucOf(own, others []Asked) float64 {
	all := make([]auc.Judgement, 0, len(own)+len(others))
	for _, a := range own {
		all = append(all, auc.Judgement{P: float32(a.Score), True: true})
	}
	for _, a := range others {
		if own == nil || !a.True {
			all = append(all, auc.Judgement{P: float32(a.Score), True: a.True})
		}
	}
	return auc.Of(all)
}

// easy draws other images for every text.
func (t Truth) easy(o CondOptions) (easy []question) {
	for text, own := range t.imageOf {
		draws := rng.New(o.Seed, "easy pairs", int64(text))
		for range min(easyPairs, t.Images()-1) {
			image := int32(draws.IntN(t.Images() - 1))
			if image >= own {
				image++
			}
			if o.Holds == nil || !o.Holds(int(image), text) {
				easy = append(easy, question{Pair{Image: image, Text: int32(text)}, own})
			}
		}
	}
	return easy
}

// hardest lists, for every image, the k most similar texts that are not its own, and for every text the k most similar
// other images. Of equal ones the lower number comes first.
func (t Truth) hardest(sim Matrix, k int) (hard []question) {
	for image := range t.textsOf {
		row := sim.Row(image)
		for _, text := range best(len(row), k, func(j int) (float32, bool) { return row[j], t.imageOf[j] != int32(image) }) {
			hard = append(hard, question{Pair{Image: int32(image), Text: text}, int32(image)})
		}
	}
	for text, own := range t.imageOf {
		similar := func(i int) (float32, bool) { return sim.Row(i)[text], int32(i) != own }
		for _, image := range best(t.Images(), k, similar) {
			hard = append(hard, question{Pair{Image: image, Text: int32(text)}, own})
		}
	}
	return hard
}

// rivals counts, for every own pair, the hard pairs of its image and text that are at least as similar.
func (t Truth) rivals(sim Matrix, hard []question) []int {
	count := make([]int, len(t.imageOf))
	for _, q := range hard {
		similar := sim.Row(int(q.Image))[q.Text]
		if q.anchor != q.Image { // looked up for the text
			if similar >= sim.Row(int(q.anchor))[q.Text] {
				count[q.Text]++
			}
			continue
		}
		for _, text := range t.textsOf[q.Image] {
			if similar >= sim.Row(int(q.Image))[text] {
				count[text]++
			}
		}
	}
	return count
}

// best lists the k highest of the eligible of n values, the highest first.
func best(n, k int, value func(int) (v float32, counts bool)) []int32 {
	var places []int32
	var values []float32
	for i := range n {
		v, counts := value(i)
		if !counts || len(places) == k && v <= values[k-1] {
			continue
		}
		if len(places) < k {
			places, values = append(places, 0), append(values, 0)
		}
		at := len(places) - 1
		for ; at > 0 && v > values[at-1]; at-- {
			places[at], values[at] = places[at-1], values[at-1]
		}
		places[at], values[at] = int32(i), v
	}
	return places
}
