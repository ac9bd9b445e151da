// Package handover turns this process into the program beside it that computes with tensors.
//
// `pairstream` is static and starts in milliseconds. The few commands that compute with tensors belong to
// pairstream-tensors, which loads libtorch. [Exec] replaces the process, so arguments, environment, files, working
// directory and process id stay, and signals reach the program that works.
//
// If the program or one of its libraries is missing, Exec returns an error that names the remedy, and has started
// nothing. It is only for Unix.
package handover

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Program is the name of the program, in the folder of this one.
const Program = "pairstream-tensors"

// Reason is the variable in which a launcher explains why there are no tensors, with the remedy. The wheel's launcher
// looks for PyTorch, and knows more than the loader.
const Reason = "PAIRSTREAM_NO_TENSORS"

// Place is the variable in which a launcher names the program. The wheels install the two programs apart.
const Place = "PAIRSTREAM_TENSORS"

// remedy tells how to get the program with its libraries.
const remedy = "install it with the Debian package, the image or the wheels (pip install pairstream_tensors-*.whl), or build both from source with `make build`"

// Find returns the path of the program: that of Place in environ, or in the folder of this program, with links resolved.
func Find(environ []string) (string, error) {
	for _, pair := range environ {
		if path, ok := strings.CutPrefix(pair, Place+"="); ok && path != "" {
			return path, nil
		}
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", Program, err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", fmt.Errorf("looking for %s: %w", Program, err)
	}
	return filepath.Join(filepath.Dir(self), Program), nil
}

// Exec replaces this process by the program at path, with the arguments args, including the name, and the environment
// environ. what is the command or stage that needs tensors, for errors. Exec returns only on failure.
func Exec(ctx context.Context, what, path string, args, environ []string) error {
	for _, pair := range environ {
		if reason, ok := strings.CutPrefix(pair, Reason+"="); ok && reason != "" {
			return fmt.Errorf("%s computes with tensors: %s", what, reason)
		}
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s computes with tensors, and %s is not there: %s", what, path, remedy)
	}
	if lacking := lacking(ctx, path, environ); len(lacking) > 0 {
		return fmt.Errorf("%s computes with tensors, and %s does not find %s: %s", what, path, strings.Join(lacking, ", "), remedy)
	}
	return fmt.Errorf("%s computes with tensors: starting %s: %w", what, path, syscall.Exec(path, args, environ))
}

// lacking returns the libraries that the loader would not find for a program. Asking the loader takes a process, so it
// is asked only about a program with a library outside the usual folders.
func lacking(ctx context.Context, path string, environ []string) []string {
	file, err := elf.Open(path)
	if err != nil {
		return nil // the kernel reports the error
	}
	defer file.Close()
	needed, err := file.ImportedLibraries()
	if err != nil || len(needed) == 0 {
		return nil
	}
	folders := searched(file, path, environ)
	if !slices.ContainsFunc(needed, func(name string) bool { return !inOneOf(folders, name) }) {
		return nil
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = append(slices.Clone(environ), "LD_TRACE_LOADED_OBJECTS=1") // the loader prints the libraries, and runs nothing
	said, err := cmd.Output()
	if err != nil {
		return nil // exec reports the error
	}
	var missing []string
	for line := range strings.Lines(string(said)) {
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), " => not found"); ok {
			missing = append(missing, name)
		}
	}
	return missing
}

// searched returns folders in which the loader looks for a program's libraries. The list may be incomplete.
func searched(file *elf.File, path string, environ []string) []string {
	var folders []string
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		if list, err := file.DynString(tag); err == nil {
			for _, entry := range list {
				folders = append(folders, strings.Split(entry, ":")...)
			}
		}
	}
	for i, folder := range folders {
		folders[i] = strings.NewReplacer("$ORIGIN", filepath.Dir(path), "${ORIGIN}", filepath.Dir(path)).Replace(folder)
	}
	for _, pair := range environ {
		if list, ok := strings.CutPrefix(pair, "LD_LIBRARY_PATH="); ok {
			folders = append(folders, strings.Split(list, ":")...)
		}
	}
	for _, root := range []string{"/lib", "/usr/lib"} {
		folders = append(folders, root, root+"64")
		if machines, err := filepath.Glob(root + "/*-linux-gnu"); err == nil {
			folders = append(folders, machines...)
		}
	}
	return folders
}

// inOneOf reports whether a file lies in one of the folders.
func inOneOf(folders []string, name string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		_, err := os.Stat(filepath.Join(folder, name))
		return folder != "" && err == nil
	})
}
