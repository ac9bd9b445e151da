package discriminator

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
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
			[]asked{{0, 0, positive, 1}, {0, -1, edited, 1}, {1, 1, positive, 1}, {1, -1, edited, 1}, {0, 1, candidate, 2}},
		},
		"one that contradicts": {
			"ab",
			[]string{"a red star", "a blue star"},
			[]int32{1, 0},
			nil, nil, nil,
			[]string{"a blue star", "a red star"}, // no noun can be replaced
			[]asked{{0, 0, positive, 1}, {0, -1, edited, 1}, {1, 1, positive, 1}, {1, -1, edited, 1}, {0, 1, contradicting, 1}, {1, 0, contradicting, 1}},
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
				{0, -1, edited, 1},
				{1, 1, positive, 1},
				{1, 0, positive, 1},
				{1, -1, edited, 1},
				{2, 2, positive, 1},
				{2, -1, edited, 1},
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
			[]asked{{0, 0, positive, 1}, {0, -1, edited, 1}, {2, 2, positive, 1}, {2, -1, edited, 1}, {2, 0, candidate, 1}},
		},
		"obj(v) in the place of a caption": {
			"ab",
			[]string{"a red star", "a blue star"},
			[]int32{1, 0},
			nil, nil,
			func(b *schemas.Batch) { b.Samples[1].Replaced = true },
			[]string{"a blue star"},
			[]asked{{0, 0, positive, 1}, {0, -1, edited, 1}, {0, 1, candidate, 1}, {1, 0, candidate, 1}},
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
			var edits []string
			for i, p := range q.pairs {
				switch q.kinds[i] {
				case reworded, other: // tested below
					continue
				case edited:
					if n := len(got); n > 0 && got[n-1].kind == edited { // each is asked about twice
						continue
					}
					edits = append(edits, q.Edits[int(p.Text)-len(c.texts)])
					p.Text = -1
				}
				got = append(got, asked{p.Image, p.Text, q.kinds[i], q.times[i]})
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("asked %v, want %v", got, c.want)
			}
			if !slices.EqualFunc(edits, c.edits, func(got, want string) bool { return got == want || want == "*" }) {
				t.Errorf("edits %q, want %q", edits, c.edits)
			}
		})
	}
}

// Known gives candidates the probabilities that Score gives them with what is kept, and the same ones again, whatever
// is kept and whatever the bound would rule out. Without it, they differ by what is rounded.
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
		if err != nil || k.Pairs != n || len(k.Positives) == 0 || len(k.Edited) == 0 || len(k.Candidates) != 2*n*(n-1) || len(k.Contradicting) != 4 {
			t.Fatalf("%d positives of %d, %d edits, %d candidates of which %d contradict, %v",
				len(k.Positives), k.Pairs, len(k.Edited), len(k.Candidates), len(k.Contradicting), err)
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
		if !torchtest.AllSame(k.Edited, bare.Edited) || !torchtest.AllSame(k.Positives, bare.Positives) {
			t.Errorf("%s: edits have %v, and %v with nothing kept", name, k.Edited, bare.Edited)
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

// Words of an edited or reworded caption stand neither in another text of the image nor in its candidates', whose words
// may be true.
func TestEditsHaveNoWordsOfCandidates(t *testing.T) {
	b := textsOf("abcd", 1, "a red star", "a blue ring", "a green cross", "two rings")
	copy(b.I2T, []int32{1, -1, -1, -1})
	q := NewQuestions(b, nil, plainTags{}, rng.New(1, "test"))
	kinds := map[kind]int{}
	for i, p := range q.pairs {
		kinds[q.kinds[i]]++
		if p.Image != 0 || int(p.Text) < len(b.Samples) {
			continue
		}
		text := q.Edits[int(p.Text)-len(b.Samples)]
		if strings.Contains(text, "ring") || strings.Contains(text, "blue") {
			t.Errorf("the image is asked about %q, whose words stand in its candidate", text)
		}
		if q.kinds[i] == reworded && text != "a green cross" {
			t.Errorf("reworded is %q, want another noun and another colour", text)
		}
	}
	if kinds[edited] != edits*3 || kinds[reworded] < rewordings || kinds[other] == 0 {
		t.Errorf("asked are %v pairs by kind", kinds)
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

// drawn returns n probabilities whose logits are normal.
func drawn(r *rand.Rand, n int, mean, deviation float64) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(1 / (1 + math.Exp(-mean-deviation*r.NormFloat64())))
	}
	return list
}

// world is a Con-D among candidates of which the truth is known. Its logits of true pairs have mean 2, those of edited
// captions 2 - edit, of reworded ones 2 - reword, of other captions -4, each with deviation 1.
type world struct{ base, hard, harder, edit, reword float64 }

// known draws what the guard is told of n pairs, and the share of true ones above a threshold. Of the false candidates
// a share is hard, at a mean of 2 - harder, and the rest as other captions are.
func (w world) known(r *rand.Rand, n int, threshold float64) (Known, float64) {
	right := drawn(r, int(8*w.base*float64(n)), 2, 1)
	wrong := slices.Concat(
		drawn(r, int(8*(1-w.base)*w.hard*float64(n)), 2-w.harder, 1), drawn(r, int(8*(1-w.base)*(1-w.hard)*float64(n)), -4, 1))
	k := Known{
		Pairs: n, Positives: drawn(r, n, 2, 1), Edited: drawn(r, n, 2-w.edit, 1), Reworded: drawn(r, n, 2-w.reword, 1), Others: drawn(r, n, -4, 1),
		Candidates: slices.Concat(right, wrong),
	}
	trues, falses := above(right, threshold), above(wrong, threshold)
	return k, share(trues, trues+falses)
}

// The interval covers the truth for Con-Ds of every quality, where false candidates are harder than reworded captions
// and easier than edited ones, and excludes something. The decision is right where the precision is far from what is
// wanted.
func TestPrecisionCoversTheTruth(t *testing.T) {
	r := rng.New(1, "worlds")
	covered, worlds := 0, 0
	for name, c := range map[string]struct {
		world
		threshold float64
		least     float64 // upper bound of the width
	}{
		"photographs: more edited captions are confirmed than candidates": {world{0.05, 0.4, 1.5, 1, 2.5}, 0.8, 1},
		"a Con-D that tells edits apart":                                  {world{0.05, 0.3, 4, 3, 5}, 0.8, 0.6},
		"edits as hard as candidates":                                     {world{0.1, 0.5, 2, 2, 3}, 0.8, 0.9},
		"nothing is true":                                                 {world{0, 0.5, 2, 2, 3}, 0.8, 1},
		"nearly all that is confirmed is true":                            {world{0.2, 0.1, 5, 4, 6}, 0.8, 0.2},
	} {
		for range 6 {
			k, truth := c.known(r, 600, c.threshold)
			p := k.Precision(c.threshold)
			worlds++
			if p.Low <= truth && truth <= p.High {
				covered++
			} else {
				t.Logf("%s: %.3f lies out of %+v", name, truth, p)
			}
			if p.High-p.Low > c.least || p.Low > p.Value || p.Value > p.High {
				t.Errorf("%s: of %.2f it is estimated %+v, want an interval of at most %v", name, truth, p, c.least)
			}
		}
	}
	if covered < worlds*95/100 {
		t.Errorf("%d of %d intervals cover the truth", covered, worlds)
	}
}

// Con-Ds of 45, 60 and 80 % on the two sides of what is wanted.
func TestDecisionsOfConDs(t *testing.T) {
	r := rng.New(2, "worlds")
	for _, c := range []struct {
		world
		about float64
		least float64
		off   bool
	}{
		{world{0.05, 0.4, 3, 2.5, 3.5}, 0.45, 0.25, false},
		{world{0.05, 0.4, 3, 2.5, 3.5}, 0.45, 0.6, true},
		{world{0.05, 0.2, 3, 2.5, 3.5}, 0.6, 0.4, false},
		{world{0.05, 0.2, 3, 2.5, 3.5}, 0.6, 0.75, true},
		{world{0.1, 0.17, 3, 2.5, 3.5}, 0.8, 0.4, false},
		{world{0.1, 0.17, 3, 2.5, 3.5}, 0.8, 0.95, true},
	} {
		k, truth := c.known(r, most, 0.5)
		if math.Abs(truth-c.about) > 0.08 {
			t.Fatalf("a Con-D of %.2f is none of about %.2f", truth, c.about)
		}
		if check := k.Check(0.5, c.least, People{}); check.Open || check.Off() != c.off {
			t.Errorf("of %.2f, with %.2f wanted, the guard says %+v", truth, c.least, *check.Precision)
		}
	}
}

// What tells nothing leaves everything possible.
func TestPrecisionOfLittle(t *testing.T) {
	for name, k := range map[string]Known{
		"nothing":              {},
		"too few edits":        {Positives: shares(1000, 0.9), Edited: shares(leastKnown-1, 0), Candidates: shares(1000, 0.1)},
		"none confirmed":       {Positives: shares(1000, 0), Edited: shares(1000, 0), Candidates: shares(1000, 0)},
		"few confirmed":        {Positives: shares(1000, 0.9), Edited: shares(1000, 0), Candidates: shares(1000, 0.01)},
		"no positive above it": {Positives: shares(1000, 0), Edited: shares(1000, 0.1), Candidates: shares(1000, 0.1)},
	} {
		if p := k.Precision(0.8); p.Value != 0 || p.Low != 0 || p.High != 1 {
			t.Errorf("%s: %+v, want 0 to 1", name, p)
		}
	}
	contradicting := Known{Positives: shares(1000, 0.9), Edited: shares(1000, 0.1), Candidates: shares(4000, 0.2), Contradicting: shares(4000, 0.2)}
	if p := contradicting.Precision(0.8); p.Value != 0 || p.Low != 0 || p.High > 0.05 {
		t.Errorf("everything contradicts: %+v, want 0 to little", p)
	}
	// A probability on the threshold is not above it, as in the trainer.
	if p := (Known{Positives: []float32{0.8}, Candidates: []float32{0.8, 0.9}}).Precision(0.8); p.Confirmed != 0.5 {
		t.Errorf("of 0.8 and 0.9 a share of %v is above 0.8", p.Confirmed)
	}
}

// The guard looks at 256 known positives, and whenever they have doubled.
func TestCheckDecides(t *testing.T) {
	good := func(before, n int) Known {
		return Known{
			Pairs: n, Before: before, Positives: shares(n, 0.95), Edited: shares(n, 0), Reworded: shares(n, 0), Candidates: shares(4*n, 0.1),
			Contradicting: shares(n, 0),
		}
	}
	doubtful := func(before, n int) Known {
		k := good(before, n)
		k.Edited = shares(n, 0.1)
		return k
	}
	none := Known{Pairs: enough, Positives: shares(enough, 0), Edited: shares(enough, 0), Candidates: shares(enough, 0)}
	for name, c := range map[string]struct {
		known     Known
		open, off bool
	}{
		"too few":              {good(0, enough-1), true, true},
		"enough":               {good(enough-48, enough+2), false, false},
		"between two looks":    {good(enough+2, enough+50), true, true},
		"the second look":      {good(2*enough-1, 2*enough), false, false},
		"nothing confirmed":    {none, false, true},
		"in doubt":             {doubtful(0, enough), true, true},
		"in doubt for so long": {doubtful(most-1, most), false, true},
	} {
		check := c.known.Check(0.8, LeastPrecision, People{})
		if check.Open != c.open || check.Off() != c.off || check.Positives != int32(c.known.Pairs) {
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
