//go:build cgo

package main

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/forkserver"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// apartAs names the test that a process was started for.
const apartAs = "PAIRSTREAM_TEST_APART"

// testArgs are the arguments of such a process, each on a line.
const testArgs = "PAIRSTREAM_TEST_ARGS"

// apartPerCore bounds the tests that run at once. Half of a scenario's time goes into waiting.
const apartPerCore = 3

// runTests runs the tests, those that are apart at once unless -parallel says otherwise.
func runTests(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(apartPerCore*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	return m.Run()
}

// besideOthers lets a test run beside others whose subtests are apart.
func besideOthers(t *testing.T) {
	t.Helper()
	if os.Getenv(apartAs) == "" {
		t.Parallel()
	}
}

// apart runs the calling test in a process of its own, beside other tests, and returns true when that has ended. The
// test then returns. In the new process apart returns false. Scenarios need this because their settings are environment
// variables. To debug one in a single process, set PAIRSTREAM_TEST_APART to its name.
func apart(t *testing.T) bool {
	t.Helper()
	if os.Getenv(apartAs) == t.Name() {
		return false
	}
	t.Parallel()
	seen := filepath.Join(t.TempDir(), "testlog")
	args := []string{"-test.run=" + onlyTest(t.Name()), "-test.v", "-test.testlogfile=" + seen}
	if end, ok := t.Deadline(); ok {
		args = append(args, "-test.timeout="+(time.Until(end)-10*time.Second).String())
	}
	read, write := must.Get2(os.Pipe())(t)
	defer read.Close()
	p, err := forkserver.Start(os.Getenv(forks), append(os.Environ(), apartAs+"="+t.Name(), testArgs+"="+strings.Join(args, "\n")), write, write)
	write.Close()
	must.Do(t, err)
	var out bytes.Buffer
	_, err = out.ReadFrom(read)
	err = errors.Join(p.Wait(), err)
	repeatInputs(t, seen)
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, &out)
	case strings.Contains(out.String(), "--- SKIP: "+t.Name()+" "):
		t.Skip(out.String())
	case !strings.Contains(out.String(), "--- PASS: "+t.Name()+" "):
		t.Errorf("the process has not run the test\n%s", &out)
	default:
		t.Log(out.String())
	}
	return true
}

// onlyTest returns the pattern of one test, and of those subtests of it that -run asks for.
func onlyTest(name string) string {
	parts := strings.Split(name, "/")
	asked := strings.Split(flag.Lookup("test.run").Value.String(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	if len(asked) > len(parts) {
		parts = append(parts, asked[len(parts):]...)
	}
	return strings.Join(parts, "/")
}

// repeatInputs asks for the variables and files that another process of the tests has asked for. The cache of `go test`
// then knows them.
func repeatInputs(t *testing.T, testlog string) {
	t.Helper()
	lines, err := os.ReadFile(testlog)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for line := range strings.Lines(string(lines)) {
		switch what, name, _ := strings.Cut(strings.TrimSpace(line), " "); what {
		case "getenv":
			_ = os.Getenv(name)
		case "open", "stat":
			_, _ = os.Stat(name)
		}
	}
}

// apartEnds says how TestApart ends in a process of its own.
const apartEnds = "PAIRSTREAM_TEST_APART_ENDS"

// TestApart fails, is skipped, passes and ends without a word in a process of its own. The process that waits for it
// reports the same.
func TestApart(t *testing.T) {
	how := os.Getenv(apartEnds)
	if how != "" && apart(t) {
		return
	}
	switch how {
	case "fail":
		t.Error("as it should")
	case "skip":
		t.Skip("as it should")
	case "silence":
		os.Exit(0)
	case "":
		self := must.Get(os.Executable())(t)
		for how, want := range map[string]string{
			"fail": "\n--- FAIL: TestApart (", "skip": "\n--- SKIP: TestApart (", "pass": "\n--- PASS: TestApart (", "silence": "has not run the test",
		} {
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestApart$", "-test.v")
			cmd.Env = append(os.Environ(), apartEnds+"="+how)
			out, err := cmd.CombinedOutput()
			if passes := how == "pass" || how == "skip"; passes != (err == nil) || !strings.Contains(string(out), want) {
				t.Errorf("%s: %v\n%s", how, err, out)
			}
		}
	}
}
