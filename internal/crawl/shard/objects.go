package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
)

// Place stores objects by name: in a [Folder], or below a prefix of a bucket. An object appears when it is complete.
type Place interface {
	// Has reports whether there is an object.
	Has(ctx context.Context, name string) (bool, error)
	// Sizes lists the objects, with their sizes in bytes.
	Sizes(ctx context.Context) (map[string]int64, error)
	// Open opens an object. The error for a missing object wraps [io/fs.ErrNotExist].
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Put writes a file as an object.
	Put(ctx context.Context, name string, from *os.File) error
	// Write creates an object from the output of write. The error for an existing object wraps [io/fs.ErrExist].
	Write(ctx context.Context, name string, write func(io.Writer) error) error
	// Rewrite is Write, but replaces an existing object.
	Rewrite(ctx context.Context, name string, write func(io.Writer) error) error
	// Delete removes an object. In stores that report it, the error for a missing object wraps [io/fs.ErrNotExist].
	Delete(ctx context.Context, name string) error
	Close() error
}

// Store is a Place whose objects can also be listed and read in parts.
type Store interface {
	Catalog
	Place
}

// openStore opens stores; see [UseStores].
var openStore func(ctx context.Context, root *url.URL) (Store, error)

// UseStores sets the function that opens object stores; see package cloud. A program calls it once, before it opens a
// store.
func UseStores(open func(ctx context.Context, root *url.URL) (Store, error)) { openStore = open }

// OpenStore opens the store of a root whose scheme is not file.
func OpenStore(ctx context.Context, root *url.URL) (Store, error) {
	if openStore == nil {
		return nil, fmt.Errorf("no objects of scheme %q can be read here", root.Scheme)
	}
	return openStore(ctx, root)
}

// OpenPlace opens a folder, its file URL, or a URL such as s3://bucket/prefix. A URL without options takes those of the
// root that it lies under.
func OpenPlace(ctx context.Context, place string, roots []string) (Place, error) {
	u, err := url.Parse(withOptions(place, roots))
	switch {
	case IsRemote(place) && err != nil:
		return nil, err
	case IsRemote(place):
		return OpenStore(ctx, u)
	case err == nil && u.Scheme == "file":
		return Folder(filepath.FromSlash(u.Path)), nil
	}
	return Folder(place), nil
}

// Folder is a folder on a mounted disk. The file system must have hard links for [Folder.Write].
type Folder string

var _ Place = Folder("")

func (f Folder) path(name string) string { return filepath.Join(string(f), filepath.FromSlash(name)) }

// Has implements [Place].
func (f Folder) Has(_ context.Context, name string) (bool, error) {
	_, err := os.Stat(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Sizes implements [Place]. It leaves out pipes, devices, and files that vanish meanwhile.
func (f Folder) Sizes(context.Context) (map[string]int64, error) {
	sizes := make(map[string]int64)
	err := fs.WalkDir(os.DirFS(string(f)), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() && entry.Type() != fs.ModeSymlink {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			sizes[name] = info.Size()
		}
		return err
	})
	return sizes, err
}

// Open implements [Place]. It returns an [os.File], and does not wait for the writer of a pipe.
func (f Folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	file, err := os.OpenFile(f.path(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", file.Name())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Put implements [Place].
func (f Folder) Put(ctx context.Context, name string, from *os.File) error {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return f.Rewrite(ctx, name, func(w io.Writer) error {
		_, err := io.Copy(w, from)
		return err
	})
}

// Write implements [Place].
func (f Folder) Write(_ context.Context, name string, write func(io.Writer) error) error {
	path := f.path(name)
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

// Rewrite implements [Place].
func (f Folder) Rewrite(_ context.Context, name string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(f.path(name), 0o644, write)
}

// Delete implements [Place].
func (f Folder) Delete(_ context.Context, name string) error { return os.Remove(f.path(name)) }

// Close implements [Place].
func (f Folder) Close() error { return nil }
