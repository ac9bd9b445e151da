package interval

import (
	"math"
	"testing"
)

// The expected values are those of statsmodels' proportion_confint with method wilson, to four digits.
func TestWilson(t *testing.T) {
	for _, c := range []struct {
		part, whole int
		low, high   float64
	}{{0, 0, 0, 1}, {0, 10, 0, 0.2775}, {10, 10, 0.7225, 1}, {19, 20, 0.7639, 0.9911}, {5, 10, 0.2366, 0.7634}} {
		low, high := Wilson(c.part, c.whole)
		if math.Abs(low-c.low) > 1e-4 || math.Abs(high-c.high) > 1e-4 {
			t.Errorf("%d of %d: %.4f to %.4f, want %.4f to %.4f", c.part, c.whole, low, high, c.low, c.high)
		}
	}
}

// TestWilsonEndsWhereSharesEnd counts none and all: the interval then reaches 0 and 1, whatever the rounding.
func TestWilsonEndsWhereSharesEnd(t *testing.T) {
	for n := 1; n < 3000; n++ {
		if low, _ := Wilson(0, n); low != 0 {
			t.Errorf("0 of %d: from %g", n, low)
		}
		if _, high := Wilson(n, n); high != 1 {
			t.Errorf("%d of %d: to %g", n, n, high)
		}
	}
}
