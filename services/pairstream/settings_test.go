//go:build cgo

package main

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
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
	sections := config.Sections(pipeline.Settings{})
	if want := config.Tables(sections); table != want {
		t.Errorf("%s is not what `pairstream settings` prints: run `make docs`\nit has\n%s\nwant\n%s", page, table, want)
	}
	const names = "../../internal/process/config/settings.tsv"
	if got := must.Get(os.ReadFile(names))(t); string(got) != config.Names(sections) {
		t.Errorf("%s does not have the settings of the program: run `make docs`", names)
	}
}

// neededModels are settings that a run needs and that no recipe has.
var neededModels = map[string]string{"BUCKET_ROOTS": "file:///data", "ENCODER_CHECKPOINT": "a", "COND_CHECKPOINT": "b"}

// TestFileOfARecipeIsTheRecipe parses the file of every recipe, beside variables on which a recipe's values depend.
func TestFileOfARecipeIsTheRecipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pairstream.toml")
	for variable, value := range neededModels {
		t.Setenv(variable, value)
	}
	parsed := func() pipeline.Settings {
		t.Helper()
		p, err := config.Parse[pipeline.Settings](config.Environ())
		must.Do(t, err)
		return p
	}
	for _, name := range append(recipe.Names(), "") {
		must.Do(t, os.WriteFile(path, []byte(mustCommand(t, append([]string{"settings", "--toml"}, "--recipe="+name)...)), 0o600))
		if out := mustCommand(t, "settings", "--check", path); !strings.HasPrefix(out, path+": ") {
			t.Errorf("--check of %q prints %q", name, out)
		}
		for _, sizes := range []map[string]string{{}, {"STEP_BATCHES": "2", "LANES": "1"}, {"EPOCHS": "3"}, {"PAIRS": "12345"}} {
			for variable, value := range sizes {
				t.Setenv(variable, value)
			}
			t.Setenv("RECIPE", name)
			want := parsed()
			t.Setenv("RECIPE", "")
			must.Do(t, config.Use(path))
			if got := parsed(); !reflect.DeepEqual(got, want) {
				t.Errorf("with %v the file of recipe %q gives\n%+v\nwant\n%+v", sizes, name, got, want)
			}
			config.UseNone()
			for variable := range sizes {
				t.Setenv(variable, "")
			}
		}
	}
}

// TestFileWithEveryDefault takes the marks of comments away: every default has the form of its setting.
func TestFileWithEveryDefault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pairstream.toml")
	text := regexp.MustCompile("(?m)^# ([a-z0-9_]+ = )").ReplaceAllString(mustCommand(t, "settings", "--toml"), "$1")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	out, err := command(t, "settings", "--check", path)
	// Defaults lack the models, and recipes know the number of steps.
	if want := path + ": 140 settings, "; err == nil && !strings.HasPrefix(out, want) {
		t.Errorf("--check prints %q, want %q", out, want)
	}
	for line := range strings.Lines(out) {
		if err != nil && !strings.Contains(line, " is empty, want ") {
			t.Errorf("--check finds %s", line)
		}
	}
	if n := strings.Count(text, "\n\n") + 1; n < 140 {
		t.Errorf("the file has %d settings", n)
	}
}

func TestCheckPrintsEveryFindingAndFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pairstream.toml")
	must.Do(t, os.WriteFile(path, []byte("epochs = 0\n[trainer]\nlr = '1'\nstep_batches = 3\nmomentum = true\n[grouper]\nstrategi = 'grit'\n"), 0o600))
	out, err := command(t, "settings", "--check", path)
	if err == nil || err.Error() != "findings in "+path+": 5" {
		t.Errorf("error is %v", err)
	}
	for i, want := range []string{":1: EPOCHS is 0", ":3: lr is text", ":4: STEP_BATCHES is 3", ":5: momentum: MOMENTUM=true", ":7: no setting is called strategi: the nearest name is strategy"} {
		if lines := strings.Split(out, "\n"); len(lines) <= i || !strings.HasPrefix(lines[i], path+want) {
			t.Errorf("line %d is not %q:\n%s", i+1, want, out)
		}
	}
	if _, err := command(t, "synth", "--config", path, t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), path+":3: lr is text") {
		t.Errorf("a command with the file ends with %v", err)
	}
	if _, err := command(t, "status", "--config="); err == nil || err.Error() != "--config names no file" {
		t.Errorf("a command with an empty name ends with %v", err)
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
		environ := maps.Clone(neededModels)
		environ["RECIPE"] = name
		p, err := config.Parse[pipeline.Settings](environ)
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
