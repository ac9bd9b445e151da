package lint

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostWords bounds the glossary: a newcomer learns so many words, and no more.
const mostWords = 60

var glossaryRow = regexp.MustCompile(`(?m)^\| ([^|]+?) \|`)

// glossary returns the words of a glossary.
func glossary(text string) (words []string) {
	for _, m := range glossaryRow.FindAllStringSubmatch(text, -1) {
		if word := m[1]; word != "word" && !strings.HasPrefix(word, "---") {
			words = append(words, word)
		}
	}
	return words
}

// instead maps names that no reader can guess to what the field says. Types and files keep to the latter.
var instead = map[string]string{
	"agreed": "decision", "asked": "query", "judged": "judgement", "again": "retry or reread", "latest": "a follower", "account": "accounting",
	"twin": "near-duplicate", "twins": "near-duplicates", "phase": "a noun of its own", "arrivals": "notification", "wording": "statement",
	"kept": "cache", "forgo": "skip", "look": "a noun of its own", "renewed": "retry", "at": "position", "aside": "dead letter",
	"place": "position, or a noun of its own", "seat": "membership", "door": "listener", "guest": "peer", "farewell": "goodbye",
}

// strange returns the types and files of a package whose names are in instead.
func strange(p *pkg) (found []string) {
	for _, f := range p.files {
		base := strings.TrimSuffix(strings.TrimSuffix(f.name, ".go"), "_test")
		if better := instead[base]; better != "" {
			found = append(found, p.dir+"/"+f.name+": call the file after "+better)
		}
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || f.test {
				continue
			}
			for _, s := range g.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok && instead[ts.Name.Name] != "" {
					found = append(found, f.at(ts)+": type "+ts.Name.Name+": say "+instead[ts.Name.Name])
				}
			}
		}
	}
	return found
}

func TestGlossaryIsShort(t *testing.T) {
	words := glossary(read(t, "../..", "docs/concepts.md"))
	if len(words) == 0 || len(words) > mostWords {
		t.Errorf("docs/concepts.md has %d words, want 1 to %d", len(words), mostWords)
	}
	seen := map[string]bool{}
	for _, w := range words {
		if seen[w] {
			t.Errorf("docs/concepts.md has %q twice: one word, one thing", w)
		}
		seen[w] = true
		if better := instead[w]; better != "" {
			t.Errorf("docs/concepts.md has %q: say %s", w, better)
		}
	}
}

// plainFolders have comments in plain English. stiff finds clauses that stand for a name, and actors without one.
var (
	plainFolders = []string{"schemas", "grouper", "indexer", "discriminator", "encoder", "internal/log", "internal/crawl", "internal/content", "internal/neighbors"}
	stiff        = regexp.MustCompile(`(?i)\b(nobody|whoever|of then|what (was|were|lies|goes|stands|comes))\b`)
)

// stiffComments returns the stiff comments of a file that is no test.
func stiffComments(f source) (found []string) {
	for _, group := range f.ast.Comments {
		if phrase := stiff.FindString(group.Text()); phrase != "" && !f.test {
			found = append(found, f.at(group)+": say whom or what you mean instead of "+phrase)
		}
	}
	return found
}

func TestCommentsArePlain(t *testing.T) {
	for dir, p := range load(t).pkgs {
		if !slices.ContainsFunc(plainFolders, func(folder string) bool { return below(dir, folder) }) {
			continue
		}
		for _, f := range p.files {
			for _, comment := range stiffComments(f) {
				t.Error(comment)
			}
		}
	}
}

func TestPlainRuleSeesWhatItForbids(t *testing.T) {
	f, err := parse("a.go", []byte("package p\n\n// x holds what was read.\nvar x int\n\n// y is free, and nobodyMakes it.\nvar y int\n"))
	if err != nil {
		t.Fatal(err)
	}
	if found := stiffComments(f); len(found) != 1 {
		t.Errorf("found %q, want the first comment", found)
	}
}

func TestNamesAreGuessable(t *testing.T) {
	for _, p := range load(t).pkgs {
		for _, what := range strange(p) {
			t.Error(what)
		}
	}
}

func TestWordRulesSeeWhatTheyForbid(t *testing.T) {
	f, err := parse("again.go", []byte("package p\n\ntype seat struct{}\n\ntype lane int\n"))
	if err != nil {
		t.Fatal(err)
	}
	if found := strange(&pkg{dir: "p", files: []source{f}}); len(found) != 2 {
		t.Errorf("found %q, want the file and the type", found)
	}
	if words := glossary("| word | meaning |\n|---|---|\n| a | b |\n| c, d | e |\n"); len(words) != 2 {
		t.Errorf("found the words %q, want two", words)
	}
}
