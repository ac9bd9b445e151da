package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/operate/replay"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/runlog"
)

// TestCompareCommand compares two descriptions of one run by other thresholds, in print and as a page.
func TestCompareCommand(t *testing.T) {
	log := testLog(t)
	must.Get(runlog.Write(t.Context(), log, runlog.Options{Pairs: 40, Batch: 8, Epochs: 2, NoImages: true}))(t)
	dir := t.TempDir()
	for name, high := range map[string]string{"strict.json": "1", "mafa.json": "0.8"} {
		m := must.Get(replay.Describe(t.Context(), log, replay.DescribeOptions{Open: true, Settings: map[string]string{"SEED": "7", "ECM_HIGH": high}}))(t)
		must.Do(t, atomicfile.Write(filepath.Join(dir, name), 0o600, m.Write))
	}
	paths := []string{filepath.Join(dir, "strict.json"), filepath.Join(dir, "mafa.json")}
	out := strings.Join(strings.Fields(mustCommand(t, "compare", paths[0], paths[1])), " ")
	for _, want := range []string{"SETTINGS THAT DIFFER strict mafa ECM_HIGH 1 0.8", "connections 0 (0.0 %)", "TR@1, % 35.0 35.0", "40, equal"} {
		if !strings.Contains(out, want) {
			t.Errorf("compare prints\n%s\nwant %q in it", out, want)
		}
	}
	page := filepath.Join(dir, "page.html")
	if out, want := mustCommand(t, "compare", "--html", page, paths[0], paths[1]), "comparison: file://"+filepath.ToSlash(page)+"\n"; out != want {
		t.Errorf("prints %q, want %q", out, want)
	}
	if html, err := os.ReadFile(page); err != nil || strings.Count(string(html), "<figure>") < 5 {
		t.Errorf("the page has no curves (%v):\n%s", err, html)
	}
	for args, want := range map[string]string{
		"compare " + paths[0]:                                     "got 1 arguments, want: pairstream compare MANIFEST MANIFEST...",
		"compare " + paths[0] + " " + dir + "/gone":               "reading the manifest: open ",
		"compare --html /dev/null/x " + paths[0] + " " + paths[1]: "--html: ",
	} {
		if _, err := command(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", args, err, want)
		}
	}
}
