package bootstrap

import (
	"fmt"
	"slices"
	"testing"
)

// play runs a course to its end. It returns its stretches and the course. auc is told the phase and the step of a
// check.
func play(r rules, auc func(phase string, step int64) float64) (stretches []string, c course) {
	for c = newCourse(r); c.Phase != ""; {
		s := fmt.Sprintf("%s %d-%d epoch %d from %d", c.Phase, c.From, c.To, c.Epoch, c.EpochStep)
		if n := c.decay(); n > 0 {
			s += fmt.Sprintf(" decay %d", n)
		}
		stretches = append(stretches, s)
		c.check(auc(c.Phase, c.To), r)
		if c.Phase == Harden {
			c.Order = []int{1} // a walk
		}
	}
	return stretches, c
}

func TestCourse(t *testing.T) {
	rises := func(until int64) func(string, int64) float64 {
		return func(_ string, step int64) float64 { return 0.7 + 0.00001*float64(min(step, until)) }
	}
	for name, c := range map[string]struct {
		rules   rules
		auc     func(string, int64) float64
		want    []string
		stopped string
	}{
		"nothing rises after the first check": {
			rules{most: 100_000, patience: 2, perEpoch: 400},
			rises(250),
			[]string{"random 0-250 epoch 0 from 0", "random 250-500 epoch 0 from 0", "random 500-750 epoch 0 from 0", "settling 750-1000 epoch 2 from 750 decay 250"},
			"no further rise",
		},
		"checks are a tenth apart": {
			rules{most: 100_000, patience: 1, perEpoch: 5000},
			rises(2750),
			[]string{
				"random 0-250 epoch 0 from 0", "random 250-500 epoch 0 from 0", "random 500-750 epoch 0 from 0", "random 750-1000 epoch 0 from 0",
				"random 1000-1250 epoch 0 from 0", "random 1250-1500 epoch 0 from 0", "random 1500-1750 epoch 0 from 0", "random 1750-2000 epoch 0 from 0",
				"random 2000-2250 epoch 0 from 0", "random 2250-2500 epoch 0 from 0", "random 2500-2750 epoch 0 from 0", "random 2750-3025 epoch 0 from 0",
				"settling 3025-3529 epoch 1 from 3025 decay 504",
			},
			"no further rise",
		},
		"a matching head that has not begun is waited for": {
			rules{most: 1000, patience: 1, perEpoch: 100},
			func(string, int64) float64 { return 0.59 },
			[]string{"random 0-250 epoch 0 from 0", "random 250-500 epoch 0 from 0", "random 500-700 epoch 0 from 0", "settling 700-950 epoch 7 from 700 decay 250"},
			"most steps",
		},
		"a lucky check before the matching head has begun counts for nothing": {
			rules{most: 100_000, patience: 2, perEpoch: 400},
			func(_ string, step int64) float64 {
				switch {
				case step == 250:
					return 0.65
				case step <= 1500:
					return 0.45
				}
				return 0.61
			},
			[]string{
				"random 0-250 epoch 0 from 0", "random 250-500 epoch 0 from 0", "random 500-750 epoch 0 from 0", "random 750-1000 epoch 0 from 0",
				"random 1000-1250 epoch 0 from 0", "random 1250-1500 epoch 0 from 0", "random 1500-1750 epoch 0 from 0", "random 1750-2000 epoch 0 from 0",
				"random 2000-2250 epoch 0 from 0", "settling 2250-2625 epoch 6 from 2250 decay 375",
			},
			"no further rise",
		},
		"hard rounds end when they no longer help": {
			rules{most: 100_000, patience: 1, perEpoch: 90, hard: true},
			func(phase string, step int64) float64 {
				if phase == Harden && step == 590 { // below what random mini-batches ended with, which does not count
					return 0.65
				}
				return 0.7
			},
			[]string{
				"random 0-250 epoch 0 from 0", "random 250-500 epoch 0 from 0", "hard 500-590 epoch 6 from 500", "hard 590-680 epoch 7 from 590",
				"hard 680-770 epoch 8 from 680", "hard 770-860 epoch 9 from 770", "settling 860-1110 epoch 10 from 860 decay 250",
			},
			"no further rise",
		},
		"the bound holds through all phases": {
			rules{most: 10, patience: 9, perEpoch: 3, hard: true},
			rises(1000),
			[]string{"random 0-7 epoch 0 from 0", "hard 7-8 epoch 3 from 7", "hard 8-9 epoch 4 from 8", "settling 9-10 epoch 5 from 9 decay 1"},
			"most steps",
		},
	} {
		got, end := play(c.rules, c.auc)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q, want\n%q", name, got, c.want)
		}
		if end.stopped() != c.stopped {
			t.Errorf("%s: stopped by %q, want %q", name, end.stopped(), c.stopped)
		}
		steps := int64(0)
		for _, p := range end.Phases {
			steps += p.Steps
		}
		if steps != end.To || steps > c.rules.most {
			t.Errorf("%s: phases of %d steps, the course ends at %d of %d", name, steps, end.To, c.rules.most)
		}
	}
}

// A rise of just the least that counts is one, and anything below is none.
func TestLeastRise(t *testing.T) {
	r := rules{most: 100_000, patience: 1, perEpoch: 10}
	for _, by := range []float64{leastRise, leastRise * 0.99} {
		_, c := play(r, func(_ string, step int64) float64 {
			if step > 250 {
				return 0.75 + by
			}
			return 0.75
		})
		want := int64(500)
		if by == leastRise {
			want = 750
		}
		if c.Phases[0].Steps != want {
			t.Errorf("a rise by %v: the first phase has %d steps, want %d", by, c.Phases[0].Steps, want)
		}
	}
}
