package trainer

import (
	"math"
	"testing"
)

func TestCosineSteps(t *testing.T) {
	s := Schedule{Kind: CosineSteps, Rate: 1, Min: 0.1, WarmupRate: 0.2, WarmupSteps: 4, TotalSteps: 14}
	for step, want := range map[int64]float64{0: 0.2, 1: 0.4, 3: 0.8, 4: 1, 9: 0.55, 14: 0.1, 1000: 0.1} {
		if got := s.At(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("rate at step %d is %g, want %g", step, got, want)
		}
	}
	s.WarmupSteps, s.TotalSteps = 0, 10
	if got := s.At(0); got != 1 {
		t.Errorf("rate of the first step without warm-up is %g, want 1", got)
	}
}

func TestStreamSteps(t *testing.T) {
	s := Schedule{Kind: StreamSteps, Rate: 1, Min: 0.1, WarmupRate: 0.2, WarmupSteps: 4}
	for _, c := range []struct {
		step  int64
		decay Decay
		want  float64
	}{
		{0, Decay{}, 0.2},
		{3, Decay{}, 0.8},
		{4, Decay{}, 1},
		{1 << 40, Decay{}, 1},
		{9, Decay{Batch: 5, Of: 10}, 0.55},
		{9, Decay{Batch: 10, Of: 10}, 0.1},
		{1, Decay{Batch: 1, Of: 10}, 0.4}, // the warm-up goes on
	} {
		if got := s.During(c.step, c.decay); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("rate at step %d of decay %v is %g, want %g", c.step, c.decay, got, c.want)
		}
	}
	s.Kind, s.TotalSteps = CosineSteps, 14
	if got := s.During(9, Decay{Batch: 10, Of: 10}); math.Abs(got-0.55) > 1e-12 {
		t.Errorf("a cosine over steps is %g with a decay, want 0.55: it has its own end", got)
	}
}

func TestReferenceEpochsCutsTheWarmUpShort(t *testing.T) {
	s := Schedule{Kind: ReferenceEpochs, Rate: 1, Min: 0, WarmupRate: 0, WarmupSteps: 20, Epochs: 2, EpochSteps: 250, WarmupStride: 100}
	for step, want := range map[int64]float64{0: 0, 100: 0, 101: 0.05, 200: 0.05, 201: 0.1, 249: 0.1, 250: 0.5, 499: 0.5, 500: 0, 5000: 0} {
		if got := s.At(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("rate at step %d is %g, want %g", step, got, want)
		}
	}
}
