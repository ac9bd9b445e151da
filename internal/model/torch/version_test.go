package torch

import (
	"strings"
	"testing"
)

func TestVersionIn(t *testing.T) {
	for name, test := range map[string]struct{ built, want string }{
		"in the middle": {"Build settings: PERF_WITH_AVX=1, TORCH_VERSION=2.11.0, USE_CUDA=ON, ", "2.11.0"},
		"at the end":    {"Build settings: TORCH_VERSION=2.12.0+cu130", "2.12.0+cu130"},
		"nowhere":       {"Build settings: BLAS_INFO=mkl", "unknown"},
		"nothing":       {"", "unknown"},
	} {
		if got := versionIn(test.built); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Tests run on the libtorch whose headers they were built with, in all but the last number.
func TestRunning(t *testing.T) {
	got, want := strings.Split(Running(), "."), strings.Split(Version(), ".")
	if len(got) < 3 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("runs on %q, built for %q", Running(), Version())
	}
}
