package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestFilesOfTestsFindAFolder runs .ci/tmpdir beside a df that says how much of /dev/shm is free. Without 8 GB the
// folder is that of TMPDIR. With them it is there, and each call prints the same one.
func TestFilesOfTestsFindAFolder(t *testing.T) {
	bin, usual := t.TempDir(), t.TempDir()
	ask := func(free int) string {
		must.Do(t, os.WriteFile(filepath.Join(bin, "df"), []byte("#!/bin/sh\necho header; echo tmpfs 1 1 "+strconv.Itoa(free)+"\n"), 0o755))
		cmd := exec.CommandContext(t.Context(), "../../.ci/tmpdir")
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+usual)
		return strings.TrimSpace(string(must.Get(cmd.Output())(t)))
	}
	if got := ask(8<<20 - 1); got != usual {
		t.Errorf("with less than 8 GB free it prints %q, want %q", got, usual)
	}
	got := ask(8 << 20)
	if info, err := os.Stat(got); err != nil || !info.IsDir() || ask(8<<20) != got {
		t.Errorf("it prints %q, %v: want one folder", got, err)
	}
}
