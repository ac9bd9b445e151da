package machine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestField(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cpuinfo")
	must.Do(t, os.WriteFile(path, []byte("processor\t: 0\nmodel name\t: A: B\n\nprocessor\t: 1\nmodel name\t: C\n"), 0o600))
	for name, want := range map[string]string{"processor": "0", "model name": "A: B", "flags": ""} {
		if got := machine.Field(path, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := machine.Field(filepath.Join(t.TempDir(), "none"), "processor"); got != "" {
		t.Errorf("a file that is not there says %q", got)
	}
}

func TestProcessorTimeGrows(t *testing.T) {
	for began := machine.ProcessorTime(); machine.ProcessorTime() == began; { // a loop takes processor time
	}
	if machine.Processor() == "" {
		t.Error("the processor has no name")
	}
}
