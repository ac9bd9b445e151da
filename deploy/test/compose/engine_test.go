//go:build compose

package compose

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Where no engine can be started, the preparation says so and why. It leaves nothing behind that runs.
func TestEngineThatDoesNotStart(t *testing.T) {
	const reason = "failed to start daemon: Devices cgroup isn't mounted"
	bin, data := t.TempDir(), t.TempDir()
	for program, text := range map[string]string{
		"docker":  "exit 1",
		"dockerd": `echo "` + reason + `" >&2; exit 1`,
	} {
		if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "../prepare-images.sh")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PAIRSTREAM_DOCKER_DATA="+data)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("the preparation claims to be ready")
	}
	want := []string{reason, "the Docker engine does not start"}
	if os.Getuid() != 0 {
		want = []string{"needs root"}
	}
	for _, text := range want {
		if !strings.Contains(string(out), text) {
			t.Errorf("says %q, want %q in it", out, text)
		}
	}
}
