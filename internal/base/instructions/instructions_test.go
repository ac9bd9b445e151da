package instructions

import (
	"strings"
	"testing"

	"golang.org/x/sys/cpu"
)

func TestTheVariableLimitsWhatIsUsed(t *testing.T) {
	for _, test := range []struct {
		limit      string
		avx2, wide bool
	}{
		{"", true, true},
		{AVX2, true, false},
		{Portable, false, false},
	} {
		t.Setenv(Variable, test.limit)
		if avx2, wide := atLeast(AVX2), atLeast(""); avx2 != test.avx2 || wide != test.wide {
			t.Errorf("%s=%s: AVX2 %t, wider %t, want %t and %t", Variable, test.limit, avx2, wide, test.avx2, test.wide)
		}
	}
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, Variable) || !strings.Contains(text, "avx3") || !strings.Contains(text, Portable) {
			t.Errorf("a name that there is not: %q", text)
		}
	}()
	t.Setenv(Variable, "avx3")
	atLeast(AVX2)
	t.Error("took a name that there is not")
}

func TestNamesAreThoseOfTheProcessor(t *testing.T) {
	if HasAVX2 != strings.Contains(Names(), "AVX2") || HasVNNI != strings.Contains(Names(), "VNNI") || Names() == "" {
		t.Errorf("uses %q", Names())
	}
	if HasAVX512 && !cpu.X86.HasAVX512F || HasDotProduct && !cpu.ARM64.HasASIMDDP {
		t.Error("uses what the processor has not")
	}
}
