package compose

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func services(t *testing.T) map[string]map[string]any {
	t.Helper()
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
	return file.Services
}

// No container may take all of the machine's memory.
func TestEveryServiceHasAMemoryLimit(t *testing.T) {
	for name, service := range services(t) {
		if limit, _ := service["mem_limit"].(string); limit == "" {
			t.Errorf("%s has no mem_limit", name)
		}
	}
}

// What the documents put into settings.env reaches the trainer: compose reads the file, and sets none of it to another
// value.
func TestSettingsFileReachesTheTrainer(t *testing.T) {
	trainer := services(t)["trainer"]
	if files := fmt.Sprint(trainer["env_file"]); !strings.Contains(files, "path:settings.env") {
		t.Errorf("the trainer reads %s, want settings.env", files)
	}
	text, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "With compose they go into `deploy/settings.env`")
	_, example, _ = strings.Cut(example, "\n\n")
	example, _, _ = strings.Cut(example, "\n\n")
	set, _ := trainer["environment"].(map[string]any)
	lines := strings.Fields(example)
	if len(lines) < 5 || len(set) < 5 {
		t.Fatalf("operations.md sets %q, compose.yaml %v", lines, set)
	}
	for _, line := range lines {
		name, _, isSetting := strings.Cut(line, "=")
		if _, taken := set[name]; taken || !isSetting {
			t.Errorf("%s of operations.md has no effect: compose.yaml sets it", line)
		}
	}
}
