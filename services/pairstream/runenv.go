package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/config"
)

// runEnvFile is the file that `pairstream up` and `pairstream demo` leave beside the log: the settings of the run, a
// NAME=VALUE a line, for the commands that look at it later.
func runEnvFile(dir, namespace string) string {
	if namespace == "" {
		return filepath.Join(dir, "run.env")
	}
	return filepath.Join(dir, namespace+".run.env")
}

// writeRunEnv replaces the file.
func writeRunEnv(dir, namespace string, settings map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing the run's settings: %w", err)
	}
	path := runEnvFile(dir, namespace)
	f, err := os.CreateTemp(dir, ".run.env-*")
	if err != nil {
		return fmt.Errorf("writing the run's settings: %w", err)
	}
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "# settings of the run whose log lies beside this file; see pairstream run-manifest")
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(w, "%s=%s\n", name, settings[name])
	}
	if err = errors.Join(w.Flush(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing the run's settings: %w", err), os.Remove(f.Name()))
	}
	return nil
}

// environOf is the environment, and below it what a file sets.
func environOf(path string) (map[string]string, error) {
	values := make(map[string]string)
	if path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading --env: %w", err)
		}
		for line := range strings.Lines(string(raw)) {
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
	}
	for name, value := range config.Environ() {
		if value != "" { // set to nothing is as not set, for settings
			values[name] = value
		}
	}
	return values, nil
}

// environIn is the environment, and below it the settings of the run whose log lies in dir, if it has left them.
func environIn(dir string) (map[string]string, error) {
	path := runEnvFile(dir, os.Getenv("NAMESPACE"))
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		path = ""
	}
	return environOf(path)
}
