package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/atomicfile"
)

// Dir implements [Store] on a folder.
type Dir string

// Has implements [Store].
func (d Dir) Has(_ context.Context, name string) (bool, error) {
	_, err := os.Stat(filepath.Join(string(d), name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Put implements [Store].
func (d Dir) Put(_ context.Context, name string, from *os.File) error {
	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return err
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(string(d), name), 0o644, func(w io.Writer) error {
		_, err := io.Copy(w, from)
		return err
	})
}

// putBytes stores a small file.
func putBytes(ctx context.Context, s Store, name string, data []byte) error {
	f, err := scratch()
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return s.Put(ctx, name, f)
}
