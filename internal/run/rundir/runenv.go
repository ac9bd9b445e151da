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

// EnvFile returns the file that `pairstream up` and `pairstream demo` leave beside the log. It has the settings of
// the run, NAME=VALUE in each line, for the commands that look at the run later.
func EnvFile(dir, namespace string) string {
	if namespace == "" {
		return filepath.Join(dir, "run.env")
	}
	return filepath.Join(dir, namespace+".run.env")
}

// changed begins the line of a setting that differed between two starts of a run.
const changed = "# changed: "

// ChangesIn returns what the file says of settings that have changed between two starts. Without a file there are none.
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

// WriteEnv replaces the file. It keeps what the file says of changes, and adds more.
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
			if strings.ContainsFunc(settings[name], unicode.IsControl) { // it would be further settings
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

// ReadEnv returns what a file sets. Without a file that is nothing.
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

// EnvironOf returns the environment, completed by what a file sets. The environment takes precedence.
func EnvironOf(path string) (map[string]string, error) { return environWith(path, nil) }

// environWith does what environOf does, without the settings of the file that are left out.
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
		if value != "" { // for settings, an empty value is as good as none
			values[name] = value
		}
	}
	return values, nil
}

// EnvironIn returns the environment, completed by the settings that the run left whose log lies in dir, if it left
// any. The folder may be a stranger's, so its file says neither where to connect nor with which secrets.
func EnvironIn(dir string) (map[string]string, error) {
	path := EnvFile(dir, os.Getenv("NAMESPACE"))
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		path = ""
	}
	return environWith(path, func(name string) bool { return replay.IsPlace(name) && name != "NAMESPACE" && name != "LANES" })
}
