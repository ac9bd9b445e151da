package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/config"
)

// Settings returns the effective values of the settings that a run depends on: no secrets, and nothing about
// connections, addresses and logs.
func Settings(known []config.Setting, environ map[string]string) map[string]string {
	values := make(map[string]string)
	for _, s := range known {
		if s.Secret || isPlace(s.Variable) {
			continue
		}
		values[s.Variable] = s.Default
		if v := environ[s.Variable]; v != "" {
			values[s.Variable] = v
		}
	}
	return values
}

// isPlace reports whether a setting says where a process is and what it talks to, not what it makes of its input.
func isPlace(variable string) bool {
	for _, prefix := range []string{"KAFKA_", "HTTP_", "LOG_", "LIVE_ADDR", "CONSOLE_", "MASTER_", "RANK_", "OTEL_"} {
		if strings.HasPrefix(variable, prefix) {
			return true
		}
	}
	switch variable {
	case "NAMESPACE", "LANES", "EVAL_EVERY", "EVAL_DATA", "CHECKPOINT_BEST", "CHECKPOINT_UPLOAD":
		return true
	}
	return false
}

// Place is where a replay runs.
type Place struct {
	Namespace   string
	Checkpoints string            // folder of its own for the trainer
	Overrides   map[string]string // settings that differ from those of the manifest
}

// Environ returns the environment of a replay: connections from environ, everything else from the manifest and the
// overrides. Warnings say what may make the replay differ.
func (m *Manifest) Environ(known []config.Setting, environ map[string]string, p Place) (values map[string]string, warnings []string) {
	values = make(map[string]string)
	isKnown := make(map[string]bool)
	for _, s := range known {
		isKnown[s.Variable] = true
		if v, ok := environ[s.Variable]; ok && (isPlace(s.Variable) || s.Secret) {
			values[s.Variable] = v
		}
	}
	for _, from := range []map[string]string{m.Settings, p.Overrides} {
		for _, name := range slices.Sorted(maps.Keys(from)) {
			if !isKnown[name] {
				warnings = append(warnings, fmt.Sprintf("%s=%s: this version does not know the setting", name, from[name]))
				continue
			}
			values[name] = from[name]
		}
	}
	values["NAMESPACE"], values["LANES"] = p.Namespace, fmt.Sprint(m.Lanes)
	values["CHECKPOINT_DIR"], values["TRAIN_EXIT_AT_END"] = p.Checkpoints, "true"
	values["RANK"], values["WORLD_SIZE"] = "0", "1" // which makes what several ranks make
	for _, beside := range []string{"EVAL_EVERY", "EVAL_DATA", "CHECKPOINT_BEST", "CHECKPOINT_UPLOAD"} {
		delete(values, beside) // records do not depend on it, and copies of the original's checkpoints stay what they are
	}
	delete(values, "LIVE_ADDR")
	delete(values, "HTTP_ADDR")
	delete(values, "HEALTH_ADDR")
	return values, warnings
}
