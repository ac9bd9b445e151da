package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/base/display"
)

// mostFileBytes bounds the size of a settings file. One with all settings and their meanings has 32 KiB.
const mostFileBytes = 1 << 20

// file holds the settings of a file, by variable.
type file struct {
	path     string
	settings map[string]inFile
}

// inFile is the value of a setting, as the environment would have it, and its line.
type inFile struct {
	value string
	line  int
}

// inUse is the file of --config, if there is one.
var inUse file

// Use puts the settings of a TOML file below the environment. Programs call it before anything else, with the value of
// --config. It refuses a file that cannot be read, and joins everything in it that is no setting or has another form:
// "FILE:LINE: problem".
func Use(path string) error {
	f, err := readFile(path)
	if err != nil {
		f = file{}
	}
	inUse = f
	return err
}

// UseNone forgets the file of [Use].
func UseNone() { inUse = file{} }

// Check returns how many settings a file has, and everything that is wrong with them: what [Use] refuses, and what
// [Parse] of a T refuses about them. The environment adds the settings that the file does not have.
func Check[T any](path string) (int, error) {
	f, err := readFile(path)
	problems := leaves([]error{err})
	environ := Environ()
	for variable, s := range f.settings {
		environ[variable] = s.value
	}
	for { // values that do not parse hide what does not fit together
		cfg, err := fill[T](environ)
		parsed := err == nil
		if parsed {
			err = validate(reflect.ValueOf(&cfg).Elem(), "")
		}
		wrong := f.blamed(environ, err)
		problems = append(problems, slices.Collect(maps.Values(wrong))...)
		if parsed || len(wrong) == 0 {
			return len(f.settings), joinOnce(inOrder(problems))
		}
		for variable := range wrong {
			delete(environ, variable)
		}
	}
}

// readFile returns the settings of a file, and an error that joins all that it refuses. The settings are then the others.
func readFile(path string) (file, error) {
	shown := display.Printable(path)
	if path == "" {
		return file{}, errors.New("--config names no file")
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return file{}, fmt.Errorf("%s: there is no such file: --config names a TOML file; `pairstream settings --toml` prints one", shown)
	case err != nil:
		return file{}, fmt.Errorf("reading --config: %w", err)
	case info.IsDir():
		return file{}, fmt.Errorf("%s is a folder: --config names a TOML file", shown)
	case !info.Mode().IsRegular():
		return file{}, fmt.Errorf("%s is no regular file: --config names a TOML file", shown)
	case info.Size() > mostFileBytes:
		return file{}, fmt.Errorf("%s has %d bytes, want at most %d: --config names a TOML file of settings", shown, info.Size(), mostFileBytes)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return file{}, fmt.Errorf("reading --config: %w", err)
	}
	settings, findings := parseTOML(raw)
	problems := make([]error, len(findings))
	for i, p := range findings {
		problems[i] = finding{shown, p.line, p.text}
	}
	return file{shown, settings}, joinOnce(problems)
}

// finding is a problem with a line of a file.
type finding struct {
	path string
	line int
	text string
}

func (f finding) Error() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.text) }

// inOrder sorts findings by their lines.
func inOrder(problems []error) []error {
	line := func(err error) (n int) {
		if f, ok := errors.AsType[finding](err); ok {
			n = f.line
		}
		return n
	}
	slices.SortFunc(problems, func(a, b error) int {
		if n := line(a) - line(b); n != 0 {
			return n
		}
		return strings.Compare(a.Error(), b.Error())
	})
	return problems
}

// located puts FILE:LINE before each problem that names a setting of the file.
func (f file) located(environ map[string]string, err error) error {
	if len(f.settings) == 0 {
		return err
	}
	problems := leaves([]error{err})
	for i, problem := range problems {
		if at, _, ok := f.find(environ, problem); ok {
			problems[i] = renamed{at.Error(), problem}
		}
	}
	return errors.Join(problems...)
}

// blamed returns the problems that name a setting of the file, each by the first such setting.
func (f file) blamed(environ map[string]string, err error) map[string]error {
	out := map[string]error{}
	for _, problem := range leaves([]error{err}) {
		if at, variable, ok := f.find(environ, problem); ok {
			out[variable] = errors.Join(out[variable], at)
		}
	}
	return out
}

// find returns a problem with the place of the first setting that it names and whose value is that of the file.
func (f file) find(environ map[string]string, problem error) (finding, string, bool) {
	text := display.Redacted(problem.Error())
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') }) {
		if s, ok := f.settings[word]; ok && environ[word] == s.value {
			return finding{f.path, s.line, text}, word, true
		}
	}
	return finding{}, "", false
}
