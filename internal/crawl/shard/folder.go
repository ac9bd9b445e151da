package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxOpenFiles bounds the tars of one root that are kept open: a training run reads a few at a time, over and over.
const maxOpenFiles = 128

// folder is a root on a file system. It opens files through an os.Root, so that no symbolic link leads out of it, and
// keeps the latest open, so that a read costs two system calls.
type folder struct {
	root *os.Root
	path string // without symbolic links

	mu   sync.Mutex
	open *simplelru.LRU[string, *openFile]
}

// openFile is a file that is kept open until it has been evicted and its last reader is done.
type openFile struct {
	f       *os.File
	readers int
	evicted bool
}

func openFolder(path string) (*folder, error) {
	real, err := filepath.EvalSymlinks(filepath.FromSlash(path))
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, err
	}
	d := &folder{root: root, path: real}
	d.open, err = simplelru.NewLRU(maxOpenFiles, evict)
	return d, err
}

// prefix returns the folder's path as it begins the paths of references.
func (d *folder) prefix() string { return strings.TrimSuffix(filepath.ToSlash(d.path), "/") }

func (d *folder) ReadRange(_ context.Context, name string, offset, size int64) ([]byte, error) {
	h, err := d.acquire(name)
	if err != nil {
		return nil, err
	}
	defer d.release(h)
	data, err := h.read(offset, size)
	if err != nil && !errors.Is(err, ErrTruncated) {
		d.forget(name) // an open file may have gone stale, on a network file system; the next try reopens it
	}
	return data, err
}

func (h *openFile) read(offset, size int64) ([]byte, error) {
	info, err := h.f.Stat()
	if err != nil {
		return nil, err
	}
	// Compared with the file before anything of that size is allocated; offset+size may overflow.
	if offset > info.Size()-size {
		return nil, fmt.Errorf("%w: the file has %d bytes", ErrTruncated, info.Size())
	}
	data := make([]byte, size)
	if _, err := h.f.ReadAt(data, offset); err != nil {
		if errors.Is(err, io.EOF) { // it shrank in between
			return nil, fmt.Errorf("%w: %w", ErrTruncated, err)
		}
		return nil, unreadable(err)
	}
	return data, nil
}

func (d *folder) acquire(name string) (*openFile, error) {
	d.mu.Lock()
	if h, ok := d.open.Get(name); ok {
		h.readers++
		d.mu.Unlock()
		return h, nil
	}
	d.mu.Unlock()

	// Opened without the lock: on a network file system it takes its time. Two may open the same file; the second to
	// come back closes its own and takes the first's.
	f, err := d.openRegular(name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if h, ok := d.open.Get(name); ok {
		h.readers++
		_ = f.Close() // it was only opened
		return h, nil
	}
	h := &openFile{f: f, readers: 1}
	d.open.Add(name, h)
	return h, nil
}

// openRegular opens a file and classifies the reasons for which it cannot be.
func (d *folder) openRegular(name string) (*os.File, error) {
	info, err := d.root.Stat(name) // before opening, which would wait for the writer of a pipe
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it is no regular file", ErrMissing)
	}
	var f *os.File
	if err == nil {
		f, err = d.root.Open(name)
	}
	switch {
	case err == nil:
		return f, nil
	case isAny(err, fs.ErrNotExist, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP):
		if gone := d.gone(); gone != nil {
			return nil, gone
		}
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	case d.throughLink(name):
		return nil, fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return nil, unreadable(err)
}

// gone returns an error when the folder is no longer at its path. Otherwise an unmounted file system would look like one
// that has lost every image.
func (d *folder) gone() error {
	now, err := os.Stat(d.path)
	if err != nil {
		return fmt.Errorf("the bucket root %s is gone: %s", d.path, err.Error())
	}
	opened, err := d.root.Stat(".")
	if err != nil || !os.SameFile(now, opened) {
		return fmt.Errorf("the bucket root %s is another folder than the one that was opened", d.path)
	}
	return nil
}

// unreadable marks the faults of a file system that may concern a single file.
func unreadable(err error) error {
	if isAny(err, fs.ErrPermission, syscall.EIO) {
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return err
}

// throughLink reports whether a name passes through symbolic links. os.Root refuses links that lead out of the folder,
// or might, with an error that it does not export.
func (d *folder) throughLink(name string) bool {
	plain := filepath.Join(d.path, filepath.FromSlash(name))
	real, err := filepath.EvalSymlinks(plain)
	return err == nil && real != plain
}

func (d *folder) release(h *openFile) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h.readers--
	h.closeIfUnused()
}

// evict is called by the LRU; the caller holds the folder's lock.
func evict(_ string, h *openFile) {
	h.evicted = true
	h.closeIfUnused()
}

// closeIfUnused closes an evicted file after its last reader.
func (h *openFile) closeIfUnused() {
	if h.evicted && h.readers == 0 {
		_ = h.f.Close() // it was only read
	}
}

func (d *folder) forget(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open.Remove(name)
}

// Close lets reads that are under way finish on their open files.
func (d *folder) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open.Purge()
	return d.root.Close()
}
