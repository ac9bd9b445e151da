package safetensors

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/durable"
)

// WriteFile writes a file that appears whole or not at all: under a temporary name in the same folder, synced, then
// renamed. A file that was there before is replaced.
func WriteFile(path string, tensors []NamedTensor, metadata map[string]string) error {
	if err := writeFile(path, tensors, metadata); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func writeFile(path string, tensors []NamedTensor, metadata map[string]string) error {
	out, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(out)
	err = errors.Join(Write(buffered, tensors, metadata), buffered.Flush(), out.Chmod(0o644), out.Sync(), out.Close())
	if err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(out.Name()))
	}
	return durable.SyncFolder(filepath.Dir(path))
}
