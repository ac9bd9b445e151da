package lint

import (
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// Only package ownedfolder removes folders with what is in them: it knows which are ours.
func TestFoldersAreRemovedByTheirOwner(t *testing.T) {
	const home = "internal/base/ownedfolder"
	removed := 0
	r := load(t)
	for dir, p := range r.pkgs {
		if below(dir, "lab") || below(dir, "internal/testing") || below(dir, "deploy") {
			continue // they remove temporary folders that they have made
		}
		if dir == "internal/log/broker" {
			continue // topics in the folder of a log, which the broker has locked
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, problem := range removals(f) {
				if dir == home {
					removed++
					continue
				}
				t.Error(problem)
			}
		}
	}
	if removed == 0 {
		t.Errorf("%s removes no folder: the rule sees nothing", home)
	}
}

// removals lists the calls of os.RemoveAll.
func removals(f source) (out []string) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && isSelector(call.Fun, "os", "RemoveAll") {
			out = append(out, f.at(n)+": os.RemoveAll may remove what is not ours: ask ownedfolder.Folder")
		}
		return true
	})
	return out
}

func TestRemovalRuleSeesWhatItForbids(t *testing.T) {
	f := must.Get(parse("x.go", []byte("package x\n\nfunc f() { _ = os.RemoveAll(dir) }\n")))(t)
	if got := removals(f); len(got) != 1 || !strings.HasPrefix(got[0], "x.go:3:16: os.RemoveAll") {
		t.Errorf("found %q", got)
	}
}

// Scripts empty no folder that their caller names, unless it is theirs.
func TestScriptsEmptyTheirOwnFolders(t *testing.T) {
	root := must.Get(filepath.Abs("../.."))(t)
	own := func(folder, kind string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `. deploy/own.sh && own "$1" "$2"`, "sh", folder, kind)
		cmd.Dir = root
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string) {
		must.Do(t, os.MkdirAll(filepath.Dir(in(name)), 0o755))
		must.Do(t, os.WriteFile(in(name), []byte(name), 0o644))
	}
	write("thesis/a.tex")
	write("file")
	must.Do(t, os.Symlink(in("thesis"), in("link")))
	must.Do(t, os.Symlink(in("gone"), in("dangling")))
	for _, name := range []string{"thesis", "thesis/", "link", "file", "dangling"} {
		if said, err := own(in(name), "make release"); err == nil || !strings.Contains(said, "make release: the folder "+in(name)) {
			t.Errorf("%s: %v, %q", name, err, said)
		}
	}
	if text, err := os.ReadFile(in("thesis/a.tex")); string(text) != "thesis/a.tex" {
		t.Errorf("a.tex is %q (%v)", text, err)
	}
	for _, name := range []string{"new folder/dist", "new folder/dist"} { // the second time it is there
		if said, err := own(in(name), "make release"); err != nil {
			t.Fatalf("%s: %v, %s", name, err, said)
		}
		if left := must.Get(os.ReadDir(in(name)))(t); len(left) != 1 || left[0].Name() != ".pairstream" {
			t.Errorf("%s holds %v", name, left)
		}
		write(name + "/sub/.hidden")
	}
	if said, err := own(in("new folder/dist"), "make pack-gpu"); err == nil {
		t.Errorf("another script empties the folder: %s", said)
	}
	// A script that removes what its caller names has asked before.
	scripts := must.Get(filepath.Glob(filepath.Join(root, "deploy/*/*.sh")))(t)
	asking := 0
	for _, path := range scripts {
		text := string(must.Get(os.ReadFile(path))(t))
		if strings.Contains(text, "own.sh") {
			asking++
		}
		for line := range strings.Lines(text) {
			if slices.ContainsFunc([]string{`rm -rf "$out"`, `rm -rf "$work" &&`, `rm -rf "$1"`, `rm -rf "$2"`}, func(s string) bool { return strings.Contains(line, s) }) {
				t.Errorf("%s: %s removes a folder that the caller names: use own of deploy/own.sh", path, strings.TrimSpace(line))
			}
		}
	}
	if asking < 5 {
		t.Errorf("%d of %d scripts use deploy/own.sh: the rule sees nothing", asking, len(scripts))
	}
}
