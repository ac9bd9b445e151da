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

// What earlier runs left without a name is removed from the engine that the preparation started. What has a name
// stays, and is not made again.
func TestPreparationRemovesLeftovers(t *testing.T) {
	data := os.Getenv("PAIRSTREAM_DOCKER_DATA")
	if data == "" {
		data = "/var/tmp/pairstream-docker"
	}
	if _, err := os.Stat(filepath.Join(data, "dockerd.pid")); err != nil {
		t.Skip("the Docker engine is not of the preparation's own, so its leftovers are left alone")
	}
	const name = "pairstream-leftover:test"
	t.Cleanup(func() { docker(t, "image", "rm", name) })
	imported := func(content string) string {
		file := filepath.Join(t.TempDir(), "content")
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		archive := file + ".tar"
		if out, err := exec.Command("tar", "-C", filepath.Dir(file), "-cf", archive, "content").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return docker(t, "import", archive, name)
	}
	nameless, named := imported("first"), imported("second")
	container := docker(t, "create", "debian:bookworm-slim", "true")
	out, err := exec.Command("../prepare-images.sh").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if strings.Contains(string(out), "making") {
		t.Errorf("an image that is there is made again: %s", out)
	}
	for what, kept := range map[string]bool{nameless: false, named: true, container: false} {
		if err := exec.Command("docker", "inspect", what).Run(); (err == nil) != kept {
			t.Errorf("%s: want it kept %v; looking at it: %v", what, kept, err)
		}
	}
	if _, err := os.Stat(filepath.Join(data, "scratch")); !os.IsNotExist(err) {
		t.Errorf("temporary files stay: %v", err)
	}
}

// A disk that is too small is named before anything is made, with what to do.
func TestPreparationOnSmallDisk(t *testing.T) {
	bin, data := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "df"), []byte("#!/bin/sh\necho Avail\necho ' 1G'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("../prepare-images.sh")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PAIRSTREAM_DOCKER_DATA="+data)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("the preparation claims to be ready")
	}
	for _, text := range []string{"4 GB", data + " has 1 GB free", "PAIRSTREAM_DOCKER_DATA"} {
		if !strings.Contains(string(out), text) {
			t.Errorf("says %q, want %q in it", out, text)
		}
	}
}

// Layers that earlier builds keep are removed where the disk is too small for what comes next, and named as the reason.
func TestPreparationMakesRoom(t *testing.T) {
	bin, data := t.TempDir(), t.TempDir()
	pruned := filepath.Join(bin, "pruned")
	for program, text := range map[string]string{
		"df":     `echo Avail; if [ -e ` + pruned + ` ]; then echo " 9G"; else echo " 3G"; fi`,
		"docker": `case "$*" in "builder prune -af") touch ` + pruned + ` ;; esac`,
	} {
		if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{"dockerd.pid": "1\n", ".pairstream": "prepare-images.sh\n"} {
		if err := os.WriteFile(filepath.Join(data, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("../prepare-images.sh")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PAIRSTREAM_DOCKER_DATA="+data)
	out, err := cmd.CombinedOutput()
	if _, missing := os.Stat(pruned); missing != nil {
		t.Errorf("the layers of builds stay: %s", out)
	}
	if !strings.Contains(string(out), "3 GB free") {
		t.Errorf("says %q, want how little is free", out)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
