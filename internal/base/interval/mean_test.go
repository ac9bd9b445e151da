package interval

import (
	"math"
	"testing"
)

// TestMean wants the interval of one share to stay, and that of n equal ones to be narrower by the root of n.
func TestMean(t *testing.T) {
	near := func(a, b Share) bool {
		return math.Abs(a.Value-b.Value) < 1e-12 && math.Abs(a.Low-b.Low) < 1e-12 && math.Abs(a.High-b.High) < 1e-12
	}
	one := Of(3, 10)
	if got := Mean([]Share{one}); !near(got, one) {
		t.Errorf("the mean of one is %v, want %v", got, one)
	}
	middle, half := (one.Low+one.High)/2, (one.High-one.Low)/2
	if got, want := Mean([]Share{one, one, one, one}), (Share{0.3, middle - half/2, middle + half/2}); !near(got, want) {
		t.Errorf("the mean of four is %v, want %v", got, want)
	}
	if got := Mean([]Share{Of(0, 10), Of(10, 10)}); got.Value != 0.5 || got.Low > 0.5 || got.High < 0.5 {
		t.Errorf("the mean of none and all is %v", got)
	}
}
