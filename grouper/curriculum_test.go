package grouper

import (
	"math"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/schemas"
)

func TestAlpha(t *testing.T) {
	for name, c := range map[string]struct {
		epoch, epochs      int
		smallest, greatest float64
		want               float64
	}{
		"all in the first epoch":    {0, 10, -0.2, 0.6, 0.6},
		"halfway down":              {2, 8, 0.25, 0.75, 0.5},
		"one left at half":          {5, 10, -0.2, 0.6, -0.2},
		"an odd number of epochs":   {1, 5, 0, 1, 0.6},
		"below at the end":          {9, 10, 0.2, 0.6, 0.2 - 0.8*0.4},
		"the only epoch":            {0, 1, 0.1, 0.9, 0.9},
		"nothing to choose between": {3, 10, 0.5, 0.5, 0.5},
	} {
		if got := Alpha(c.epoch, c.epochs, c.smallest, c.greatest); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestReplacedAtTheThreshold(t *testing.T) {
	below, above := math.Nextafter(0.5, 0), math.Nextafter(0.5, 1)
	if !Replaced(below, 0.5) || !Replaced(0.5, 0.5) || Replaced(above, 0.5) {
		t.Error("a text is replaced when its similarity is alpha or less")
	}
}

func TestTextRules(t *testing.T) {
	similarities := []float32{0.5, -0.25, 0.75, 0.25, 0.25}
	group := &schemas.Group{MinSimilarity: -0.25, MaxSimilarity: 0.75}
	for name, c := range map[string]struct {
		rule  TextRule
		share float64
		epoch int64
		want  string // which are replaced
	}{
		"curriculum, first epoch":    {TextCurriculum, 0, 0, "11111"},
		"curriculum, second of four": {TextCurriculum, 0, 1, "01011"}, // alpha is 0.25
		"curriculum, half":           {TextCurriculum, 0, 2, "01000"},
		"curriculum, last":           {TextCurriculum, 0, 3, "00000"},
		"curriculum, next group":     {TextCurriculum, 0, 4, "00000"},
		"share of nothing":           {TextShare, 0, 0, "00000"},
		"share of less than one":     {TextShare, 0.19, 0, "00000"},
		"share of one":               {TextShare, 0.2, 3, "01000"},
		"equals go together":         {TextShare, 0.4, 0, "01011"},
		"share of everything":        {TextShare, 1, 0, "11111"},
		"all":                        {TextAll, 0, 3, "11111"},
		"none":                       {TextNone, 0, 0, "00000"},
	} {
		alpha := Options{Epochs: 4, Texts: c.rule, TextShare: c.share}.alpha(c.epoch, group, similarities)
		got := ""
		for _, s := range similarities {
			if Replaced(float64(s), alpha) {
				got += "1"
			} else {
				got += "0"
			}
		}
		if got != c.want {
			t.Errorf("%s: alpha %g replaces %s, want %s", name, alpha, got, c.want)
		}
	}
}

func TestObjectText(t *testing.T) {
	long := strings.Repeat("x", schemas.MaxCaptionBytes-3)
	nouns := []string{"dog", "grass", long, "man", "ox"}
	for want, objects := range map[string][]int32{
		"":              nil,
		"dog":           {0},
		"dog grass man": {0, 1, 3},
		"dog man":       {0, 2, 3}, // no room for the long one
		long + " ox":    {2, 3, 4}, // exactly full: room for the ox, none for the man
	} {
		if got := objectText(objects, nouns); got != want {
			t.Errorf("objects %d: got %.40q of %d bytes, want %.40q", objects, got, len(got), want)
		}
	}
}
