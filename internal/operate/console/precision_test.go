package console

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/operate/console/index"
)

// judged returns so many judgements with a probability, of which some are matches.
func judged(p float64, right, all int) (list []index.Said) {
	for i := range all {
		list = append(list, index.Said{Probability: p, Match: i < right})
	}
	return list
}

func TestProposals(t *testing.T) {
	join := func(lists ...[]index.Said) (all []index.Said) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	for name, c := range map[string]struct {
		said []index.Said
		want string
	}{
		"nobody":            {nil, "Judge 20 of the random sample"},
		"on the threshold":  {judged(0.8, 30, 30), "Judge 20 of the random sample"},
		"too few":           {judged(0.9, 15, 15), "Judge 5 more of the random sample"},
		"good as it is":     {judged(0.95, 40, 40), "Above 0.8, 100 % are true (91 to 100 %): the threshold can stay."},
		"a higher one":      {join(judged(0.85, 5, 40), judged(0.97, 57, 60)), "Above 0.85, 95 % are true (86 to 98 %): set ECM_HIGH=0.85."},
		"none is certain":   {join(judged(0.85, 5, 40), judged(0.97, 20, 30)), "no threshold is certain to give more than 80 %. The best is this: above 0.85, 67 % are true (49 to 81 %)."},
		"too few are above": {join(judged(0.85, 5, 40), judged(0.97, 19, 19)), "no threshold is certain"},
	} {
		if got := propose(precisionPoints(c.said, 0.8)); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Points go up to the highest probability that was judged, and count what is above them.
func TestPrecisionPoints(t *testing.T) {
	points := precisionPoints(append(judged(0.83, 1, 2), judged(0.81, 1, 1)...), 0.805)
	var got []string
	for _, p := range points {
		got = append(got, p.String())
		if p.Right > p.Judged || p.Low > p.Value || p.High < p.Value {
			t.Errorf("%+v", p)
		}
	}
	want := "above 0.805, 67 % are true (21 to 94 %); above 0.81, 50 % are true (9 to 91 %); above 0.82, 50 % are true (9 to 91 %)"
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("%s, want %s", s, want)
	}
}
