package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEscape(t *testing.T) {
	for path, want := range map[string]string{
		"github.com/spf13/cobra":                    "github.com/spf13/cobra",
		"github.com/VividCortex/ewma":               "github.com/!vivid!cortex/ewma",
		"v0.0.0-20180116102854-5a71ef0e047d+Dirty1": "v0.0.0-20180116102854-5a71ef0e047d+!dirty1",
	} {
		if got := escape(path); got != want {
			t.Errorf("%s becomes %s, want %s", path, got, want)
		}
	}
}

// copyModules copies the cache's files of a module that is built. Of a module that is only in the graph it copies its
// go.mod.
func TestCopyModules(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	write := func(path string) {
		path = filepath.Join(from, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{".info", ".mod", ".zip", ".ziphash", ".lock"} {
		write("example.org/!built/@v/v1.0.0" + kind)
		write("example.org/named/@v/v2.0.0" + kind)
		write("example.org/foreign/@v/v3.0.0" + kind)
	}
	sums := filepath.Join(t.TempDir(), "go.sum")
	text := "example.org/Built v1.0.0 h1:x=\nexample.org/Built v1.0.0/go.mod h1:y=\nexample.org/named v2.0.0/go.mod h1:z=\nexample.org/absent v1.0.0 h1:w=\n"
	if err := os.WriteFile(sums, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copyModules(to, from, sums); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			inside, relErr := filepath.Rel(to, path)
			got, err = append(got, inside), relErr
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"example.org/!built/@v/v1.0.0.info", "example.org/!built/@v/v1.0.0.mod", "example.org/!built/@v/v1.0.0.zip",
		"example.org/!built/@v/v1.0.0.ziphash", "example.org/named/@v/v2.0.0.info", "example.org/named/@v/v2.0.0.mod",
	}
	if !slices.Equal(got, want) {
		t.Errorf("copied %q, want %q", got, want)
	}
}

// Go finds what was copied: it compiles nothing a second time. Both compile with -trimpath, whatever GOFLAGS says here.
func TestCopiedPackagesAreFound(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.org/m\n\ngo 1.26\n", "m.go": "package m\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cache := filepath.Join(t.TempDir(), "cache")
	t.Setenv("GOCACHE", cache)
	t.Setenv("GOFLAGS", "")
	if err := copyCompiled(out, cache, dir, "CGO_ENABLED=0", []string{"."}); err != nil {
		t.Fatal(err)
	}
	build := func(env ...string) string {
		list, err := goOutput(dir, append(env, "CGO_ENABLED=0"), "list", "-trimpath", "-export", "-f", "{{.Export}}", ".")
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	before, err := os.ReadDir(out)
	if err != nil || len(before) == 0 {
		t.Fatalf("%d entries were copied, %v", len(before), err)
	}
	files := count(t, out)
	if got := build("GOCACHE=" + out); got == "" {
		t.Fatal("nothing was built")
	}
	if after := count(t, out); after != files {
		t.Errorf("%d files are in the cache after the build, %d were copied: something was compiled again", after, files)
	}
}

// count returns the number of results in a build cache.
func count(t *testing.T, dir string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "*-d"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// An ordinary build fills the module cache in part. The store made beside it still serves a full download.
func TestStoreAfterAnOrdinaryBuild(t *testing.T) {
	here, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, proxy, _ := strings.Cut(strings.TrimSpace(string(here)), "\n")
	env := func(proxy string) []string {
		return []string{"GOMODCACHE=" + t.TempDir(), "GOPROXY=" + proxy, "GONOSUMDB=*", "GOFLAGS=-modcacherw", "GOWORK=off"}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": moduleText(t), "m.go": "package m\n\nimport _ \"github.com/spf13/pflag\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sums, err := os.ReadFile("../../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600); err != nil {
		t.Fatal(err)
	}
	partly := env("file://" + filepath.Join(cache, "cache", "download") + "," + proxy)
	if _, err := goOutput(dir, partly, "list", "-deps", "."); err != nil {
		t.Fatal(err)
	}
	store := t.TempDir()
	if err := storeModules(store, dir, partly); err != nil {
		t.Fatal(err)
	}
	if _, err := goOutput(dir, env("file://"+store), "mod", "download"); err != nil {
		t.Error(err)
	}
}

// moduleText returns a go.mod that needs cobra, of which only pflag is compiled.
func moduleText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	out := "module example.org/m\n\ngo 1.26\n\nrequire (\n"
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "spf13/") || strings.Contains(line, "inconshreveable/") {
			out += line
		}
	}
	return out + ")\n"
}
