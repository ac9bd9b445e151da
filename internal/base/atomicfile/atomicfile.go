// Package atomicfile writes files that appear whole under their names or not at all, and that outlast a loss of power.
//
// A file is written under a temporary name in the folder where it belongs, synced, renamed, and then the folder is
// synced. After a crash at any moment the name leads to the old content or to the new one. What a crash leaves behind
// is a file whose name begins with a dot and ends in .tmp.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Calls to the operating system whose order the promise rests on; a test records them.
var (
	syncFile   = (*os.File).Sync
	rename     = os.Rename
	link       = os.Link
	syncFolder = openAndSync
)

// File is a file on its way to its name.
type File struct {
	*os.File
	path string
	done bool
}

// Create begins a file that takes its name by [File.Commit].
func Create(path string, mode os.FileMode) (*File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*.tmp")
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(mode); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &File{File: f, path: path}, nil
}

// Commit gives the file its name and replaces what had it. A file that cannot have it is removed.
func (f *File) Commit() error {
	f.done = true
	err := errors.Join(syncFile(f.File), f.Close())
	if err == nil {
		err = rename(f.Name(), f.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", f.path, err), os.Remove(f.Name()))
	}
	return SyncFolder(filepath.Dir(f.path))
}

// CommitNew gives the file its name, unless another file has it. Then the error wraps [fs.ErrExist], and the file is
// removed. The file system must have hard links.
func (f *File) CommitNew() error {
	f.done = true
	err := errors.Join(syncFile(f.File), f.Close())
	if err == nil {
		err = link(f.Name(), f.path)
	}
	if err := errors.Join(err, os.Remove(f.Name())); err != nil {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	return SyncFolder(filepath.Dir(f.path))
}

// Abort removes the file; after [File.Commit] it does nothing.
func (f *File) Abort() error {
	if f.done {
		return nil
	}
	f.done = true
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Write writes a whole file. The writer that it hands out is buffered.
func Write(path string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := Create(path, mode)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := errors.Join(write(w), w.Flush()); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), f.Abort())
	}
	return f.Commit()
}

// Copy writes the bytes of another file.
func Copy(from, path string, mode os.FileMode) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	return Write(path, mode, func(w io.Writer) error {
		_, err := io.Copy(w, source)
		return err
	})
}

// SyncFolder puts what was made, renamed or removed in a folder onto the disk. It does not sync the files in it.
func SyncFolder(path string) error { return syncFolder(path) }

func openAndSync(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
