package demo

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/operate/compare"
	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/operate/rerun"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/recipe"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// A few pictures, in mini-batches so small that every recipe makes several steps.
var smallRecipe = map[string]string{
	"BATCH_SIZE": "6", "SEARCH_SPACE": "12", "QUEUE_SIZE": "24", "EPOCHS": "4", "CLUSTERS": "4", "GNS_CLUSTERS": "1",
	"NEIGHBORS_K2": "10", "NOUN_MIN_COUNT": "1", "MOMENTUM_QUEUE": "24", "LOG_LEVEL": "error",
}

// For every recipe, the manifest of a demo's run has the settings that its stages used, and the replay is equal.
func TestEveryRecipeIsReplayed(t *testing.T) {
	for _, name := range recipe.Names() {
		t.Run(name, func(t *testing.T) {
			unsetSettings(t)
			environ := maps.Clone(smallRecipe)
			environ["RECIPE"] = name
			if name == "grit-vlp" || strings.HasPrefix(name, "mafa") {
				delete(environ, "MOMENTUM_QUEUE") // they have no momentum model
			}
			if strings.Contains(name, "tcl") {
				environ["AUGMENT_DISTORT"] = "true" // which a demo leaves out, since its captions speak of colours
			}
			d := smallDemo(t, environ)
			must.Do(t, d.stream(t.Context()))
			t.Cleanup(func() { must.Check(t, d.closeLogs()) })
			if d.steps.count() < 20 {
				t.Errorf("%d steps, want 20 at least", d.steps.count())
			}
			broker := strings.Join(d.log.Config().Brokers, ",")
			unsetSettings(t) // all that a replay needs is in the manifest
			t.Setenv("KAFKA_BROKERS", broker)
			m := must.Get(rerun.Describe(t.Context(), d.Dir, "", false))(t)
			sameStages(t, "the manifest", m.Settings, d.settings)
			for _, a := range d.arms() {
				left := must.Get(rundir.EnvironOf(rundir.EnvFile(d.Dir, a.name)))(t)
				sameStages(t, a.title+"'s run.env", left, a.settings)
			}
			if name == recipe.Default {
				runsAreCompared(t, d)
			}
			again := rerun.Options{Namespace: "again", Dir: d.Dir, Patience: 10 * time.Minute}
			report := must.Get(again.Run(t.Context(), m, io.Discard))(t)
			if err := report.Err(); err != nil || len(report.Results) != 12 {
				t.Errorf("the replay compares %d lanes of topics: %v", len(report.Results), err)
			}
		})
	}
}

// runsAreCompared does what the commands say that a demo ends with: the runs have manifests that can be compared.
func runsAreCompared(t *testing.T, d *demo) {
	t.Helper()
	commands := strings.Join(d.commands(), "\n")
	var list []compare.Run
	for _, a := range append([]*arm{d.arm}, d.rivals...) {
		t.Setenv("NAMESPACE", a.name)
		m := must.Get(rerun.Describe(t.Context(), d.Dir, "", false))(t)
		list = append(list, m.Run(a.title))
		if a.name != "" && !strings.Contains(commands, "NAMESPACE="+a.name+" ") {
			t.Errorf("no command describes %s:\n%s", a.title, commands)
		}
	}
	must.Do(t, os.Unsetenv("NAMESPACE"))
	if c := must.Get(compare.Of(list))(t); len(c.Runs) != len(d.arms()) || len(c.Curves) == 0 || len(d.commands()) != len(c.Runs)+2 {
		t.Errorf("%d runs and %d curves are compared by\n%s", len(c.Runs), len(c.Curves), commands)
	}
}

// A demo with RECIPE trains with the recipe's losses, on scenes and on data of yours. Without it the demo has its own.
func TestDemoKeepsTheLossesOfARecipe(t *testing.T) {
	for kind, p := range map[string]plan{"scenes": onScenes(3, false), "photographs": onPhotographs()} {
		losses := func(t *testing.T) map[string]string {
			t.Helper()
			tar := filepath.Join(t.TempDir(), "pictures.tar")
			must.Do(t, os.WriteFile(tar, nil, 0o600))
			d := &demo{out: io.Discard, Options: Options{Dir: t.TempDir(), Epochs: 4}, plan: p, train: new(dataset.Corpus), source: tar}
			settings := must.Get(recipe.Overlay(must.Get(d.environ())(t)))(t)
			maps.DeleteFunc(settings, func(name, _ string) bool { return !slices.Contains(lossSettings, name) })
			return settings
		}
		t.Run(kind, func(t *testing.T) {
			unsetSettings(t)
			if got := losses(t); got["MLM_PROBABILITY"] != "0.15" || got["MLM_WEIGHT"] == "1" || got["ITC_ALPHA"] != "0.1" {
				t.Errorf("without RECIPE the losses are %v", got)
			}
			for _, name := range recipe.Names() {
				t.Setenv("RECIPE", name)
				got := losses(t)
				for _, v := range must.Get(recipe.Of(name, nil))(t) {
					if slices.Contains(lossSettings, v.Variable) && got[v.Variable] != v.Value {
						t.Errorf("RECIPE=%s: %s is %q, the recipe has %s", name, v.Variable, got[v.Variable], v.Value)
					}
				}
			}
			t.Setenv("MLM_WEIGHT", "0.25")
			if got := losses(t)["MLM_WEIGHT"]; got != "0.25" {
				t.Errorf("the user's weight of MLM is %s, want 0.25", got)
			}
		})
	}
}

// A manifest takes the settings that RECIPE means from a file of settings, as the stages do.
func TestManifestKnowsTheRecipe(t *testing.T) {
	unsetSettings(t)
	for _, name := range recipe.Names() {
		environ := map[string]string{"RECIPE": name, "BUCKET_ROOTS": "file:///data", "ENCODER_CHECKPOINT": "a", "COND_CHECKPOINT": "b", "TRAIN_INIT": "c"}
		used := must.Get(config.Parse[pipeline.Settings](environ))(t)
		settings := must.Get(pipeline.ReplaySettings(environ))(t)
		sameStages(t, name, settings, used)
	}
	if _, err := pipeline.ReplaySettings(map[string]string{"RECIPE": "clip"}); err == nil || !strings.Contains(err.Error(), `RECIPE is "clip"`) {
		t.Errorf("an unknown recipe: %v", err)
	}
}

// unsetSettings leaves no setting in the environment, whatever the tests are run with.
func unsetSettings(t *testing.T) {
	t.Helper()
	for _, s := range config.Settings(pipeline.Settings{}) {
		t.Setenv(s.Variable, "") // which restores it after the test
		must.Do(t, os.Unsetenv(s.Variable))
	}
}

// sameStages fails where settings are not those of the stages of a run.
func sameStages(t *testing.T, where string, settings map[string]string, want pipeline.Settings) {
	t.Helper()
	settings = maps.Clone(settings)
	for _, s := range config.Settings(pipeline.Settings{}) {
		if _, ok := settings[s.Variable]; !ok && s.Default != "" {
			settings[s.Variable] = s.Default
		}
	}
	got, err := config.Parse[pipeline.Settings](settings)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	for stage, pair := range map[string][2]any{
		"encoder": {got.Encoder, want.Encoder}, "indexer": {got.Indexer, want.Indexer}, "grouper": {got.Grouper, want.Grouper},
		"discriminator": {got.Discriminator, want.Discriminator}, "trainer": {got.Trainer, want.Trainer},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: the %s has\n%+v\nwant\n%+v", where, stage, pair[0], pair[1])
		}
	}
}
