//go:build cgo

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/process/recipe"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// The tables of docs/papers.md and the file of the Python package are those of the code.
func TestRecipesAreWritten(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		text := must.Get(os.ReadFile(path))(t)
		return string(text)
	}
	table := must.Get(recipe.PapersTable())(t)
	if !strings.Contains(read("../../docs/papers.md"), recipesBegin+table+recipesEnd) {
		t.Error("docs/papers.md has another table of recipes than the code: make docs")
	}
	if !strings.Contains(read("../../docs/papers.md"), departuresBegin+recipe.DeparturesTable()+departuresEnd) {
		t.Error("docs/papers.md has other departures than the code: make docs")
	}
	forPython := must.Get(recipesForPython())(t)
	if read("../../clients/python/src/pairstream/torch/recipes.json") != string(forPython) {
		t.Error("the Python package has other recipes than the code: make docs")
	}
}
