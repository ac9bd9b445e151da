package compose

import (
	"os"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pairstream/pairstream/internal/process/recipe"
)

// interpolated is a variable in compose.yaml with its default, such as ${LANES:-4}.
var interpolated = regexp.MustCompile(`\$\{([A-Z_]+):-([^}]*)\}`)

// started returns the environment that compose gives to every service, where the user's environment is set.
func started(t *testing.T, set map[string]string) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	filled := interpolated.ReplaceAllFunc(text, func(m []byte) []byte {
		parts := interpolated.FindSubmatch(m)
		if value := set[string(parts[1])]; value != "" {
			return []byte(value)
		}
		return parts[2]
	})
	var file struct {
		Services map[string]struct{ Environment map[string]any }
	}
	if err := yaml.Unmarshal(filled, &file); err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]string{}
	for name, s := range file.Services {
		out[name] = map[string]string{}
		for variable, value := range s.Environment {
			switch v := value.(type) {
			case nil:
				out[name][variable] = ""
			case string:
				out[name][variable] = v
			default:
				b, err := yaml.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				out[name][variable] = regexp.MustCompile(`\s+$`).ReplaceAllString(string(b), "")
			}
		}
	}
	return out
}

// agreeing are the services that must read one run alike: all stages, and what reads or reports on the run beside them.
var agreeing = []string{"encoder", "indexer", "grouper", "discriminator", "trainer", "torch", "console", "pairstream", "models"}

// A recipe holds in every service: none of them overrides one of its values.
func TestEveryServiceReadsTheWholeRecipe(t *testing.T) {
	for _, name := range recipe.Names() {
		services := started(t, map[string]string{"RECIPE": name})
		for _, service := range agreeing {
			environ := services[service]
			if environ[recipe.Variable] != name {
				t.Fatalf("%s reads the recipe %q, want %s", service, environ[recipe.Variable], name)
			}
			if differences, err := recipe.Differences(environ); err != nil || len(differences) > 0 {
				t.Errorf("RECIPE=%s, %s: %v, %q differ from the recipe", name, service, err, differences)
			}
		}
	}
}

// A value that the user sets beside the recipe reaches every service, so that all of them plan for the same run.
func TestOneValueReachesEveryService(t *testing.T) {
	set := map[string]string{
		"RECIPE": "gpn-s", "EPOCHS": "7", "STRATEGY": "random", "BATCH_SIZE": "32", "STEP_BATCHES": "2", "QUEUE_SIZE": "640", "SEARCH_SPACE": "320",
		"GROUP_SIZE": "1000", "LANES": "2", "SEED": "5",
	}
	var first map[string]string
	for _, service := range agreeing {
		environ := started(t, set)[service]
		for variable, want := range set {
			if environ[variable] != want {
				t.Errorf("%s reads %s=%q, want %q", service, variable, environ[variable], want)
			}
		}
		whole, err := recipe.Overlay(environ)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = whole
		}
		if whole["LR_TOTAL_STEPS"] != first["LR_TOTAL_STEPS"] || whole["LR_WARMUP_STEPS"] != first["LR_WARMUP_STEPS"] {
			t.Errorf("%s plans %s steps and a ramp of %s, others %s and %s", service, whole["LR_TOTAL_STEPS"], whole["LR_WARMUP_STEPS"], first["LR_TOTAL_STEPS"], first["LR_WARMUP_STEPS"])
		}
	}
}
