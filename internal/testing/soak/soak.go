// Package soak has the two settings of the tests that break things. With SOAK set they run in their long forms.
// SOAK_SEED gives them another seed than the usual one. The package is for tests only.
package soak

import (
	"os"
	"strconv"
	"testing"
)

// These are the names of the settings.
const (
	Variable     = "SOAK"
	SeedVariable = "SOAK_SEED"
)

// Choose returns the value for the short form of a test, or the value for the long one.
func Choose[T any](short, long T) T {
	if os.Getenv(Variable) != "" {
		return long
	}
	return short
}

// Seed returns the usual seed unless another is set. It logs the seed, so that a failure shows it.
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
