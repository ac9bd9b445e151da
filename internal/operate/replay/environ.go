package replay

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/process/config"
)

// Settings returns the effective values of the settings that a run depends on: no secrets, no passwords in URLs, and
// nothing about connections, addresses and logs.
func Settings(known []config.Setting, environ map[string]string) map[string]string {
	values := make(map[string]string)
	for _, s := range known {
		if s.Secret || IsPlace(s.Variable) {
			continue
		}
		values[s.Variable] = display.Redacted(cmp.Or(environ[s.Variable], s.Default))
	}
	return values
}

// IsPlace reports whether a setting concerns the process, its connections and its credentials, and not its results.
func IsPlace(variable string) bool {
	for _, prefix := range []string{"KAFKA_", "HTTP_", "HEALTH_", "LOG_", "CONSOLE_", "INGEST_", "MASTER_", "RANK_", "OTEL_"} {
		if strings.HasPrefix(variable, prefix) {
			return true
		}
	}
	switch variable {
	case "NAMESPACE", "LANES", "LIVE_ADDR", "LIVE_TOKEN", "EVAL_EVERY", "EVAL_DATA", "CHECKPOINT_BEST", "CHECKPOINT_UPLOAD":
		return true
	}
	return false
}

// elsewhere matches the scheme of a URL at the beginning of a value.
var elsewhere = regexp.MustCompile(`^\s*([A-Za-z][A-Za-z0-9+.-]*)://`)

// programs are the extensions of weights files that contain a program: TorchScript.
var programs = []string{".pt", ".ts", ".torchscript"}

// opens names what a value would open that a stranger's manifest must not: a connection, which may receive credentials or
// pictures, or a program. It returns "" for other values.
func opens(s config.Setting, value string) string {
	switch {
	case s.Secret:
		return "a secret"
	case IsPlace(s.Variable):
		return "a connection or a place"
	case slices.Contains(programs, strings.ToLower(filepath.Ext(value))):
		return "weights that are a program"
	}
	for part := range strings.SplitSeq(value, ",") {
		if scheme := elsewhere.FindStringSubmatch(part); scheme != nil && !strings.EqualFold(scheme[1], "file") {
			return "a place on another machine"
		}
	}
	return ""
}

// warnUnknown warns of a setting that this version does not have, unless its value still holds.
func warnUnknown(warn func(format string, args ...any), name string, settings map[string]string) {
	line, _, known := config.RemovedSetting(name, settings)
	switch {
	case !known:
		warn("%s=%s: this version does not know the setting", name, display.Redacted(settings[name]))
	case line != "":
		warn("%s", line)
	}
}

// Place is where a replay runs.
type Place struct {
	Namespace   string
	Checkpoints string            // the trainer's folder
	Overrides   map[string]string // settings that differ from those of the manifest
}

// Environ returns the environment of a replay. Since a manifest may come from a stranger, connections, places and secrets
// come only from environ and the overrides, as do values that would open something (see opens). All other settings come
// from the manifest and the overrides. Warnings list what was left out and what may make the replay differ.
func (m *Manifest) Environ(known []config.Setting, environ map[string]string, p Place) (values map[string]string, warnings []string) {
	values = make(map[string]string)
	settings := make(map[string]config.Setting)
	for _, s := range known {
		settings[s.Variable] = s
		if v, ok := environ[s.Variable]; ok && (IsPlace(s.Variable) || s.Secret) {
			values[s.Variable] = v
		}
	}
	warn := func(format string, args ...any) {
		warnings = append(warnings, display.Printable(fmt.Sprintf(format, args...)))
	}
	ran := config.Renewed(m.Settings)
	for _, name := range slices.Sorted(maps.Keys(ran)) {
		value, here := ran[name], environ[name]
		s, ok := settings[name]
		if !ok {
			warnUnknown(warn, name, ran)
			continue
		}
		what := opens(s, value)
		if what == "" {
			values[name] = value
			continue
		}
		if here != "" {
			values[name] = here
		}
		if _, ok := p.Overrides[name]; ok || value == s.Default || value == display.Redacted(here) {
			continue
		}
		if s.Secret {
			value = display.Hidden
		}
		warn("%s=%s was left out: a manifest may not set %s; set it in the environment, or with --set %s=...", name, display.Redacted(value), what, name)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Overrides)) {
		if _, ok := settings[name]; !ok {
			warnUnknown(warn, name, p.Overrides)
			continue
		}
		values[name] = p.Overrides[name]
	}
	values["NAMESPACE"], values["LANES"] = p.Namespace, strconv.Itoa(m.Lanes)
	values["CHECKPOINT_DIR"], values["TRAIN_EXIT_AT_END"] = p.Checkpoints, "true"
	values["RANK"], values["WORLD_SIZE"] = "0", "1" // its records are those of several ranks
	for _, beside := range []string{"EVAL_EVERY", "EVAL_DATA", "CHECKPOINT_BEST", "CHECKPOINT_UPLOAD"} {
		delete(values, beside) // records do not depend on these, and copies of the original's checkpoints must not change
	}
	for _, listener := range []string{"LIVE_ADDR", "HTTP_ADDR", "HEALTH_ADDR", "INGEST_ADDR"} {
		delete(values, listener)
	}
	return values, warnings
}
