//go:build cgo

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/recipe"
)

// The table of docs/papers.md and the file of the Python package are those of the code.
func TestRecipesAreWritten(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	table, err := recipe.PapersTable()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(read("../../docs/papers.md"), recipesBegin+table+recipesEnd) {
		t.Error("docs/papers.md has another table of recipes than the code: make docs")
	}
	forPython, err := recipesForPython()
	if err != nil {
		t.Fatal(err)
	}
	if read("../../clients/python/src/pairstream/torch/recipes.json") != string(forPython) {
		t.Error("the Python package has other recipes than the code: make docs")
	}
}
