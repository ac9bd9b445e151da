package eval

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestAskCondAgreesWithOneByOne asks about every pair by itself, and ranks by hand.
func TestAskCondAgreesWithOneByOne(t *testing.T) {
	m, d := testModel(t), testData()
	sim, _, margin := oneByOne(t, m, d)
	holds := func(image, text int) bool { return (image+text)%4 == 0 }
	for _, known := range []bool{false, true} {
		o := CondOptions{Easy: true, Seed: 3, Batch: 3, Part: 5, BaseRate: 0.3}
		if known {
			o.Holds = holds
		}
		c := must.Get(AskCond(t.Context(), m, d, o))(t)
		near := func(a Asked, image, text int) bool {
			return math.Abs(a.Score-float64(margin.Row(image)[text])) < 1e-4
		}
		for text, a := range c.Own {
			if image := int(d.ImageOf[text]); !near(a, image, text) || !a.True || a.Anchor != image {
				t.Errorf("own pair %d: %+v, want %v", text, a, margin.Row(image)[text])
			}
		}
		var want []question
		for image := range d.Images {
			for _, text := range slices.DeleteFunc(TopK(sim.Row(image), len(d.Texts)), func(j int32) bool { return d.ImageOf[j] == int32(image) })[:2] {
				want = append(want, question{Pair{int32(image), text}, int32(image)})
			}
		}
		turned := sim.Transposed()
		for text, own := range d.ImageOf {
			for _, image := range slices.DeleteFunc(TopK(turned.Row(text), d.Images), func(i int32) bool { return i == own })[:2] {
				want = append(want, question{Pair{image, int32(text)}, own})
			}
		}
		if len(c.Hard) != len(want) {
			t.Fatalf("%d hard pairs, want %d", len(c.Hard), len(want))
		}
		counted := 0
		for i, q := range want {
			a := c.Hard[i]
			if !near(a, int(q.Image), int(q.Text)) || a.Anchor != int(q.anchor) || a.True != (known && holds(int(q.Image), int(q.Text))) {
				t.Errorf("hard pair %d: %+v, want %+v", i, a, q)
			}
			if a.True {
				counted++
			}
		}
		base := 0.3
		if known {
			base = float64(counted) / float64(len(want))
		}
		if c.BaseRate != base || c.Known != known || c.Images != d.Images || c.Texts != len(d.Texts) {
			t.Errorf("%+v, want base rate %v", c, base)
		}
		easy := len(c.Easy)
		if known && easy >= 2*len(d.Texts) || !known && easy != 2*len(d.Texts) {
			t.Errorf("%d easy pairs of %d texts", easy, len(d.Texts))
		}
		odd, even := c.Half(true), c.Half(false)
		if len(odd.Hard)+len(even.Hard) != len(c.Hard) || odd.Own[0].Anchor != 1 || even.Own[0].Anchor != 0 || len(odd.Own) != 3*perImage {
			t.Errorf("halves of %d and %d hard pairs", len(odd.Hard), len(even.Hard))
		}
	}
}

func TestEasyPairsAreNeverOwn(t *testing.T) {
	truth := must.Get(NewTruth(3, []int32{0, 1, 2, 2}))(t)
	seen := map[Pair]bool{}
	for seed := range uint64(30) {
		for _, q := range truth.easy(CondOptions{Seed: seed}) {
			if q.Image == truth.imageOf[q.Text] || q.anchor != truth.imageOf[q.Text] {
				t.Fatalf("%+v is an own pair", q)
			}
			seen[q.Pair] = true
		}
	}
	if len(seen) != 8 { // four texts with two other images each
		t.Errorf("%d different easy pairs, want 8", len(seen))
	}
}

func TestBest(t *testing.T) {
	values := []float32{3, 9, 9, 1, 7}
	for name, c := range map[string]struct {
		k, without int
		want       []int32
	}{
		"the lower number of equal ones": {3, -1, []int32{1, 2, 4}},
		"one that does not count":        {2, 1, []int32{2, 4}},
		"more than there are":            {9, 0, []int32{1, 2, 4, 3}},
	} {
		got := best(len(values), c.k, func(i int) (float32, bool) { return values[i], i != c.without })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAskCondRefuses(t *testing.T) {
	m := testModel(t)
	for want, change := range map[string]func(*Data, *CondOptions){
		"base rate is 1":    func(_ *Data, o *CondOptions) { o.BaseRate = 1 },
		"base rate is -0.1": func(_ *Data, o *CondOptions) { o.BaseRate = -0.1 },
		"want two images":   func(d *Data, _ *CondOptions) { d.Images, d.Texts, d.ImageOf = 1, d.Texts[:1], d.ImageOf[:1] },
		"no such picture": func(d *Data, _ *CondOptions) {
			d.Pixels = func(int, []float32) error { return errors.New("no such picture") }
		},
		"want a finite number": func(d *Data, _ *CondOptions) {
			d.Pixels = func(_ int, p []float32) error { p[0] = float32(math.NaN()); return nil }
		},
		"text 3 has image 7 of ": func(d *Data, _ *CondOptions) { d.ImageOf = slices.Clone(d.ImageOf); d.ImageOf[3] = 7 },
	} {
		d, o := testData(), CondOptions{}
		change(&d, &o)
		if _, err := AskCond(t.Context(), m, d, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// world draws hard pairs of which a share is true, and own pairs that score as these do.
func world(seed uint64, hard, own int, share float64) *Cond {
	r := rng.New(seed, "scores")
	draw := func(holds bool) Asked {
		x := r.NormFloat64() - 1
		if holds {
			x += 2
		}
		return Asked{Score: 8*x + 3, True: holds, Rivals: 1}
	}
	c := &Cond{Known: true, BaseRate: share}
	for i := range hard {
		c.Hard = append(c.Hard, draw(float64(i) < share*float64(hard)))
	}
	for range own {
		c.Own = append(c.Own, draw(true))
	}
	return c
}

// unknown returns the same answers without the truth.
func (c *Cond) unknown() *Cond {
	u := *c
	u.Known, u.Hard = false, slices.Clone(c.Hard)
	for i := range u.Hard {
		u.Hard[i].True = false
	}
	return &u
}

// Of pairs with a probability near p, p are true, whether the truth was known to the fit or own pairs stood for it. The
// uncalibrated scores are far from that.
func TestCalibrationHolds(t *testing.T) {
	for _, share := range []float64{0.05, 0.3} {
		for _, known := range []bool{true, false} {
			c := world(1, 8000, 3000, share)
			if !known {
				c = c.unknown()
			}
			fitted, err := c.Calibrate()
			if err != nil || fitted.BaseRate != share {
				t.Fatalf("%+v, %v", fitted, err)
			}
			other := world(2, 8000, 3000, share)
			before, after := other.Report(nil), other.Report(fitted)
			if after.CalibrationError > 0.02 || before.CalibrationError < 5*after.CalibrationError {
				t.Errorf("share %v, truth known %v: calibration error %.4f before, %.4f after", share, known, before.CalibrationError, after.CalibrationError)
			}
			if math.Abs(before.HardAUC-after.HardAUC) > 0 || *before.CandidateAUC != *after.CandidateAUC {
				t.Error("calibration changes the order of pairs")
			}
		}
	}
}

// alike returns pairs with one score.
func alike(n int, score float64, rivals int) []Asked {
	return slices.Repeat([]Asked{{Score: score, Rivals: rivals}}, n)
}

// A matching head that has met true pairs as negatives doubts them: they score 2, and so do the own pairs like them.
// Own pairs that are like no other score 6, as some wrong ones do. Their scores say nothing about hard pairs, and do
// not count.
func TestOwnPairsCountByTheirRivals(t *testing.T) {
	c := &Cond{
		Own:  slices.Concat(alike(90, 6, 0), alike(10, 2, 2)),
		Hard: slices.Concat(alike(800, -3, 0), alike(100, 2, 0), alike(100, 6, 0)), BaseRate: 0.08,
	}
	fitted, err := c.Calibrate()
	must.Do(t, err)
	for score, want := range map[float64]float64{-3: 0, 2: 0.4, 6: 0.4} { // 80 true pairs of the 200 that are not below
		if got := fitted.Of(score); math.Abs(got-want) > 0.002 {
			t.Errorf("at %v: %v, want %v", score, got, want)
		}
	}
	for i := range c.Own {
		c.Own[i].Rivals = 0 // none has any: all count alike
	}
	if fitted, err = c.Calibrate(); err != nil || math.Abs(fitted.Of(2)-0.08) > 0.002 || math.Abs(fitted.Of(6)-0.72) > 0.002 {
		t.Errorf("without rivals: %v at 2 and %v at 6 (%v), want 0.08 and 0.72", fitted.Of(2), fitted.Of(6), err)
	}
}

// Own pairs share the rank of what is as similar. Rivals are counted per own pair: the hard pairs of its image and its
// text.
func TestRivals(t *testing.T) {
	truth := must.Get(NewTruth(3, []int32{0, 1, 2, 2}))(t)
	sim := Matrix{Rows: 3, Cols: 4, Data: []float32{
		5, 5, 1, 9,
		4, 6, 2, 2,
		7, 3, 8, 1,
	}}
	// Image 0: texts 3 (9) and 1 (5), both no less than its own 5. Text 0: images 2 (7) and 1 (4). Image 1: texts 0 and 2.
	// Text 1: images 0 and 2, both below 6. Image 2: texts 0 (7) and 1 (3): above text 3's own 1. Text 2: images 1 and 0.
	// Text 3: images 0 (9) and 1 (2), both above 1.
	if got, want := truth.rivals(sim, truth.hardest(sim, 2)), []int{3, 0, 0, 4}; !slices.Equal(got, want) {
		t.Errorf("rivals %v, want %v", got, want)
	}
}

func TestBins(t *testing.T) {
	for name, c := range map[string]struct {
		scores []Asked
		pairs  []float64
	}{
		"fewer than a bin":            {alike(binPairs-1, 1, 0), []float64{binPairs - 1}},
		"the lowest takes the rest":   {slices.Concat(alike(binPairs+3, 1, 0), alike(binPairs, 2, 0)), []float64{binPairs + 3, binPairs}},
		"equal ones are not parted":   {slices.Concat(alike(binPairs, 1, 0), alike(binPairs+7, 2, 0)), []float64{binPairs, binPairs + 7}},
		"a rest that is a bin itself": {slices.Concat(alike(binPairs, 0, 0), alike(binPairs, 1, 0), alike(binPairs, 2, 0)), []float64{binPairs, binPairs, binPairs}},
	} {
		bins := binsOf(c.scores)
		got := make([]float64, len(bins))
		for i, b := range bins {
			got[i] = b.pairs
		}
		if !slices.Equal(got, c.pairs) {
			t.Errorf("%s: %v, want %v", name, got, c.pairs)
		}
	}
}

func TestCalibrateRefuses(t *testing.T) {
	for name, c := range map[string]*Cond{
		"no own pairs": {Hard: alike(1, 1, 0), BaseRate: 0.1}, "no hard pairs": {Own: alike(1, 1, 0), BaseRate: 0.1},
		"nothing true":    {Own: alike(1, 1, 0), Hard: alike(1, 1, 0), Known: true},
		"everything true": {Own: alike(1, 1, 0), Hard: []Asked{{True: true}}, Known: true, BaseRate: 1},
	} {
		if fitted, err := c.Calibrate(); err == nil {
			t.Errorf("%s: %+v", name, fitted)
		}
	}
}

func TestCondReport(t *testing.T) {
	at := func(p float64) float64 { return math.Log(p / (1 - p)) }
	c := &Cond{
		Own:   []Asked{{Score: at(0.85), True: true}, {Score: at(0.3), True: true}},
		Easy:  []Asked{{Score: at(0.1)}, {Score: at(0.4)}},
		Hard:  []Asked{{Score: 0}, {Score: at(0.85), True: true}, {Score: at(0.92)}, {Score: at(0.2)}},
		Known: true, BaseRate: 0.25,
	}
	r := c.Report(nil)
	if r.EasyAUC != 0.75 || r.HardAUC != 0.5 || *r.CandidateAUC != 2./3 {
		t.Errorf("AUC %v, %v, %v", r.EasyAUC, r.HardAUC, *r.CandidateAUC)
	}
	for _, want := range []Above{
		{High: 0.5, Own: 0.5, Hard: 0.5, Precision: new(0.5), Recall: new(1.0)}, // a probability of 0.5 is not above 0.5
		{High: 0.8, Own: 0.5, Hard: 0.5, Precision: new(0.5), Recall: new(1.0)},
		{High: 0.9, Hard: 0.25, Precision: new(0.0), Recall: new(0.0)},
		{High: 0.95, Recall: new(0.0)}, // nothing is above
	} {
		got := r.Above[slices.Index(Thresholds, want.High)]
		same := func(a, b *float64) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
		if got.High != want.High || got.Own != want.Own || got.Hard != want.Hard || !same(got.Precision, want.Precision) || !same(got.Recall, want.Recall) {
			t.Errorf("above %v: %+v, want %+v", want.High, got, want)
		}
	}
	if want := (0.5 + 0.15 + 0.92 + 0.2) / 4; math.Abs(r.CalibrationError-want) > 1e-9 {
		t.Errorf("calibration error %v, want %v", r.CalibrationError, want)
	}
	if v := r.Above[0]; math.Abs(v.From-0.0945) > 1e-4 || math.Abs(v.To-0.9055) > 1e-4 { // statsmodels' proportion_confint of 1 of 2
		t.Errorf("the precision lies from %v to %v", v.From, v.To)
	}
	if want := []Bin{{0.2, 0.3, 1, 0.2, 0}, {0.5, 0.6, 1, 0.5, 0}, {0.8, 0.9, 1, 0.85, 1}, {0.9, 1, 1, 0.92, 0}}; !slices.EqualFunc(r.Bins, want, func(a, b Bin) bool {
		return a.Low == b.Low && a.Pairs == b.Pairs && math.Abs(a.Mean-b.Mean) < 1e-9 && a.True == b.True
	}) {
		t.Errorf("bins %+v, want %+v", r.Bins, want)
	}
	c.Known = false
	if r := c.Report(&model.Calibration{Differences: []float64{0}, Probabilities: []float64{0.5}}); r.CandidateAUC != nil || r.Above[0].Precision != nil || r.Above[0].Recall != nil || r.Counted {
		t.Errorf("the truth is told where it is not known: %+v", r)
	}
}

// A Con-D that is surest where it is wrong is told so, and one whose precision rises or hardly moves is not.
func TestCondReportSaysWherePrecisionFalls(t *testing.T) {
	at := func(p float64) float64 { return math.Log(p / (1 - p)) }
	report := func(right, wrong float64) *CondReport {
		c := &Cond{Known: true}
		for i := range 400 {
			c.Hard = append(c.Hard, Asked{Score: at(right), True: i%4 > 0}, Asked{Score: at(wrong), True: i%4 == 0})
		}
		return c.Report(nil)
	}
	if r := report(0.82, 0.97); r.Falls == nil || *r.Falls != 0.95 {
		t.Errorf("surest where it is wrong: it falls at %v", r.Falls)
	}
	for name, r := range map[string]*CondReport{"surest where it is right": report(0.97, 0.82), "all alike": report(0.97, 0.97)} {
		if r.Falls != nil {
			t.Errorf("%s: it falls at %v", name, *r.Falls)
		}
	}
}
