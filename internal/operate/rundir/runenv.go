package rundir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/operate/replay"
	"github.com/pairstream/pairstream/internal/process/config"
)

// EnvFile returns the path of run.env, which `pairstream up` and `pairstream demo` write beside the log. It has the
// settings of the run, one NAME=VALUE a line, for commands that read the run later.
func EnvFile(dir, namespace string) string {
	if namespace == "" {
		return filepath.Join(dir, "run.env")
	}
	return filepath.Join(dir, namespace+".run.env")
}

// changed is the prefix of lines with settings that differed between two starts of a run.
const changed = "# changed: "

// ChangesIn returns the changes of settings between starts that the file lists. A missing file has none.
func ChangesIn(path string) (changes []string, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(raw)) {
		if change, ok := strings.CutPrefix(strings.TrimSpace(line), changed); ok {
			changes = append(changes, change)
		}
	}
	return changes, err
}

// WriteEnv replaces the file. It keeps the list of changes and adds more.
func WriteEnv(dir, namespace string, settings map[string]string, more ...string) error {
	changes, err := ChangesIn(EnvFile(dir, namespace))
	if err != nil {
		return fmt.Errorf("reading the settings of the run before: %w", err)
	}
	for _, change := range more {
		if !slices.Contains(changes, change) {
			changes = append(changes, change)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing the run's settings: %w", err)
	}
	err = atomicfile.Write(EnvFile(dir, namespace), 0o600, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, "# settings of the run whose log lies beside this file; see pairstream run-manifest")
		for _, change := range changes {
			_, lineErr := fmt.Fprintln(w, changed+change)
			err = errors.Join(err, lineErr)
		}
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			if strings.ContainsFunc(settings[name], unicode.IsControl) { // a line end would begin further settings
				return fmt.Errorf("%s is %q: want no line end and no other control character", name, settings[name])
			}
			_, lineErr := fmt.Fprintf(w, "%s=%s\n", name, settings[name])
			err = errors.Join(err, lineErr)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing the run's settings: %w", err)
	}
	return nil
}

// ReadEnv returns the settings of a file, none if it does not exist.
func ReadEnv(path string) (map[string]string, error) {
	values, err := readEnv(path)
	if errors.Is(err, fs.ErrNotExist) {
		return make(map[string]string), nil
	}
	return values, err
}

// readEnv returns what a file sets, in the words of this build.
func readEnv(path string) (map[string]string, error) {
	values := make(map[string]string)
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading --env: %w", err)
	}
	for line := range strings.Lines(string(table.PlainText(raw))) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("reading --env %s: want NAME=VALUE in %q", path, line)
		}
		values[name] = value
	}
	return config.Renewed(values), nil
}

// EnvironOf returns the environment and, where it has none, the settings of a file.
func EnvironOf(path string) (map[string]string, error) { return environWith(path, nil) }

// environWith is EnvironOf without the settings of the file for which leftOut returns true.
func environWith(path string, leftOut func(name string) bool) (map[string]string, error) {
	values := make(map[string]string)
	if path != "" {
		var err error
		if values, err = readEnv(path); err != nil {
			return nil, err
		}
		if leftOut != nil {
			maps.DeleteFunc(values, func(name, _ string) bool { return leftOut(name) })
		}
	}
	for name, value := range config.Environ() {
		if value != "" { // an empty value counts as not set
			values[name] = value
		}
	}
	return values, nil
}

// EnvironIn returns the environment and, where it has none, the settings in the run.env of dir. Since the folder may
// come from a stranger, addresses and secrets of the file are ignored.
func EnvironIn(dir string) (map[string]string, error) {
	path := EnvFile(dir, config.Environ()["NAMESPACE"])
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		path = ""
	}
	return environWith(path, func(name string) bool { return replay.IsPlace(name) && name != "NAMESPACE" && name != "LANES" })
}
