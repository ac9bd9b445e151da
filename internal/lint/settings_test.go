package lint

import (
	"go/ast"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// A caller in Go meets fields. So a core names variables only in the tags of its options, which adapters embed.
func TestCoresNameNoVariables(t *testing.T) {
	r := load(t)
	known := map[string]bool{}
	for _, p := range r.pkgs {
		for _, f := range p.files {
			for _, v := range variables(f) {
				known[v] = true
			}
		}
	}
	if !known["SEED"] || !known["EPOCHS"] {
		t.Fatalf("%d variables were found, and not those that are there", len(known))
	}
	for _, dir := range r.cores() {
		for _, f := range r.pkgs[dir].files {
			for word, at := range words(f) {
				if known[word] {
					t.Errorf("%s names the variable %s", at, word)
				}
			}
		}
	}
}

// variables lists the environment variables for which a file declares settings, tests aside.
func variables(f source) []string {
	var out []string
	if f.test {
		return nil
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && field.Tag != nil {
			tag, err := strconv.Unquote(field.Tag.Value)
			if err != nil {
				return true
			}
			if name, _, _ := strings.Cut(reflect.StructTag(tag).Get("env"), ","); name != "" && name != "-" {
				out = append(out, name)
			}
		}
		return true
	})
	return out
}

// words lists the words in capitals of a file's texts and comments, but for tags, each with one place.
func words(f source) map[string]string {
	out := map[string]string{}
	add := func(n ast.Node, text string) {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			if word == strings.ToUpper(word) {
				out[word] = f.at(n)
			}
		}
	}
	tags := map[ast.Node]bool{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && field.Tag != nil {
			tags[field.Tag] = true
		}
		if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && !tags[n] {
			add(n, text.Value)
		}
		return true
	})
	for _, group := range f.ast.Comments {
		add(group, group.Text())
	}
	return out
}
