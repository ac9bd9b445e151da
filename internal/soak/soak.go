// Package soak has the two settings of the tests that break things: with SOAK set they run in their long forms, and
// SOAK_SEED gives them another seed than the usual one. It is for tests only.
package soak

import (
	"os"
	"strconv"
	"testing"
)

// Names of the settings.
const (
	Variable     = "SOAK"
	SeedVariable = "SOAK_SEED"
)

// Choose chooses between the short form of a test and the long one.
func Choose[T any](short, long T) T {
	if os.Getenv(Variable) != "" {
		return long
	}
	return short
}

// Seed is the usual one unless another is set; it is logged, so that a failure shows it.
func Seed(t testing.TB, usual uint64) uint64 {
	t.Helper()
	seed := usual
	if text := os.Getenv(SeedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", SeedVariable, err)
		}
	}
	t.Logf("seed %d", seed)
	return seed
}
