// Package mutants keeps faults that tests must notice. Each is a patch in the folder patches, with the tests that have
// to fail when it is applied. `make mutants` runs them all.
//
// A patch is what `git diff` prints, with two things above it: a sentence about the fault, and a line "Fails: PACKAGE
// TESTS" with the argument of -run. Hunks are found by their text, so their line numbers do not matter. The text of a
// hunk must occur once in its file.
package mutants

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is a fault and the tests that must notice it.
type Mutant struct {
	Name    string
	What    string // the fault
	Package string // whose tests must fail
	Tests   string // argument of -run
	edits   map[string][]edit
}

// edit replaces some lines by others.
type edit struct{ old, new string }

const failsPrefix = "Fails: "

// Read reads the patches of a folder, in the order of their names.
func Read(folder string) ([]Mutant, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("no patches in %s", folder)
	}
	if err != nil {
		return nil, err
	}
	var mutants []Mutant
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m, err := Parse(strings.TrimSuffix(filepath.Base(path), ".patch"), string(raw))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		mutants = append(mutants, m)
	}
	return mutants, nil
}

// Parse reads a patch.
func Parse(name, text string) (Mutant, error) {
	m := Mutant{Name: name, edits: make(map[string][]edit)}
	head, body, found := strings.Cut(text, "\n--- ")
	if !found {
		return m, errors.New("it has no line that begins with ---")
	}
	for line := range strings.Lines(head) {
		switch after, ok := strings.CutPrefix(line, failsPrefix); {
		case ok:
			m.Package, m.Tests, _ = strings.Cut(strings.TrimSpace(after), " ")
		case !strings.HasPrefix(line, "diff ") && !strings.HasPrefix(line, "index "):
			m.What = strings.TrimSpace(m.What + " " + strings.TrimSpace(line))
		}
	}
	if m.What == "" || !strings.HasPrefix(m.Package, "./") || m.Tests == "" {
		return m, fmt.Errorf("want a sentence, and a line %q", failsPrefix+"./PACKAGE TESTS")
	}
	return m, m.parseHunks("--- " + body)
}

// parseHunks reads what git diff printed.
func (m *Mutant) parseHunks(diff string) error {
	file := ""
	for line := range strings.Lines(diff) {
		if path, ok := strings.CutPrefix(line, "+++ b/"); ok {
			file = strings.TrimSpace(path)
			continue
		}
		edits := m.edits[file]
		switch last := len(edits) - 1; {
		case strings.HasPrefix(line, "@@"):
			m.edits[file] = append(edits, edit{})
		case strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "index "):
		case last < 0:
			return fmt.Errorf("%q comes before the first @@", line)
		case line[0] == ' ':
			edits[last].old += line[1:]
			edits[last].new += line[1:]
		case line[0] == '-':
			edits[last].old += line[1:]
		case line[0] == '+':
			edits[last].new += line[1:]
		default:
			return fmt.Errorf("%q is no line of a hunk", line)
		}
	}
	return nil
}

// Apply returns the files that the mutant changes, as it leaves them, by their paths below root.
func (m Mutant) Apply(root string) (map[string]string, error) {
	files := make(map[string]string)
	for path, edits := range m.edits {
		raw, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		text := string(raw)
		for i, e := range edits {
			if n := strings.Count(text, e.old); n != 1 || e.old == e.new {
				return nil, fmt.Errorf("hunk %d of %s: its text occurs %d times, want one, and a change: make the patch anew", i+1, path, n)
			}
			text = strings.Replace(text, e.old, e.new, 1)
		}
		files[path] = text
	}
	return files, nil
}
