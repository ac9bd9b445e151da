package latest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/atomicfile"
)

// Setting is the value of ENCODER_CHECKPOINT that means the trainer's weights.
const Setting = "@latest"

const ending = ".safetensors"

// Folder returns the folder of published weights, in the folder of checkpoints.
func Folder(checkpoints string) string { return filepath.Join(checkpoints, "published") }

// File returns the path of published weights.
func File(checkpoints, fingerprint string) string {
	return filepath.Join(Folder(checkpoints), fingerprint+ending)
}

// Prune removes all published weights but those that stay, and what interrupted writes have left.
func Prune(checkpoints string, stay []string) error {
	entries, err := os.ReadDir(Folder(checkpoints))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		name, ours := strings.CutSuffix(e.Name(), ending)
		if ours && !slices.Contains(stay, name) || strings.HasPrefix(e.Name(), ".") && strings.HasSuffix(e.Name(), ".tmp") {
			err = errors.Join(err, os.Remove(filepath.Join(Folder(checkpoints), e.Name())))
		}
	}
	return err
}

// Hash returns the SHA-256 of a file.
func Hash(path string) (sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Copy brings published weights into another folder of checkpoints. It checks that the file is the one that was announced.
func Copy(from, to string, w Weights) (err error) {
	path := File(from, w.Fingerprint)
	sum, err := Hash(path)
	if err != nil {
		return err
	}
	if sum != w.SHA256 && w.SHA256 != "" {
		return fmt.Errorf("%s has the SHA-256 %s, want %s: it is not the file that the trainer has published", path, sum, w.SHA256)
	}
	if err := os.MkdirAll(Folder(to), 0o755); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return atomicfile.Write(File(to, w.Fingerprint), 0o644, func(out io.Writer) error {
		_, err := io.Copy(out, file)
		return err
	})
}
