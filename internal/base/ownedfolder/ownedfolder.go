// Package ownedfolder keeps what a command removes apart from what belongs to its user.
//
// A folder is ours when it is empty or holds our marker, a file that names the command. A command marks the folder
// before it writes anything else, so a run that was cut short finds its folder again. It empties and removes no other
// folder, and none that holds an input or lies in one ([Apart]). Symbolic links are followed before anything is
// compared or removed.
package ownedfolder

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
)

// Marker is the name of the file that makes a folder ours.
const Marker = ".pairstream"

// ErrForeign means that a folder holds what is not ours.
var ErrForeign = errors.New("the folder is not ours")

// Folder is a place that a command writes, and may empty or remove.
type Folder struct {
	Setting string // flag or variable that names the folder, such as --dir
	Path    string // as the user wrote it
	Kind    string // command that owns it, such as "pairstream demo"
}

// foreignError tells which folder is not ours, and what to do.
type foreignError struct {
	f    Folder
	what string
}

func (e *foreignError) Error() string {
	return fmt.Sprintf("%s is %q, which %s: `%s` would remove or overwrite files there; name a new folder, or empty this one yourself", e.f.Setting, e.f.Path, e.what, e.f.Kind)
}

func (e *foreignError) Is(target error) bool { return target == ErrForeign }

// Check returns an error that wraps [ErrForeign] unless the folder is ours or not there. It changes nothing.
func (f Folder) Check() error {
	_, err := f.look()
	return err
}

// look returns where the folder lies, and an error unless it is ours.
func (f Folder) look() (at string, err error) {
	if f.Path == "" {
		return "", fmt.Errorf("%s is empty: name a folder", f.Setting)
	}
	if at, err = Resolve(f.Path); err != nil {
		return "", fmt.Errorf("%s is %q: %w", f.Setting, f.Path, err)
	}
	entries, err := os.ReadDir(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return at, nil
	case err != nil:
		return "", fmt.Errorf("%s is %q, want a folder: %w", f.Setting, f.Path, err)
	}
	if len(entries) == 0 {
		return at, nil
	}
	kind, err := kindOf(filepath.Join(at, Marker))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &foreignError{f, fmt.Sprintf("holds %q and no %s", entries[0].Name(), Marker)}
	case err != nil:
		return "", fmt.Errorf("%s is %q: %w", f.Setting, f.Path, err)
	case kind != f.Kind:
		return "", &foreignError{f, fmt.Sprintf("belongs to `%s`", kind)}
	}
	return at, nil
}

// kindOf returns the first line of a marker.
func kindOf(marker string) (string, error) {
	file, err := os.Open(marker)
	if err != nil {
		return "", err
	}
	defer file.Close()
	line, err := bufio.NewReader(io.LimitReader(file, 200)).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", marker, err)
	}
	return strings.TrimSuffix(line, "\n"), nil
}

// Claim makes the folder and marks it. It refuses a folder that is not ours, and returns where the folder lies.
func (f Folder) Claim() (at string, err error) {
	if at, err = f.look(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return "", fmt.Errorf("%s is %q: %w", f.Setting, f.Path, err)
	}
	marker := filepath.Join(at, Marker)
	if _, err := os.Lstat(marker); err == nil {
		return at, nil
	}
	err = atomicfile.Write(marker, 0o644, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s\nThis file says who owns the folder. The command may remove everything in it.\n", f.Kind)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("%s is %q: %w", f.Setting, f.Path, err)
	}
	return at, nil
}

// Empty claims the folder and removes everything in it except the marker.
func (f Folder) Empty() error {
	at, err := f.Claim()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(at)
	for _, e := range entries {
		if e.Name() != Marker {
			err = errors.Join(err, os.RemoveAll(filepath.Join(at, e.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("emptying %s=%s: %w", f.Setting, f.Path, err)
	}
	return nil
}

// Remove removes entries of a folder that is ours. Without names it removes the folder, the marker last.
func (f Folder) Remove(names ...string) error {
	at, err := f.look()
	if err != nil {
		return err
	}
	if len(names) > 0 {
		for _, name := range names {
			err = errors.Join(err, os.RemoveAll(filepath.Join(at, name)))
		}
		return err
	}
	if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := f.Empty(); err != nil {
		return err
	}
	return os.RemoveAll(at)
}

// Resolve returns the absolute path behind all symbolic links. The end of the path need not be there.
func Resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for {
		at, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(at, rest), nil
		}
		if _, there := os.Lstat(path); there == nil || !errors.Is(err, fs.ErrNotExist) { // a link that leads nowhere, or a file above
			return "", err
		}
		path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest)
	}
}

// Place is a file or folder that a setting names. An empty path is none.
type Place struct{ Setting, Path string }

// Apart refuses a folder that holds one of the places, lies in one of them, or is one.
func (f Folder) Apart(places ...Place) error { return f.compare(places, true) }

// Without refuses a folder that holds one of the places. It may lie in one.
func (f Folder) Without(places ...Place) error { return f.compare(places, false) }

func (f Folder) compare(places []Place, both bool) error {
	at, err := Resolve(f.Path)
	if err != nil {
		return fmt.Errorf("%s is %q: %w", f.Setting, f.Path, err)
	}
	for _, p := range places {
		if p.Path == "" {
			continue
		}
		other, err := Resolve(p.Path)
		if err != nil {
			return fmt.Errorf("%s is %q: %w", p.Setting, p.Path, err)
		}
		relation := ""
		switch {
		case within(other, at) && within(at, other):
			relation = "are one folder"
		case within(other, at):
			relation = fmt.Sprintf("%s lies in %s", p.Setting, f.Setting)
		case both && within(at, other):
			relation = fmt.Sprintf("%s lies in %s", f.Setting, p.Setting)
		default:
			continue
		}
		return fmt.Errorf("%s is %q and %s is %q: %s, and `%s` removes files in %s; name a folder apart from it",
			f.Setting, f.Path, p.Setting, p.Path, relation, f.Kind, f.Setting)
	}
	return nil
}

// within reports whether a path is a folder or lies in it, by name or by what the disk says.
func within(path, folder string) bool {
	is, err := os.Stat(folder)
	for {
		if path == folder {
			return true
		}
		if err == nil {
			if here, gone := os.Stat(path); gone == nil && os.SameFile(is, here) {
				return true
			}
		}
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
}
