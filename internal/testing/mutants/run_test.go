//go:build mutants

package mutants

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
)

var only = flag.String("only", "", "run the mutants whose names match this regular expression")

// limit ends a mutant that makes its tests hang. They take a few seconds without it.
const limit = "3m"

// TestMutants applies each patch to a copy of the files that it changes, runs the tests that it names on them, and
// wants a failure. Without a patch, the same tests pass. It prints which test has failed.
func TestMutants(t *testing.T) {
	all := must.Get(Read("patches"))(t)
	wanted := must.Get(regexp.Compile(*only))(t)
	mutants := slices.DeleteFunc(all, func(m Mutant) bool { return !wanted.MatchString(m.Name) })
	if len(mutants) == 0 {
		t.Fatalf("no mutant is named %q", *only)
	}
	begun, killed := time.Now(), 0
	tests := make(map[string][]string)
	for _, m := range mutants {
		tests[m.Package] = append(tests[m.Package], m.Tests)
	}
	for pkg, names := range tests {
		if output, err := goTest(t, pkg, strings.Join(names, "|")); err != nil {
			t.Fatalf("tests of %s fail without a patch: %v\n%s", pkg, err, output)
		}
	}
	fmt.Printf("without a patch, the tests pass: %.0f s\n", time.Since(begun).Seconds())
	for _, m := range mutants {
		began := time.Now()
		verdict, output := try(t, m)
		fmt.Printf("%-9s %4.0f s  %-36s %s\n", verdict, time.Since(began).Seconds(), m.Name, cmp.Or(killer(output), m.What))
		if verdict == killedVerdict || verdict == hungVerdict {
			killed++
			continue
		}
		t.Errorf("%s: %s: want tests of %s that fail (%s)\n%s", m.Name, verdict, m.Package, m.Tests, output)
	}
	fmt.Printf("%d of %d mutants killed in %.0f s\n", killed, len(mutants), time.Since(begun).Seconds())
}

const (
	killedVerdict = "killed"
	hungVerdict   = "hung"
)

var (
	failed  = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	hanging = regexp.MustCompile(`(?m)^panic: test timed out after .*\n(?:\s+running tests:\n\s+(\S+))?`)
	crashed = regexp.MustCompile(`(?m)^(?:panic|fatal error|SIG\w+): .*`)
)

// killer returns the test that has noticed a mutant: the last that is named as failed is the innermost.
func killer(output string) string {
	if found := hanging.FindStringSubmatch(output); found != nil {
		return found[1]
	}
	if found := failed.FindAllStringSubmatch(output, -1); found != nil {
		return found[len(found)-1][1]
	}
	return crashed.FindString(output)
}

// try says what became of a mutant, and what its tests have printed.
func try(t *testing.T, m Mutant) (verdict, output string) {
	t.Helper()
	output, err := goTest(t, m.Package, m.Tests, "-overlay="+overlay(t, m))
	switch {
	case err == nil:
		return "SURVIVED", output
	case strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]"):
		return "no build", output
	case hanging.MatchString(output):
		return hungVerdict, output
	}
	return killedVerdict, output
}

// overlay writes what the mutant changes into a folder, and a list of it for the go command.
func overlay(t *testing.T, m Mutant) string {
	t.Helper()
	files := must.Get(m.Apply(root))(t)
	dir := t.TempDir()
	list := struct{ Replace map[string]string }{make(map[string]string)}
	for path, text := range files {
		whole := must.Get(filepath.Abs(filepath.Join(root, path)))(t)
		changed := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		must.Do(t, os.WriteFile(changed, []byte(text), 0o600))
		list.Replace[whole] = changed
	}
	raw := must.Get(json.Marshal(list))(t)
	path := filepath.Join(dir, "overlay.json")
	must.Do(t, os.WriteFile(path, raw, 0o600))
	return path
}

// goTest runs tests of a package. What has passed and is unchanged since comes from the cache.
func goTest(t *testing.T, pkg, tests string, flags ...string) (string, error) {
	t.Helper()
	args := append([]string{"test", "-vet=off", "-failfast", "-ldflags=-s -w", "-timeout=" + limit, "-run=^(" + tests + ")$"}, flags...)
	dir := root
	if rest, ok := strings.CutPrefix(pkg, "./lab/"); ok { // a module of its own
		dir, pkg = filepath.Join(root, "lab"), "./"+rest
	}
	c := exec.CommandContext(t.Context(), "go", append(args, pkg)...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err == nil && strings.Contains(string(out), "no tests to run") {
		err = errors.New("there are no such tests")
	}
	return string(out), err
}
