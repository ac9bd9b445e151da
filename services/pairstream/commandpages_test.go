//go:build cgo

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestPagesOfCommandsAreWhatTheHelpSays(t *testing.T) {
	root := newRoot()
	for _, g := range groups {
		path := filepath.Join("../../docs/commands", g.id+".md")
		text := string(must.Get(os.ReadFile(path))(t))
		_, rest, begun := strings.Cut(text, commandsBegin)
		found, _, ended := strings.Cut(rest, commandsEnd)
		if !begun || !ended {
			t.Fatalf("%s has no commands between %q and %q", path, strings.TrimSpace(commandsBegin), commandsEnd)
		}
		if found != g.page(root) {
			t.Errorf("%s is not what the help of its commands says: run `make docs`", path)
		}
		for _, e := range g.entries {
			if !strings.Contains(found, "\n## `"+e.name+"`\n") {
				t.Errorf("%s has no heading for %s", path, e.name)
			}
		}
	}
}

func TestPageOfACommand(t *testing.T) {
	cmd := &cobra.Command{Use: "look DIR", Short: "look <around>", Run: func(*cobra.Command, []string) {}, Example: "  pairstream look here"}
	cmd.Flags().Int("times", 3, "how `often`; a|b*")
	cmd.Flags().Bool("quiet", false, "say nothing")
	cmd.Flags().String("secret", "", "for tests")
	must.Do(t, cmd.Flags().MarkHidden("secret"))
	cmd.AddCommand(&cobra.Command{Use: "twice", Long: "Looks `<twice>`.\n\n  look <here>", Run: func(*cobra.Command, []string) {}})
	root := &cobra.Command{Use: "pairstream"}
	root.AddCommand(cmd)
	var b strings.Builder
	writeCommand(&b, cmd, "##")
	const want = "\n## `look`\n\n    pairstream look DIR [flags]\n\nLook &lt;around>.\n\nExample:\n\n    pairstream look here\n" +
		"\n| flag | default | meaning |\n|---|---|---|\n| `--quiet` |  | say nothing |\n| `--times often` | `3` | how often; a\\|b\\* |\n" +
		"\n### `look twice`\n\n    pairstream look twice\n\nLooks `<twice>`.\n\n    look <here>\n"
	if b.String() != want {
		t.Errorf("the page is\n%s\nwant\n%s", b.String(), want)
	}
}

func TestPagesOfCommandsWantTheirMarks(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "run.md"), []byte("a page of the user's"), 0o644))
	err := writeCommandPages(dir)
	if err == nil || !strings.Contains(err.Error(), "run.md: no") || !strings.Contains(err.Error(), "watch.md") {
		t.Errorf("error %v, want one for each page", err)
	}
	if raw := must.Get(os.ReadFile(filepath.Join(dir, "run.md")))(t); string(raw) != "a page of the user's" {
		t.Errorf("the file is now %q", raw)
	}
}
