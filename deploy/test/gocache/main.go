// Command gocache copies this machine's modules and compiled packages for an image that has nowhere to download from.
// Compiling anew there would take minutes. It copies only what building a module's programs needs.
//
//	gocache OUT DIR STATIC SHARED      what building packages of the module in DIR needs: those of the list STATIC, with
//	                                   commas between, without cgo, and those of SHARED with it
//
// OUT/modules is a module proxy (GOPROXY=file://...) that has all that `go mod download` asks for. OUT/build is a build
// cache. It has the compiled result of each package, and the entry by which Go finds it. What is missing on this
// machine is downloaded and compiled first. Compilers run with -trimpath, since otherwise a result does not count in
// another folder. An entry that does not fit there, because a tool differs, does no harm: the package is compiled
// again.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: gocache OUT DIR STATIC SHARED")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "gocache:", err)
		os.Exit(1)
	}
}

func run(out, dir, static, shared string) error {
	if err := storeModules(filepath.Join(out, "modules"), dir, nil); err != nil {
		return err
	}
	cache, err := goOutput(dir, nil, "env", "GOCACHE")
	if err != nil {
		return err
	}
	cache, build := strings.TrimSpace(cache), filepath.Join(out, "build")
	if err := copyCompiled(build, cache, dir, "CGO_ENABLED=0", strings.Split(static, ",")); err != nil {
		return err
	}
	return copyCompiled(build, cache, dir, "CGO_ENABLED=1", strings.Split(shared, ","))
}

// storeModules makes a module proxy of what the module in dir needs. It downloads all of that first. A build fills the
// module cache only as far as it looks at modules, and an image has nowhere to get the others from.
func storeModules(to, dir string, env []string) error {
	if _, err := goOutput(dir, env, "mod", "download"); err != nil {
		return err
	}
	cache, err := goOutput(dir, env, "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	return copyModules(to, filepath.Join(strings.TrimSpace(cache), "cache", "download"), filepath.Join(dir, "go.sum"))
}

func goOutput(dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), "go", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running go %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// copyModules copies what the module cache has of the modules that go.sum names.
func copyModules(to, from, sums string) error {
	f, err := os.Open(sums)
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			return fmt.Errorf("reading %s: %q", sums, lines.Text())
		}
		kinds := []string{".info", ".mod", ".zip", ".ziphash"}
		version, modOnly := strings.CutSuffix(fields[1], "/go.mod")
		if modOnly {
			kinds = kinds[:2]
		}
		for _, kind := range kinds {
			path := filepath.Join(escape(fields[0]), "@v", escape(version)+kind)
			if err := copyFile(filepath.Join(to, path), filepath.Join(from, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// escape writes a module's path as the proxy protocol does. A capital letter becomes an exclamation mark and the small
// letter.
func escape(path string) string {
	var b strings.Builder
	for _, r := range path {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// copyCompiled copies the entries of all packages that the given ones need. The first half of a build ID is the
// beginning of the entry's name, in another alphabet.
func copyCompiled(to, from, dir, env string, packages []string) error {
	list := append([]string{"list", "-trimpath", "-tags", "disable_grpc_modules,netgo,osusergo", "-export", "-deps", "-f", "{{with .BuildID}}{{.}} {{$.Export}}{{end}}"}, packages...)
	out, err := goOutput(dir, []string{env}, list...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		id, export, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue // package unsafe
		}
		action, _, _ := strings.Cut(id, "/")
		raw, err := base64.RawURLEncoding.DecodeString(action)
		if err != nil {
			return fmt.Errorf("reading build ID %q: %w", id, err)
		}
		name := hex.EncodeToString(raw)
		entries, err := filepath.Glob(filepath.Join(from, name[:2], name+"*-a"))
		if err != nil {
			return err
		}
		for _, path := range append(entries, export) {
			inside, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			if err := copyFile(filepath.Join(to, inside), path); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyFile links the file, or copies it to another file system.
func copyFile(to, from string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Link(from, to); err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}
