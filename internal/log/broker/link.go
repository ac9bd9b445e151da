package broker

import (
	"io"
	"os"
	_ "unsafe" // for go:linkname

	"github.com/twmb/franz-go/pkg/kfake"
)

// kfake reads and writes its files through an unexported interface. Durability has to be added there, so withFS reaches
// the option through the linker. The interfaces here have kfake's methods in the same order, and so the same method
// tables. TestInterfacesAreKfakes fails if a new kfake has others.

// file is an open file or folder.
type file = interface {
	io.Writer
	io.Reader
	io.Closer
	Seek(offset int64, whence int) (int64, error)
	Truncate(size int64) error
	Sync() error
}

// disk is a file system. Tests use others, which fail or lose unsynced data.
type disk = interface {
	OpenFile(name string, flag int, perm os.FileMode) (file, error)
	Rename(oldpath, newpath string) error
	Remove(name string) error
	RemoveAll(path string) error
	MkdirAll(path string, perm os.FileMode) error
	ReadDir(name string) ([]os.DirEntry, error)
	ReadFile(name string) ([]byte, error)
	Stat(name string) (os.FileInfo, error)
}

//go:linkname withFS github.com/twmb/franz-go/pkg/kfake.withFS
func withFS(fs disk) kfake.Opt

// osDisk is the file system of the machine.
type osDisk struct{}

func (osDisk) OpenFile(name string, flag int, perm os.FileMode) (file, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err // a nil *os.File would be a non-nil file
	}
	return f, nil
}
func (osDisk) Rename(oldpath, newpath string) error         { return os.Rename(oldpath, newpath) }
func (osDisk) Remove(name string) error                     { return os.Remove(name) }
func (osDisk) RemoveAll(path string) error                  { return os.RemoveAll(path) }
func (osDisk) MkdirAll(path string, perm os.FileMode) error { return os.MkdirAll(path, perm) }
func (osDisk) ReadDir(name string) ([]os.DirEntry, error)   { return os.ReadDir(name) }
func (osDisk) ReadFile(name string) ([]byte, error)         { return os.ReadFile(name) }
func (osDisk) Stat(name string) (os.FileInfo, error)        { return os.Stat(name) }

// syncPath syncs a file, or the names in a folder, to the disk.
func syncPath(d disk, path string) error {
	f, err := d.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
