package rng_test

import (
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
)

func TestSameKeySameSequence(t *testing.T) {
	a, b := rng.New(7, "walk", 1, 2), rng.New(7, "walk", 1, 2)
	for i := range 100 {
		if x, y := a.Uint64(), b.Uint64(); x != y {
			t.Fatalf("draw %d: %d and %d from the same key", i, x, y)
		}
	}
}

func TestEveryPartOfTheKeyCounts(t *testing.T) {
	base := rng.New(7, "walk", 1, 2).Uint64()
	for name, other := range map[string]uint64{
		"seed":    rng.New(8, "walk", 1, 2).Uint64(),
		"purpose": rng.New(7, "cuts", 1, 2).Uint64(),
		"key":     rng.New(7, "walk", 1, 3).Uint64(),
		"order":   rng.New(7, "walk", 2, 1).Uint64(),
		"length":  rng.New(7, "walk", 1, 2, 0).Uint64(),
	} {
		if other == base {
			t.Errorf("changing the %s leaves the first draw at %d", name, base)
		}
	}
}
