package eval

import (
	"math"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/interval"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestWinogroundScores has an example for each outcome, by the definitions of the paper's equations 1 to 3.
func TestWinogroundScores(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name               string
		own0, own1         float64 // image 0 with caption 0, image 1 with caption 1
		i0c1, i1c0         float64
		text, image, group bool
	}{
		{"all right", 3, 3, 1, 1, true, true, true},
		{"all wrong", 1, 1, 3, 3, false, false, false},
		{"captions of each image alone", 5, 2, 3, 1, true, false, false},
		{"images of each caption alone", 5, 2, 1, 3, false, true, false},
		{"equal for a caption", 3, 3, 1, 3, false, false, false},
		{"equal for all", 1, 1, 1, 1, false, false, false},
		{"no number", nan, 3, 1, 1, false, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The second example is all right, so that numbers of images and texts cannot be confused.
			got := winogroundScores(func(image, text int) float64 {
				if image >= 2 {
					return map[bool]float64{true: 1}[image == text]
				}
				return [2][2]float64{{c.own0, c.i0c1}, {c.i1c0, c.own1}}[image][text]
			}, 2)
			share := func(right bool) Measured {
				n := map[bool]int{false: 1, true: 2}[right]
				return measured(interval.Of(n, 2))
			}
			if want := (WinogroundScores{share(c.text), share(c.image), share(c.group)}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// TestWinogroundAgreesWithOneByOne scores every pair by itself.
func TestWinogroundAgreesWithOneByOne(t *testing.T) {
	m, d := testModel(t), testData()
	d.Images = 6
	for i := range d.Images { // one text an image
		d.Texts[i] = d.Texts[2*i]
		d.ImageOf[i] = int32(i)
	}
	d.Texts, d.ImageOf = d.Texts[:d.Images], d.ImageOf[:d.Images]
	sim, _, margin := oneByOne(t, m, d)
	scores := func(x Matrix) WinogroundScores {
		return winogroundScores(func(image, text int) float64 { return float64(x.Row(image)[text]) }, 3)
	}
	r := must.Get(Winoground(t.Context(), m, d))(t)
	if r.Examples != 3 || r.ITC != scores(sim) || r.ITM == nil || *r.ITM != scores(margin) {
		t.Errorf("%+v, ITM %+v; want %+v and %+v", r, r.ITM, scores(sim), scores(margin))
	}
	if r.Chance.Text != 25 || r.Chance.Image != 25 || math.Abs(r.Chance.Group-50./3) > 1e-9 {
		t.Errorf("chance %+v, want the paper's", r.Chance)
	}
	var out strings.Builder
	must.Do(t, r.Print(&out))
	if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, "3 examples of two") || !strings.Contains(got, "chance 25.0 25.0 16.7") || !strings.Contains(got, "ITM ") {
		t.Errorf("it prints %s", got)
	}
	d.Images, d.Texts, d.ImageOf = 5, d.Texts[:5], d.ImageOf[:5]
	if _, err := Winoground(t.Context(), m, d); err == nil || !strings.Contains(err.Error(), "5 images and 5 texts, want two of each") {
		t.Errorf("half an example: %v", err)
	}
}
