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
