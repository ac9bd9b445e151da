package discriminator

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/schemas"
)

// plainTags calls the words of these tests nouns, and all others something else.
type plainTags struct{}

func (plainTags) Tags(words []string) []string {
	tags := make([]string, len(words))
	for i, w := range words {
		tags[i] = "DT"
		if slices.Contains([]string{"star", "ring", "cross"}, w) {
			tags[i] = "NN"
		}
	}
	return tags
}

// textsOf is a batch of texts. Each image is named by a byte; the samples of one image are partners.
func textsOf(images string, m int32, texts ...string) *schemas.Batch {
	b := &schemas.Batch{Batches: 1, M: m}
	for i, text := range texts {
		s := schemas.Sample{ImageID: schemas.ImageID{images[i]}, Text: text}
		for j := range texts {
			if i != j && images[i] == images[j] {
				s.Partners = append(s.Partners, int32(j))
			}
		}
		b.Samples = append(b.Samples, s)
	}
	b.I2T, b.T2I = slices.Repeat(schemas.Int32s{-1}, len(texts)*int(m)), slices.Repeat(schemas.Int32s{-1}, len(texts)*int(m))
	return b
}

func TestQuestions(t *testing.T) {
	type asked struct {
		image, text int32
		kind        kind
		times       int
	}
	for name, c := range map[string]struct {
		images string
		texts  []string
		i2t    []int32
		t2i    []int32
		masks  []schemas.Mask
		change func(*schemas.Batch)
		edits  []string
		want   []asked
	}{
		"candidates": {
			"ab",
			[]string{"a red star", "a blue ring"},
			[]int32{1, -1},
			[]int32{-1, 0},
			nil, nil,
			[]string{"a red ring", "a blue star"},
			[]asked{{0, 0, positive, 1}, {0, 2, edited, 1}, {1, 1, positive, 1}, {1, 3, edited, 1}, {0, 1, candidate, 2}},
		},
		"one that contradicts": {
			"ab",
			[]string{"a red star", "a blue star"},
			[]int32{1, 0},
			nil, nil, nil,
			[]string{"a blue star", "a red star"}, // no noun can be replaced
			[]asked{{0, 0, positive, 1}, {0, 2, edited, 1}, {1, 1, positive, 1}, {1, 3, edited, 1}, {0, 1, contradicting, 1}, {1, 0, contradicting, 1}},
		},
		"partners": {
			"aab",
			[]string{"star", "ring", "cross"},
			[]int32{2, -1, -1},
			nil, nil, nil,
			[]string{"cross", "cross", "*"},
			[]asked{
				{0, 0, positive, 1},
				{0, 1, positive, 1},
				{0, 3, edited, 1},
				{1, 1, positive, 1},
				{1, 0, positive, 1},
				{1, 4, edited, 1},
				{2, 2, positive, 1},
				{2, 5, edited, 1},
				{0, 2, candidate, 1},
			},
		},
		"a masked sample": {
			"abc",
			[]string{"star", "ring", "star"},
			[]int32{1, -1, 0},
			nil,
			[]schemas.Mask{{Sample: 0, Positive: true}, {Sample: 1}},
			nil,
			[]string{"ring", "ring"},
			[]asked{{0, 0, positive, 1}, {0, 3, edited, 1}, {2, 2, positive, 1}, {2, 4, edited, 1}, {2, 0, candidate, 1}},
		},
		"obj(v) in the place of a caption": {
			"ab",
			[]string{"a red star", "a blue star"},
			[]int32{1, 0},
			nil, nil,
			func(b *schemas.Batch) { b.Samples[1].Replaced = true },
			[]string{"a blue star"},
			[]asked{{0, 0, positive, 1}, {0, 2, edited, 1}, {0, 1, candidate, 1}, {1, 0, candidate, 1}},
		},
		"one image": {"aa", []string{"star", "ring"}, nil, nil, nil, nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := textsOf(c.images, 1, c.texts...)
			copy(b.I2T, c.i2t)
			copy(b.T2I, c.t2i)
			if c.change != nil {
				c.change(b)
			}
			q := NewQuestions(b, c.masks, plainTags{}, rng.New(1, "test"))
			var got []asked
			for i, p := range q.pairs {
				got = append(got, asked{p.Image, p.Text, q.kinds[i], q.times[i]})
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("asked %v, want %v", got, c.want)
			}
			if !slices.EqualFunc(q.Edits, c.edits, func(got, want string) bool { return got == want || want == "*" }) {
				t.Errorf("edits %q, want %q", q.Edits, c.edits)
			}
		})
	}
}

// Known gives candidates the probabilities that Score gives them with what is kept, and the same ones again, whatever is kept and
// whatever the bound would rule out. Without it, they differ by what is rounded.
func TestKnownAsksConD(t *testing.T) {
	const n = 5
	d, in := newConD(t, 16), randomInput(n)
	b := allCandidates(n)
	for i := range b.Samples {
		b.Samples[i].ImageID, b.Samples[i].Text = schemas.ImageID{byte(i + 1)}, []string{"a red star", "a blue star", "ring", "cross", "a ring"}[i]
	}
	q := NewQuestions(b, nil, plainTags{}, rng.New(1, "test"))
	edits := slices.Repeat(in.IDs[:1], len(q.Edits))
	for i, text := range q.Edits { // one text, one row of ids
		for k := range b.Samples {
			if b.Samples[k].Text == text {
				edits[i] = in.IDs[k]
			}
		}
	}
	known := func(in Input) Known {
		t.Helper()
		k, err := d.Known(context.Background(), b, in, q, edits)
		if err != nil || len(k.Positives) != n || len(k.Edited) != n || len(k.Candidates) != 2*n*(n-1) || len(k.Contradicting) != 4 {
			t.Fatalf("%d positives, %d edits, %d candidates of which %d contradict, %v", len(k.Positives), len(k.Edited), len(k.Candidates), len(k.Contradicting), err)
		}
		slices.Sort(k.Candidates)
		return k
	}
	first, second := in, in
	first.Kept, second.Kept = NewKept(1000, 1<<20), NewKept(1000, 1<<20)
	scored := score(t, d, b, first)
	want := slices.Concat(scored.ProbI2T, scored.ProbT2I)
	slices.Sort(want)
	bare := known(in)
	all := &Bound{Matches: enoughMatches, Least: 2} // rules out all
	first.Bound, second.Bound = all, all
	for name, in := range map[string]Input{"after scoring": first, "before": second, "again": second} {
		k := known(in)
		if !torchtest.AllSame(k.Candidates, want) || in.Kept.Counts().RuledOut != 0 {
			t.Errorf("%s: candidates have %v, scored %v", name, k.Candidates, want)
		}
		for i, p := range k.Edited {
			if math.Abs(float64(p-bare.Edited[i])) > 1e-3 || math.Abs(float64(k.Positives[i]-bare.Positives[i])) > 1e-3 {
				t.Errorf("%s: edit %d has %v, and %v with nothing rounded", name, i, p, bare.Edited[i])
			}
		}
	}
	second.Bound = nil
	if again := score(t, d, b, second); !torchtest.AllSame(again.ProbI2T, scored.ProbI2T) || second.Kept.Counts().Computed != 0 {
		t.Errorf("after Known, Con-D is asked again: %+v", second.Kept.Counts())
	}
	if _, err := d.Known(context.Background(), b, in, q, nil); !errors.Is(err, model.ErrInput) {
		t.Errorf("without the edits: %v", err)
	}
}

func TestAUCOfKnown(t *testing.T) {
	k := Known{Positives: []float32{0.9, 0.3}, Edited: []float32{0.5, 0.1}}
	if got := k.AUC(); got != 0.75 {
		t.Errorf("one of four in the wrong order: %v", got)
	}
	k.Add(Known{Contradicting: []float32{0.9, 0.3}}) // of eight comparisons four are right, and two are ties
	if got := k.AUC(); got != 0.625 {
		t.Errorf("after more negatives: %v", got)
	}
	if got := (Known{}).AUC(); got != 0.5 {
		t.Errorf("of nothing: %v", got)
	}
}

// shares returns so many probabilities, of which a share is 0.9 and the others 0.1.
func shares(n int, high float64) []float32 {
	list := slices.Repeat([]float32{0.1}, n)
	for i := range int(float64(n)*high + 0.5) {
		list[i] = 0.9
	}
	return list
}

// A Con-D whose rates are known is estimated as they say, and the interval narrows with what is asked.
func TestPrecision(t *testing.T) {
	// A tenth of the 4,000 candidates is true. Con-D confirms 90 % of these, 2 % of the 2,000 that contradict and 2 % of the others.
	k := func(n int) Known {
		contradicting, others := shares(2*n, 0.02), slices.Concat(shares(2*n*2/10, 0.9), shares(2*n*8/10, 0.02))
		return Known{
			Positives: shares(n, 0.9), Edited: shares(n, 0.02), Contradicting: contradicting, Candidates: slices.Concat(contradicting, others),
		}
	}
	p := k(1000).Precision(0.8)
	truth := 0.1 * 0.9 / (0.1*0.9 + 0.9*0.02)
	if p.Value < truth-0.01 || p.Value > truth+0.01 || p.Base < 0.099 || p.Base > 0.101 || p.Low >= truth || p.High <= truth || p.Low < 0.55 {
		t.Errorf("of %.3f and a base rate of 0.1 it is estimated %+v", truth, p)
	}
	if few := k(250).Precision(0.8); few.Low >= p.Low || few.High <= p.High {
		t.Errorf("a quarter of the pairs tells as much: %+v, of all %+v", few, p)
	}
	for name, c := range map[string]struct {
		known     Known
		value     float64
		low, high float64
	}{
		"nothing":                     {Known{}, 0, 0, 1},
		"too few edits":               {Known{Positives: shares(1000, 0.9), Edited: shares(leastNegatives-1, 0), Candidates: shares(1000, 0.1)}, 0, 0, 1},
		"none confirmed":              {Known{Positives: shares(1000, 0), Edited: shares(1000, 0), Candidates: shares(1000, 0)}, 0, 0, 1},
		"everything contradicts":      {Known{Positives: shares(1000, 0.9), Edited: shares(1000, 0.1), Candidates: shares(4000, 0.2), Contradicting: shares(4000, 0.2)}, 0, 0, 0.05},
		"confirmed as often as edits": {Known{Positives: shares(1000, 0.9), Edited: shares(1000, 0.5), Candidates: shares(4000, 0.5)}, 0, 0, 0.85},
	} {
		p := c.known.Precision(0.8)
		if p.Value != c.value || p.Low != c.low || p.High > c.high || p.High < c.value {
			t.Errorf("%s: %+v, want %v from %v to at most %v", name, p, c.value, c.low, c.high)
		}
	}
	// Of photographs more edited captions are confirmed than candidates, of which a fifth of the confirmed ones may well be true.
	photographs := Known{Positives: shares(1000, 0.9), Edited: shares(1000, 0.5), Candidates: shares(4000, 0.1)}
	if p := photographs.Precision(0.8); p.Value != 0 || p.Low != 0 || p.High < 0.4 || p.High > 0.8 {
		t.Errorf("edited captions that are harder than candidates: %+v, want 0 to more than 0.4", p)
	}
	if c := photographs.Check(0.8, LeastPrecision, People{}); c.Open || !c.Off() {
		t.Errorf("asking more tells no more, and the check is %+v", c)
	}
	// A probability on the threshold is not above it, as in the trainer.
	if p := (Known{Positives: []float32{0.8}, Candidates: []float32{0.8, 0.9}}).Precision(0.8); p.Confirmed != 0.5 {
		t.Errorf("of 0.8 and 0.9 a share of %v is above 0.8", p.Confirmed)
	}
}

func TestCheckDecides(t *testing.T) {
	good := func(n int) Known {
		return Known{Positives: shares(n, 0.95), Edited: shares(n, 0), Candidates: shares(4*n, 0.1), Contradicting: shares(n, 0)}
	}
	doubtful := func(n int) Known {
		k := good(n)
		k.Edited = shares(n, 0.05)
		return k
	}
	for name, c := range map[string]struct {
		known     Known
		open, off bool
	}{
		"too few":              {good(enough - 1), true, true},
		"enough":               {good(enough), false, false},
		"nothing confirmed":    {Known{Positives: shares(enough, 0), Edited: shares(enough, 0), Candidates: shares(enough, 0)}, false, true},
		"in doubt":             {doubtful(enough), true, true},
		"in doubt for so long": {doubtful(most), false, true},
	} {
		check := c.known.Check(0.8, LeastPrecision, People{})
		if check.Open != c.open || check.Off() != c.off || check.Positives != int32(len(c.known.Positives)) {
			t.Errorf("%s: %+v %+v", name, check, *check.Precision)
		}
	}
}

// Probabilities below 0.9 are as often wrong as right here, so the threshold that is chosen lies above them.
func TestThreshold(t *testing.T) {
	level := func(n int, p float32) []float32 { return slices.Repeat([]float32{p}, n) }
	k := Known{
		Positives: level(1000, 0.95), Edited: slices.Concat(level(500, 0.85), level(500, 0.1)),
		Candidates: slices.Concat(level(200, 0.95), level(2000, 0.845), level(1800, 0.1)),
	}
	if got := k.Threshold(LeastPrecision); got != 0.85 {
		t.Errorf("threshold %v: %s", got, strings.Join([]string{ptr(k.Precision(0.8)), ptr(k.Precision(0.85)), ptr(k.Precision(0.9))}, "; "))
	}
	if got := (Known{}).Threshold(LeastPrecision); got != 0.5 {
		t.Errorf("of nothing the threshold is %v", got)
	}
}

func ptr(p schemas.Precision) string { return p.String() }
