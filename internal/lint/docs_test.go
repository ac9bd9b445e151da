package lint

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

const (
	maxReadmeBytes   = 12_000
	maxSentenceWords = 35 // the aim is 25
)

// prose lists the documents whose sentences are counted. Links are checked in every document.
var prose = []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs", "examples"}

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	anyLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	listItem   = regexp.MustCompile(`^(?:[-*]|\d+\.)\s+`)
	generated  = regexp.MustCompile(`(?s)<!-- (\w+): begin -->.*?<!-- \w+: end -->`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// documents returns the Markdown files of the repository, with slashes, from its root.
func documents(t *testing.T, root string) (found []string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		switch {
		case d.IsDir() && name != root && (strings.HasPrefix(base, ".") || slices.Contains([]string{"bin", "data", "dist", "testdata", "node_modules"}, base)):
			return filepath.SkipDir
		case !d.IsDir() && filepath.Ext(base) == ".md":
			rel, err := filepath.Rel(root, name)
			found = append(found, filepath.ToSlash(rel))
			return err
		}
		return nil
	}))
	return found
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(root, filepath.FromSlash(name))))(t)
	return string(text)
}

// withoutCode drops blocks between fences, and lines that are indented by four after an empty line.
func withoutCode(text string) string {
	var kept []string
	fenced, indented, empty := false, false, true
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		indented = strings.HasPrefix(line, "    ") && (empty || indented)
		empty = strings.TrimSpace(line) == ""
		if fence {
			fenced = !fenced
		}
		if fence || fenced || indented {
			line = ""
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "\n")
}

// slugs returns the anchors that GitHub gives to the headings of a document.
func slugs(text string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(withoutCode(text)) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		title := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		out[strings.ReplaceAll(notInSlug.ReplaceAllString(title, ""), " ", "-")] = true
	}
	return out
}

// brokenLinks lists the relative links of a document that lead to no file, or to no heading of a document.
func brokenLinks(root, name, text string, readFile func(string) (string, error)) (broken []string) {
	dir := filepath.Dir(filepath.Join(root, filepath.FromSlash(name)))
	for _, m := range anyLink.FindAllStringSubmatch(inlineCode.ReplaceAllString(withoutCode(text), "code"), -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		path := filepath.Join(root, filepath.FromSlash(name))
		if target != "" {
			path = filepath.Join(dir, filepath.FromSlash(target))
		}
		if _, err := os.Stat(path); err != nil {
			broken = append(broken, fmt.Sprintf("%s: link to %s: no such file", name, m[1]))
			continue
		}
		if anchor == "" {
			continue
		}
		to, err := readFile(path)
		if err != nil || !slugs(to)[anchor] {
			broken = append(broken, fmt.Sprintf("%s: link to %s: no such heading", name, m[1]))
		}
	}
	return broken
}

// sentences returns the sentences of a document's paragraphs and list items, without headings, tables and code.
func sentences(text string) (out []string) {
	var paragraph []string
	end := func() {
		rest := strings.Join(paragraph, " ")
		paragraph = nil
		begin := 0
		words := strings.Fields(rest)
		for i, w := range words {
			if strings.ContainsAny(lastOf(strings.TrimRight(w, "\"*)_]")), ".!?") || i == len(words)-1 {
				out = append(out, strings.Join(words[begin:i+1], " "))
				begin = i + 1
			}
		}
	}
	for line := range strings.Lines(withoutCode(generated.ReplaceAllString(text, ""))) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "<!--"):
			end()
			continue
		case listItem.MatchString(line):
			end()
			line = listItem.ReplaceAllString(line, "")
		}
		paragraph = append(paragraph, line)
	}
	end()
	return out
}

func lastOf(word string) string {
	if word == "" {
		return ""
	}
	return word[len(word)-1:]
}

func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	const root = "../.."
	names := documents(t, root)
	links := 0
	for _, name := range names {
		text := read(t, root, name)
		links += len(anyLink.FindAllString(withoutCode(text), -1))
		for _, problem := range brokenLinks(root, name, text, func(path string) (string, error) {
			to, err := os.ReadFile(path)
			return string(to), err
		}) {
			t.Error(problem)
		}
	}
	if len(names) < 15 || links < 100 {
		t.Errorf("found %d documents with %d links: is %s the root of the repository?", len(names), links, root)
	}
}

func TestSentencesOfDocumentsAreShort(t *testing.T) {
	const root = "../.."
	counted := 0
	for _, name := range documents(t, root) {
		if !slices.ContainsFunc(prose, func(p string) bool { return below(name, p) }) {
			continue
		}
		for _, s := range sentences(read(t, root, name)) {
			counted++
			if words := len(strings.Fields(s)); words > maxSentenceWords {
				t.Errorf("%s: %d words, want at most %d: %s", name, words, maxSentenceWords, s)
			}
		}
	}
	if counted < 300 {
		t.Errorf("counted %d sentences: is %s the root of the repository?", counted, root)
	}
}

func TestReadmeIsShort(t *testing.T) {
	text := read(t, "../..", "README.md")
	before, rest, _ := strings.Cut(text, "<!-- ratios: begin -->") // `make bench` writes a line a row here
	_, after, found := strings.Cut(rest, "<!-- ratios: end -->")
	if !found {
		t.Fatal("README.md has no table of ratios")
	}
	if size := len(before) + len(after); size > maxReadmeBytes {
		t.Errorf("README.md has %d bytes, want at most %d: move what is not for a first reader into docs", size, maxReadmeBytes)
	}
}

// The map of docs/architecture.md names every folder of Go packages. It may name a folder above it instead, but not
// just internal.
func TestMapOfFoldersIsComplete(t *testing.T) {
	r := load(t)
	const page = "docs/architecture.md"
	_, rest, begun := strings.Cut(read(t, r.root, page), "<!-- map: begin -->")
	table, _, ended := strings.Cut(rest, "<!-- map: end -->")
	if !begun || !ended {
		t.Fatalf("%s has no map of folders", page)
	}
	var named []string
	for line := range strings.Lines(table) {
		columns := strings.Split(line, "|")
		if len(columns) < 2 {
			continue
		}
		for _, folder := range inlineCode.FindAllString(columns[1], -1) {
			folder = strings.Trim(folder, "`")
			named = append(named, folder)
			if info, err := os.Stat(filepath.Join(r.root, filepath.FromSlash(folder))); err != nil || !info.IsDir() {
				t.Errorf("%s names the folder %s, which is not there", page, folder)
			}
		}
	}
	for dir := range r.pkgs {
		if !slices.ContainsFunc(named, func(n string) bool { return below(dir, n) }) {
			t.Errorf("%s does not name %s", page, dir)
		}
	}
}

func TestDocumentRulesSeeWhatTheyForbid(t *testing.T) {
	text := "# A page\n\nOne [link](#a-page), [two](missing.md), [three](lint_test.go).\nFour [links](other.md#there), [five](other.md#gone)!\n\n" +
		"    [code](nowhere.md) is no link\n\n```\n# no heading\n[nor](this.md)\n```\n- an item [six](https://example.org/x)\n- `[seven](x)` and more\n\n| a. | b. |\n"
	broken := brokenLinks(".", "doc.go", text, func(path string) (string, error) {
		if path == "doc.go" {
			return text, nil
		}
		return "## There\n", nil
	})
	want := []string{"doc.go: link to missing.md: no such file", "doc.go: link to other.md#there: no such file", "doc.go: link to other.md#gone: no such file"}
	if !slices.Equal(broken, want) {
		t.Errorf("broken links %q, want %q", broken, want)
	}
	toHeadings := brokenLinks(".", "doc.go", "[a](lint_test.go#there) [b](lint_test.go#gone)", func(string) (string, error) { return "## There\n", nil })
	if want := []string{"doc.go: link to lint_test.go#gone: no such heading"}; !slices.Equal(toHeadings, want) {
		t.Errorf("broken links %q, want %q", toHeadings, want)
	}
	found := sentences(text)
	wantSentences := []string{
		"One [link](#a-page), [two](missing.md), [three](lint_test.go).", "Four [links](other.md#there), [five](other.md#gone)!",
		"an item [six](https://example.org/x)", "`[seven](x)` and more",
	}
	if !slices.Equal(found, wantSentences) {
		t.Errorf("sentences %q, want %q", found, wantSentences)
	}
}
