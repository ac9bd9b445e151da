package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// wings maps each wing of internal to the wings that it imports. The order is that of docs/architecture.md: a wing imports
// only wings that stand above it in this list, so the wings form no circle.
var wings = []struct {
	name    string
	imports []string
}{
	{"base", nil},
	{"content", []string{"base"}},
	{"log", []string{"base"}},
	{"process", []string{"base", "log"}},
	{"crawl", []string{"base", "content", "log", "process"}},
	{"model", []string{"base", "content", "crawl", "log", "process"}},
	{"neighbors", []string{"base", "crawl", "log", "model"}},
	{"operate", []string{"base", "content", "crawl", "log", "neighbors", "process"}},
	{"demo", []string{"base", "crawl"}},
}

// notWings are the folders of internal that no program imports.
var notWings = []string{"lint", "testing"}

// wingOf returns the wing of a folder, or "" if the folder lies in none.
func wingOf(dir string) string {
	rest, ok := strings.CutPrefix(dir, "internal/")
	if !ok {
		return ""
	}
	wing, _, _ := strings.Cut(rest, "/")
	if slices.Contains(notWings, wing) {
		return ""
	}
	return wing
}

// wingArrows returns the imports between wings, without tests: wing, imported wing, one import as an example.
func (r *repository) wingArrows() map[string]map[string]string {
	out := map[string]map[string]string{}
	for dir, p := range r.pkgs {
		from := wingOf(dir)
		if from == "" {
			continue
		}
		if out[from] == nil {
			out[from] = map[string]string{}
		}
		for i, file := range p.imports() {
			local, ok := r.local(i)
			if to := wingOf(local); ok && to != "" && to != from {
				out[from][to] = fmt.Sprintf("%s imports %s", file, local)
			}
		}
	}
	return out
}

func TestWingsImportOneWay(t *testing.T) {
	arrows := load(t).wingArrows()
	var listed []string
	for _, w := range wings {
		for _, to := range w.imports {
			if !slices.Contains(listed, to) {
				t.Errorf("wing %s imports %s, which does not stand above it in the list", w.name, to)
			}
			if arrows[w.name][to] == "" {
				t.Errorf("wing %s no longer imports %s: remove it from the list", w.name, to)
			}
		}
		for to, example := range arrows[w.name] {
			if !slices.Contains(w.imports, to) {
				t.Errorf("wing %s imports wing %s: %s", w.name, to, example)
			}
		}
		listed = append(listed, w.name)
	}
	if found := slices.Sorted(maps.Keys(arrows)); !slices.Equal(found, slices.Sorted(slices.Values(listed))) {
		t.Errorf("internal has the wings %q, want %q", found, listed)
	}
}
