package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestSkipsAreExpectedByName runs .ci/gotest on the events of tests that were skipped, and of a run that failed.
func TestSkipsAreExpectedByName(t *testing.T) {
	const skips = "# comment\n\ninternal/crawl/shard.TestFlickr  PHOTOS  no photographs here\ntorch.TestCUDA - no GPU\n"
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o755))
		return path
	}
	write("skips", skips)
	// It stands for gotestsum, whose argument after --jsonfile-timing-events is the file of events.
	stub := write("stub", `#!/bin/sh
while [ "$1" != --jsonfile-timing-events ]; do shift; done
[ "$4" = ./package ] || exit 2
printf '%s' "$EVENTS" >"$2"
exit "$CODE"
`)
	for _, c := range []struct {
		test, photos, code string
		want               string // what is said; empty: the run passes
	}{
		{"m/internal/crawl/shard.TestFlickr", "", "0", ""},
		{"m/internal/crawl/shard.TestFlickr", "/photos", "0", "UNEXPECTED skip: m/internal/crawl/shard.TestFlickr"},
		{"m/internal/crawl/shard.TestFlickrs", "", "0", "UNEXPECTED"},
		{"m/other/shard.TestFlickr", "", "0", "UNEXPECTED"},
		{"m/internal/model/torch.TestCUDA/half.precision/x", "/photos", "0", ""},
		{"m/internal/flashtorch.TestCUDA", "", "0", "UNEXPECTED"},
		{"m/internal/model/torch.TestCUDA", "", "1", "exit status 1"},
	} {
		skipped := filepath.Join(dir, strings.ReplaceAll(c.test+c.photos+c.code, "/", "-"))
		at := strings.LastIndex(c.test, ".Test")
		cmd := exec.CommandContext(t.Context(), "../../.ci/gotest", "./package")
		cmd.Env = append(os.Environ(), "GOTESTSUM="+stub, "PAIRSTREAM_SKIPS="+filepath.Join(dir, "skips"), "PAIRSTREAM_SKIPPED="+skipped,
			"PHOTOS="+c.photos, "CODE="+c.code, `EVENTS={"Time":"2026-01-01T00:00:00Z","Action":"pass","Package":"m/a","Test":"TestGood","Elapsed":0}
{"Time":"2026-01-01T00:00:00Z","Action":"skip","Package":"`+c.test[:at]+`","Test":"`+c.test[at+1:]+`","Elapsed":0}
{"Time":"2026-01-01T00:00:00Z","Action":"skip","Package":"m/empty","Elapsed":0}
`)
		out, err := cmd.CombinedOutput()
		if err != nil {
			out = append(out, err.Error()...)
		}
		if (c.want == "") != (err == nil) || !strings.Contains(string(out), c.want) {
			t.Errorf("%s, photographs %q, exit code %s: %s, want %q", c.test, c.photos, c.code, out, c.want)
		}
		top, _, _ := strings.Cut(c.test[at:], "/")
		if text, err := os.ReadFile(skipped); err != nil || string(text) != c.test[:at]+top+"\n" {
			t.Errorf("%s is recorded as %q (%v)", c.test, text, err)
		}
	}
}
