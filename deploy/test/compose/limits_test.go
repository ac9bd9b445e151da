package compose

import (
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

// No container may take all of the machine's memory.
func TestEveryServiceHasAMemoryLimit(t *testing.T) {
	text, err := os.ReadFile("../../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Services map[string]map[string]any }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Services) < 10 {
		t.Errorf("%d services in compose.yaml, want all of them", len(file.Services))
	}
	for name, service := range file.Services {
		if limit, _ := service["mem_limit"].(string); limit == "" {
			t.Errorf("%s has no mem_limit", name)
		}
	}
}
