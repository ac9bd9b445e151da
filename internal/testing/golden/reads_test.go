package golden_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// unread finds the lines of the README that name tensors which no test reads, and why: "| file | tensor | reason |".
var unread = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| `([^`]+)` \\| (.+) \\|$")

// pattern is a tensor of a file, or a family: "w.*".
type pattern struct{ file, name string }

func (p pattern) matches(file, name string) bool {
	family, ok := strings.CutSuffix(p.name, "*")
	return p.file == file && (p.name == name || ok && strings.HasPrefix(name, family))
}

// Every tensor of every file is read by a test, or the README says why it is not. Lists and README name nothing else.
func TestEveryTensorIsRead(t *testing.T) {
	folder := golden.Testdata(t, "golden")
	lists, err := filepath.Glob(filepath.Join(folder, "reads", "*.txt"))
	if err != nil || len(lists) < 5 {
		t.Fatalf("%d lists, %v", len(lists), err)
	}
	var read, excused []pattern
	for _, path := range lists {
		for line := range strings.Lines(text(t, path)) {
			file, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			read = append(read, pattern{file, name})
		}
	}
	readme := text(t, filepath.Join(folder, "README.md"))
	begin, end := strings.Index(readme, "<!-- unread: begin -->"), strings.Index(readme, "<!-- unread: end -->")
	if begin < 0 || end < begin {
		t.Fatal("the README has no part on what is not read")
	}
	for _, m := range unread.FindAllStringSubmatch(readme[begin:end], -1) {
		excused = append(excused, pattern{m[1] + ".safetensors", m[2]})
	}
	used := map[pattern]bool{}
	files := must.Get(filepath.Glob(filepath.Join(folder, "*.safetensors")))(t)
	for _, path := range files {
		f := must.Get(safetensors.Open(path))(t)
		file := filepath.Base(path)
		for _, name := range f.Names() {
			if golden.Alias(name) {
				continue
			}
			mark := func(among []pattern) (found bool) {
				for _, p := range among {
					if p.matches(file, name) {
						used[p], found = true, true
					}
				}
				return found
			}
			switch isRead, isExcused := mark(read), mark(excused); {
			case !isRead && !isExcused:
				t.Errorf("%s: no test reads %s; read it, or say in testdata/golden/README.md why not", file, name)
			case isRead && isExcused:
				t.Errorf("%s: a test reads %s, and the README says that none does", file, name)
			}
		}
	}
	for _, p := range append(read, excused...) {
		if !used[p] {
			t.Errorf("%s has no tensor %s, which a list or the README names", p.file, p.name)
		}
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	content := must.Get(os.ReadFile(path))(t)
	return string(content)
}
