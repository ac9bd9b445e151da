package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// vague matches words that hide who acts: "it takes nobody without the id" is "requests without the id are rejected".
var vague = regexp.MustCompile(`(?i)\b(nobody|somebody|whoever)\b`)

// vagueProse lists the comments and texts of a file that use such words.
func vagueProse(f source) (found []string) {
	add := func(n ast.Node, text string) {
		if word := vague.FindString(text); word != "" {
			found = append(found, f.at(n)+": "+strings.ToLower(word)+": name who or what acts")
		}
	}
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			add(c, c.Text)
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
			add(n, text.Value)
		}
		return true
	})
	return found
}

// plain are the folders whose prose has been rewritten.
var plain = []string{"internal/operate", "services"}

func TestProseNamesWhoActs(t *testing.T) {
	files := 0
	r := load(t)
	for _, dir := range r.dirs(plain...) {
		for _, f := range r.pkgs[dir].files {
			if f.test {
				continue
			}
			files++
			for _, problem := range vagueProse(f) {
				t.Error(problem)
			}
		}
	}
	if files < 100 {
		t.Errorf("read %d files: the rule sees too little", files)
	}
	counted := 0
	for _, name := range documents(t, r.root) {
		if name == "CONTRIBUTING.md" || name == "docs/experiments.md" {
			continue // one quotes the words, the lab writes the other
		}
		for _, s := range sentences(read(t, r.root, name)) {
			counted++
			if word := vague.FindString(s); word != "" {
				t.Errorf("%s: %s: name who or what acts: %s", name, strings.ToLower(word), s)
			}
		}
	}
	if counted < 300 {
		t.Errorf("counted %d sentences: the rule sees too little", counted)
	}
}

func TestProseRuleSeesWhatItForbids(t *testing.T) {
	f := must.Get(parse("x.go", []byte("package x\n\n// Nobody waits.\nfunc f() string { return \"whoever asks\" }\n\nvar nobody = 1\n")))(t)
	if got := vagueProse(f); len(got) != 2 {
		t.Errorf("found %q, want the comment and the text", got)
	}
}
