package soak

import "testing"

func TestChooseAndSeed(t *testing.T) {
	for name, tt := range map[string]struct {
		long, seed string
		chosen     int
		want       uint64
	}{
		"short":             {"", "", 1, 7},
		"long":              {"1", "", 2, 7},
		"another seed":      {"", "12", 1, 12},
		"long, of seed 0":   {"1", "0", 2, 0},
		"the largest there": {"", "18446744073709551615", 1, 1<<64 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(Variable, tt.long)
			t.Setenv(SeedVariable, tt.seed)
			if got := Choose(1, 2); got != tt.chosen {
				t.Errorf("Choose(1, 2) = %d, want %d", got, tt.chosen)
			}
			if got := Seed(t, 7); got != tt.want {
				t.Errorf("Seed = %d, want %d", got, tt.want)
			}
		})
	}
}
