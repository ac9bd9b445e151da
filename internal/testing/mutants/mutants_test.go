package mutants

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

const root = "../../.."

// TestPatchesApply makes sure that every patch still fits the sources, and that the tests it names are there. It does
// not run them; `make mutants` does.
func TestPatchesApply(t *testing.T) {
	mutants := must.Get(Read("patches"))(t)
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			files := must.Get(m.Apply(root))(t)
			for path, text := range files {
				if _, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution); err != nil {
					t.Error(err)
				}
			}
			known := testsOf(t, filepath.Join(root, m.Package))
			for name := range strings.SplitSeq(m.Tests, "|") {
				if top := regexp.MustCompile(`^\^?(\w+)`).FindStringSubmatch(name); top == nil || !known[top[1]] {
					t.Errorf("%s has no test %s", m.Package, name)
				}
			}
		})
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testsOf returns the names of a package's tests.
func testsOf(t *testing.T, folder string) map[string]bool {
	t.Helper()
	paths := must.Get(filepath.Glob(filepath.Join(folder, "*_test.go")))(t)
	names := make(map[string]bool)
	for _, path := range paths {
		raw := must.Get(os.ReadFile(path))(t)
		for _, found := range testFunc.FindAllSubmatch(raw, -1) {
			names[string(found[1])] = true
		}
	}
	return names
}

const patch = `Two and two are five.
Fails: ./sums TestSum

diff --git a/sums/sum.go b/sums/sum.go
--- a/sums/sum.go
+++ b/sums/sum.go
@@ -7,3 +7,3 @@ func Sum() {
 	a := 2
-	return a + 2
+	return a + 3
 }
`

func TestPatch(t *testing.T) {
	for name, c := range map[string]struct {
		patch, source, wrong string
	}{
		"as it was":          {patch, "\ta := 2\n\treturn a + 2\n}\n", ""},
		"on other lines":     {patch, "\n\n\ta := 2\n\treturn a + 2\n}\n\n", ""},
		"changed":            {patch, "\ta := 2\n\treturn 2 + a\n}\n", "occurs 0 times"},
		"in two places":      {patch, strings.Repeat("\ta := 2\n\treturn a + 2\n}\n", 2), "occurs 2 times"},
		"changes nothing":    {strings.ReplaceAll(patch, "a + 3", "a + 2"), "\ta := 2\n\treturn a + 2\n}\n", "want one, and a change"},
		"names no test":      {strings.ReplaceAll(patch, " TestSum", ""), "", "want a sentence"},
		"says nothing":       {strings.ReplaceAll(patch, "Two and two are five.", ""), "", "want a sentence"},
		"has no diff":        {"Two and two are five.\n", "", "---"},
		"has a strange line": {patch + "?\n", "", "no line of a hunk"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must.Do(t, os.Mkdir(filepath.Join(dir, "sums"), 0o755))
			must.Do(t, os.WriteFile(filepath.Join(dir, "sums/sum.go"), []byte(c.source), 0o600))
			m, err := Parse("five", c.patch)
			var files map[string]string
			if err == nil {
				files, err = m.Apply(dir)
			}
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("error %v, want one with %q", err, c.wrong)
				}
				return
			}
			if got, want := files["sums/sum.go"], strings.ReplaceAll(c.source, "a + 2", "a + 3"); err != nil || got != want {
				t.Errorf("made %q, %v, want %q", got, err, want)
			}
			if m.Package != "./sums" || m.Tests != "TestSum" || m.What != "Two and two are five." {
				t.Errorf("read %+v", m)
			}
		})
	}
}
