package experiments

import (
	"testing"

	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/schemas"
)

// Nine seeds in a row meet every pair of a first model and a Con-D once, and the three models differ in their seeds.
func TestVersionsMeetOnce(t *testing.T) {
	c := newPartial(false, 1)
	met := map[[2]uint64]bool{}
	models := map[uint64]bool{c.Regime.Third.Seed: true}
	for seed := uint64(1); seed <= 9; seed++ {
		first, cond := evidence.Versions(seed, c.Regime.Versions)
		met[[2]uint64{first, cond}] = true
		models[c.Regime.First.version(first).Seed], models[c.Regime.Conds[""].version(cond).Seed] = true, true
	}
	if e, err := evidence.Find("x14"); err != nil || e.Versions != c.Regime.Versions {
		t.Errorf("the page has %d versions, the run %d: %v", e.Versions, c.Regime.Versions, err)
	}
	if len(met) != 9 || len(models) != 7 {
		t.Errorf("nine seeds meet %v of %d models, want nine pairs of seven models", met, len(models))
	}
	if first, cond := evidence.Versions(5, 0); first != 0 || cond != 0 {
		t.Errorf("without versions a seed has models %d and %d", first, cond)
	}
}

// The matches of the held-out pairs are those of the generator, and some are of other pictures' captions.
func TestHeldMatchesAreTheTruth(t *testing.T) {
	s := newSetup(t, 2)
	fits, foreign := s.heldMatches(), 0
	ids := map[int]schemas.ImageID{}
	for i := range s.data.held.Pairs() {
		_, image, id := s.data.held.Pair(i)
		ids[image] = id
	}
	for text := range s.data.held.Pairs() {
		caption, own, _ := s.data.held.Pair(text)
		for image, id := range ids {
			want := s.data.matches(id, caption)
			if got := fits(image, text); got != want {
				t.Errorf("image %d, text %d: %v, want %v", image, text, got, want)
			}
			if want && image != own {
				foreign++
			}
		}
	}
	if foreign == 0 {
		t.Error("no caption is true of another picture: the test says nothing")
	}
}
