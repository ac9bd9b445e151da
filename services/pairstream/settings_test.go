//go:build cgo

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/operate/pages"
	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/recipe"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestSettingsPageIsWhatTheCommandPrints(t *testing.T) {
	const page = "../../docs/settings.md"
	text := must.Get(os.ReadFile(page))(t)
	_, rest, begun := strings.Cut(string(text), settingsBegin)
	table, _, ended := strings.Cut(rest, settingsEnd)
	if !begun || !ended {
		t.Fatalf("%s has no table between %q and %q", page, strings.TrimSpace(settingsBegin), settingsEnd)
	}
	if want := config.Table(pipeline.Settings{}); table != want {
		t.Errorf("%s is not what `pairstream settings` prints: run `make docs`\nit has\n%s\nwant\n%s", page, table, want)
	}
}

func TestWriteBetween(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("before\n" + settingsBegin + "old\n" + settingsEnd + "\nafter\n")
	must.Do(t, writeBetween(path, settingsBegin, settingsEnd, "new\n"))
	got, err := os.ReadFile(path)
	if want := "before\n" + settingsBegin + "new\n" + settingsEnd + "\nafter\n"; err != nil || string(got) != want {
		t.Errorf("the page is %q (%v), want %q", got, err, want)
	}
	write("no marks")
	if err := writeBetween(path, settingsBegin, settingsEnd, "new\n"); err == nil {
		t.Error("a page without marks is written")
	}
}

// TestSettingsAgree checks a setting that several structs declare. It is the same everywhere: one variable, one
// default, one meaning.
func TestSettingsAgree(t *testing.T) {
	seen := map[string]config.Setting{}
	for _, s := range config.Settings(pipeline.Settings{}, bootstrapSettings{}, fineTuneSettings{}, pages.Group{}, pages.Settings{}) {
		if other, ok := seen[s.Variable]; ok {
			t.Errorf("%s is declared as %+v and as %+v", s.Variable, other, s)
		}
		seen[s.Variable] = s
	}
}

// TestDefaultsAreTheDefaultRecipes checks that the defaults are those of the default recipe. A process that is told
// no recipe follows it.
func TestDefaultsAreTheDefaultRecipes(t *testing.T) {
	defaults := map[string]string{}
	for _, s := range config.Settings(pipeline.Settings{}) {
		defaults[s.Variable] = s.Default
	}
	for _, name := range recipe.Names() {
		values := must.Get(recipe.Of(name, nil))(t)
		for _, v := range values {
			value, known := defaults[v.Variable]
			switch {
			case !known:
				t.Errorf("recipe %s sets %s, which is no setting", name, v.Variable)
			case name == recipe.Default && value != v.Value:
				t.Errorf("%s is %s by default, %s in recipe %s", v.Variable, value, v.Value, name)
			}
		}
	}
}

func TestEveryRecipeIsAccepted(t *testing.T) {
	for _, name := range recipe.Names() {
		p, err := config.Parse[pipeline.Settings](map[string]string{
			"RECIPE": name, "BUCKET_ROOTS": "file:///data", "ENCODER_CHECKPOINT": "a", "COND_CHECKPOINT": "b",
		})
		if err != nil {
			t.Errorf("RECIPE=%s: %v", name, err)
			continue
		}
		if want := strings.HasPrefix(name, "gpn-s"); (p.Trainer.Core.UniWeight == 1) != want {
			t.Errorf("RECIPE=%s: UNI_WEIGHT is %g", name, p.Trainer.Core.UniWeight)
		}
	}
}

// TestSettingsStayFew bounds how many settings a user may have to know. Take one out for each that you add, or let the
// program find the value.
func TestSettingsStayFew(t *testing.T) {
	const most = 140
	if n := len(config.Settings(pipeline.Settings{})); n > most || n < most/2 {
		t.Errorf("%d settings, want at most %d", n, most)
	}
}
