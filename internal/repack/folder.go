package repack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/atomicfile"
)

// Folder is a store on a disk that is mounted. Its file system must have hard links.
type Folder string

var _ Store = Folder("")

// Write implements [Store].
func (f Folder) Write(_ context.Context, name string, write func(io.Writer) error) error {
	path := filepath.Join(string(f), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := atomicfile.SyncFolder(string(f)); err != nil {
		return err
	}
	file, err := atomicfile.Create(path, 0o644)
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), file.Abort())
	}
	return file.CommitNew()
}

// Rewrite replaces an object.
func (f Folder) Rewrite(_ context.Context, name string, write func(io.Writer) error) error {
	return atomicfile.Write(filepath.Join(string(f), name), 0o644, write)
}

// Open implements [Store].
func (f Folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(string(f), name))
}
