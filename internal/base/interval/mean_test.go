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
	if got, want := Mean([]Share{one, one, one, one}), (Share{0.3, 0.3 - (0.3-one.Low)/2, 0.3 + (one.High-0.3)/2}); !near(got, want) {
		t.Errorf("the mean of four is %v, want %v", got, want)
	}
	rare := make([]Share, 64) // 64 classes of 31 images each
	for i := range rare {
		rare[i] = Of(1, 31)
	}
	if got := Mean(rare); got.Low > got.Value || got.High < got.Value || got.High > 0.06 {
		t.Errorf("the mean of rare answers is %v", got)
	}
	if got := Mean([]Share{Of(0, 10), Of(10, 10)}); got.Value != 0.5 || got.Low > 0.5 || got.High < 0.5 {
		t.Errorf("the mean of none and all is %v", got)
	}
}
