package experiments

import (
	"testing"
	"time"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// Two epochs of two pairs: 10 and 6 ms, of which Con-D took 4 and 1.
func TestSpendingByHand(t *testing.T) {
	const ms = time.Millisecond
	s := spending{all: []time.Duration{10 * ms, 6 * ms}, con: []time.Duration{4 * ms, 1 * ms}}
	got := map[string]map[float64]float64{}
	for _, m := range s.measures("arm", 2) {
		if got[m.Name] == nil {
			got[m.Name] = map[float64]float64{}
		}
		got[m.Name][m.X] = m.Value
	}
	for name, want := range map[string]map[float64]float64{
		"ms": {1: 5, 2: 3, 0: 4}, "con": {1: 2, 2: 0.5, 0: 1.25}, "share": {1: 4.0 / 6, 2: 1.0 / 5, 0: 5.0 / 11},
	} {
		for x, v := range want {
			if d := got[name][x] - v; d > 1e-12 || d < -1e-12 {
				t.Errorf("%s at %g is %g, want %g", name, x, got[name][x], v)
			}
		}
	}
}

// Processor time is counted for the epoch in which it is used, and Con-D's apart.
func TestSpendingIsOfItsEpoch(t *testing.T) {
	work := func() {
		for began := machine.ProcessorTime(); machine.ProcessorTime()-began < 2*time.Millisecond; {
		}
	}
	var s spending
	s.begin()
	for epoch := range int32(3) {
		for range 2 {
			must.Do(t, s.batch(&schemas.Batch{Epoch: epoch}))
			work()
			if epoch == 1 {
				began := s.askedAt(epoch)
				work()
				began()
			}
		}
	}
	s.end()
	if len(s.all) != 3 || len(s.con) != 3 {
		t.Fatalf("%d epochs, %d of Con-D, want 3", len(s.all), len(s.con))
	}
	if s.con[0] != 0 || s.con[1] < 4*time.Millisecond || s.con[2] != 0 || s.all[0] < 4*time.Millisecond || s.all[1] < s.con[1]+4*time.Millisecond {
		t.Errorf("epochs took %v, of these Con-D %v", s.all, s.con)
	}
}

// X10's arms are the recipes that they are named for.
func TestCostsAreOfTheirRecipes(t *testing.T) {
	c := newCosts(false, 1)
	base := (&setup{sizes: c.Sizes}).training(100)
	seen := map[string]trainer.Options{}
	for _, a := range c.Arms {
		o := a.options(base)
		if err := o.Validate(); err != nil {
			t.Errorf("%q: %v", a.Name, err)
		}
		if (a.Strategy == grouper.StrategyGRIT) != (a.Name != "random" && a.Name != "albef") || o.ECM.ITC != (a.Con != conNot) {
			t.Errorf("%q has %s and %+v", a.Name, a.Strategy, o.ECM)
		}
		seen[a.Name] = o
	}
	if o := seen["albef"]; !o.Momentum.Enabled() || o.Momentum.Queue != 128*c.Sizes.Batch || o.ITC.Targets != trainer.Distilled {
		t.Errorf("ALBEF has %+v", o.Momentum)
	}
	if seen["grit"].ITC.Targets != trainer.Consistency || seen["mafa"].ITC.Targets != trainer.Smoothed || seen["random"].ITC.Targets != trainer.OneHot {
		t.Error("targets of ITC are others than the recipes'")
	}
}
