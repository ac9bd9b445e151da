package chart

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var tag = regexp.MustCompile(`env:"([A-Z][A-Z0-9_]*)"`)

// variables returns the settings that the sources read, from the tags of their configuration structs.
func variables(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, dir := range []string{"encoder", "indexer", "grouper", "discriminator", "trainer", "internal", "services"} {
		err := filepath.WalkDir(filepath.Join("../../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range tag.FindAllSubmatch(text, -1) {
				found[string(match[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// A variable that nobody reads would be a value without effect.
func TestSettingsAreKnown(t *testing.T) {
	known := variables(t)
	if !known["KAFKA_BROKERS"] {
		t.Fatal("no setting was found in the sources")
	}
	eachCase(t, func(t *testing.T, objects []object) {
		given := map[string]bool{}
		for _, o := range objects {
			for key := range o.sub("data") {
				given[key] = given[key] || o.kind() == "ConfigMap"
			}
		}
		for _, p := range pods(objects) {
			for _, c := range p.containers() {
				for _, e := range c.list("env") {
					given[object(e.(map[string]any)).text("name")] = true
				}
			}
		}
		delete(given, "pairstream.json") // the dashboard
		delete(given, "NODE_RANK")       // an argument of torchrun's
		for name := range maps.Keys(given) {
			if !known[name] {
				t.Errorf("no service reads %s", name)
			}
		}
	})
}

// Numbers reach the services as they were written: not as 1e+06, and true not as 1.
func TestSettingsKeepTheirForm(t *testing.T) {
	for values, want := range map[string]map[string]string{
		"gpu": {"LR": "0.0001", "MOMENTUM_DECAY": "0.995", "LR_TOTAL_STEPS": "1000000"},
		"copies": {
			"EVAL_EVERY": "5000", "EVAL_DATA": "s3://shards/held-out/,gs://held-out/more/", "CHECKPOINT_KEEP_EVERY": "1000000",
			"CHECKPOINT_BEST": "recall", "CHECKPOINT_UPLOAD": "s3://copies/run/?endpoint=https://minio:9443&region=x",
		},
	} {
		data := find(render(t, cases[values]), "ConfigMap", fullname+"-trainer").sub("data")
		for name, value := range want {
			if got := data.text(name); got != value {
				t.Errorf("%s: %s is %q, want %q", values, name, got, value)
			}
		}
	}
}

// The sizes of an epoch reach every service, since each derives steps from them. Those that nobody sets are the
// recipe's.
func TestRecipeAndSizesAreEverybodys(t *testing.T) {
	for values, want := range map[string]map[string]string{
		"": {"RECIPE": "mafa", "GROUP_SIZE": "5000000", "EPOCHS": "", "STRATEGY": "", "BATCH_SIZE": ""},
		"recipe: gpn-s\ngrouper: {epochs: 1, strategy: gns, batchSize: 256}\nsettings: {GROUP_SIZE: 1000}": {
			"RECIPE": "gpn-s", "GROUP_SIZE": "1000", "EPOCHS": "1", "STRATEGY": "gns", "BATCH_SIZE": "256",
		},
	} {
		data := find(render(t, values), "ConfigMap", fullname).sub("data")
		for name, value := range want {
			if got := data.text(name); got != value {
				t.Errorf("with %q: %s is %q, want %q", values, name, got, value)
			}
		}
	}
}
