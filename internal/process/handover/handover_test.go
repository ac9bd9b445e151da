package handover

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// asked is the variable that makes the test's program hand over to the program that it names.
const asked = "HANDOVER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if path := os.Getenv(asked); path != "" {
		err := Exec(context.Background(), "demo", path, append([]string{"pairstream"}, os.Args[1:]...), os.Environ())
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// handOver runs a process that hands over to path.
func handOver(t *testing.T, path, input string, args ...string) (out string, cmd *exec.Cmd, err error) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), must.Get(os.Executable())(t), args...)
	cmd.Env = append(os.Environ(), asked+"="+path)
	cmd.Stdin = strings.NewReader(input)
	raw, err := cmd.CombinedOutput()
	return string(raw), cmd, err
}

func TestTheProgramTakesTheProcessOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), Program)
	script := "#!/bin/sh\necho \"pid $$\"\nfor arg; do echo \"arg $arg\"; done\ncat\nexit 7\n"
	must.Do(t, os.WriteFile(path, []byte(script), 0o755))
	out, cmd, err := handOver(t, path, "what it reads\n", "demo", "--data", "a b", "--help")
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("exit %v, want the program's 7", err)
	}
	want := fmt.Sprintf("pid %d\narg demo\narg --data\narg a b\narg --help\nwhat it reads\n", cmd.Process.Pid)
	if out != want {
		t.Errorf("it says\n%s\nwant\n%s", out, want)
	}
}

func TestAMissingProgramHasARemedy(t *testing.T) {
	path := filepath.Join(t.TempDir(), Program)
	folder := filepath.Join(t.TempDir(), Program)
	must.Do(t, os.Mkdir(folder, 0o755))
	denied := filepath.Join(t.TempDir(), Program)
	must.Do(t, os.WriteFile(denied, []byte("#!/bin/sh\n"), 0o644))
	for name, c := range map[string]struct {
		path    string
		environ []string
		want    []string
	}{
		"no program":     {path, nil, []string{"demo computes with tensors", path + " is not there", "pip install pairstream_tensors-*.whl", "make build"}},
		"a launcher":     {path, []string{Reason + "=PyTorch is missing: pip install torch"}, []string{"demo computes with tensors: PyTorch is missing: pip install torch"}},
		"no such reason": {path, []string{Reason + "="}, []string{"is not there"}},
		"a folder":       {folder, nil, []string{"demo computes with tensors: starting " + folder, "permission denied"}},
		"not executable": {denied, nil, []string{"starting " + denied, "permission denied"}},
	} {
		err := Exec(t.Context(), "demo", c.path, []string{"pairstream", "demo"}, c.environ)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one with %q", name, err, want)
			}
		}
	}
}

// A program whose library is missing is not started: the loader's own message names no remedy.
func TestAMissingLibraryHasARemedy(t *testing.T) {
	raw := must.Get(os.ReadFile("/bin/sh"))(t)
	if !bytes.Contains(raw, []byte("\x00libc.so.6\x00")) {
		t.Fatal("/bin/sh names no libc.so.6: take another program for this test")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, Program)
	must.Do(t, os.WriteFile(path, bytes.ReplaceAll(raw, []byte("\x00libc.so.6\x00"), []byte("\x00libq.so.6\x00")), 0o755))
	out, _, err := handOver(t, path, "", "-c", "echo started")
	if err == nil || !strings.Contains(out, "does not find libq.so.6") || !strings.Contains(out, "pip install pairstream_tensors-*.whl") {
		t.Errorf("%v, and it says %q", err, out)
	}

	// The same library beside the program, where LD_LIBRARY_PATH finds it.
	libc := ""
	for _, folder := range []string{"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib"} {
		if _, err := os.Stat(filepath.Join(folder, "libc.so.6")); err == nil {
			libc = filepath.Join(folder, "libc.so.6")
			break
		}
	}
	must.Do(t, os.Symlink(libc, filepath.Join(dir, "libq.so.6")))
	t.Setenv("LD_LIBRARY_PATH", dir)
	if out, _, err := handOver(t, path, "", "-c", "echo started"); err != nil || out != "started\n" {
		t.Errorf("%v, and it says %q", err, out)
	}
}

func TestTheProgramLiesBesideThisOne(t *testing.T) {
	self := must.Get(filepath.EvalSymlinks(must.Get(os.Executable())(t)))(t)
	for _, environ := range [][]string{nil, {Place + "="}} {
		if path, err := Find(environ); err != nil || path != filepath.Join(filepath.Dir(self), Program) {
			t.Errorf("with %q: %s, %v, want it beside %s", environ, path, err, self)
		}
	}
}

func TestALauncherNamesTheProgram(t *testing.T) {
	if path, err := Find([]string{"HOME=/root", Place + "=/site/pairstream_tensors/" + Program}); err != nil || path != "/site/pairstream_tensors/"+Program {
		t.Errorf("%s, %v, want the program that the launcher names", path, err)
	}
}
