package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// storage is kfake's file system for its log. kfake writes on one goroutine and trusts the disk. storage makes this
// safe:
//
//   - It knows which files have changed since their last sync. Answers wait for them (durable.go).
//   - A file that replaces another is synced before it is renamed, and the folder after it.
//   - A failed write leaves nothing behind: the file is cut to its previous length.
//   - Every file is checked when read: a damaged file is an error, and stays unchanged (load.go).
//   - Every error is recorded, with its meaning for clients.
type storage struct {
	disk   disk
	root   string
	logger *slog.Logger
	own    map[string]*partition // the partitions' folders, while kfake loads the log

	mu      sync.Mutex
	folders map[string]*folder
	sealing map[string]*sealed // JSON files being written, by their temporary names
	indexes map[string][]byte  // of segments that were read, by kfake's names for them
	failed  error              // why the broker has stopped
	done    chan struct{}      // closed when failed is set
	topics  error              // why topics.json differs from kfake's topics
	loading bool
	damage  error           // why kfake cannot load the log, or make a new one
	frozen  bool            // no more writes
	closing bool            // the broker is being closed
	unkept  error           // the first error of closing
	short   error           // why the last batch could not be written; nil: it was written
	said    map[string]bool // kinds of files reported as not writable

	lost atomic.Int64 // number of entries of groups and producers that could not be written
}

func newStorage(d disk, root string, logger *slog.Logger) *storage {
	if d == nil {
		d = osDisk{}
	}
	return &storage{
		disk: d, root: root, logger: logger, folders: make(map[string]*folder), sealing: make(map[string]*sealed),
		indexes: make(map[string][]byte), said: make(map[string]bool), done: make(chan struct{}),
	}
}

// ErrStopped is wrapped by every error that clients in this process get from a broker that the disk has stopped.
var ErrStopped = errors.New("the embedded broker has stopped")

var errFrozen = errors.New("the log is left as it is")

// fail stops the broker, because its memory and its disk differ. The first error stays.
func (s *storage) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil && !s.frozen {
		s.failed = fmt.Errorf("%w: %w: acknowledged data is safe; repair the disk of %s, then start it again", ErrStopped, err, s.root)
		close(s.done)
		s.logger.Error("the embedded broker has stopped", keyErr, s.failed)
	}
	return s.failed
}

func (s *storage) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// passes reports whether an error may pass without the broker's help, such as a full disk or too few descriptors.
func passes(err error) bool {
	return noDescriptor(err) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

func noDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// refused records that a file could not be written. It returns the error, for kfake.
func (s *storage) refused(path string, err error) error {
	s.mu.Lock()
	frozen, closing := s.frozen || s.failed != nil, s.closing
	loading := s.loading
	if closing && !frozen && (s.unkept == nil || !passes(err)) { // a full disk is full for all of them
		s.unkept = errors.Join(s.unkept, err)
	}
	if loading && s.damage == nil {
		s.damage = err
	}
	s.mu.Unlock()
	name := filepath.Base(path)
	switch {
	case frozen || closing || loading:
	case !passes(err):
		_ = s.fail(err)
	case filepath.Ext(name) == segmentExt:
		s.set(func() { s.short = err })
		s.complain(segmentExt, err)
	case name == groupsFile || name == producersFile:
		s.lost.Add(1)
		s.complain(name, err)
	case name == topicsFile:
		s.set(func() { s.topics = err })
		s.complain(name, err)
	default:
		_ = s.fail(err)
	}
	return err
}

// complain reports once that files of a kind cannot be written, until one is.
func (s *storage) complain(kind string, err error) {
	s.mu.Lock()
	said := s.said[kind]
	s.said[kind] = true
	s.mu.Unlock()
	if !said {
		s.logger.Error("the embedded log cannot be written until there is room again", keyErr, err)
	}
}

// relieve withdraws a complaint.
func (s *storage) relieve(kind string) {
	if s.said[kind] {
		delete(s.said, kind)
		s.logger.Info("there is room again: the embedded log is written", keyFile, kind)
	}
}

func (s *storage) written(path string) {
	kind := filepath.Base(path)
	if filepath.Ext(path) == segmentExt {
		kind = segmentExt
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folderOf(path).files[filepath.Base(path)] = true
	if len(s.said) == 0 {
		return
	}
	s.relieve(kind)
	if kind == segmentExt {
		s.short = nil
	}
}

// folderOf returns the state of a file's folder. The caller holds the lock.
func (s *storage) folderOf(path string) *folder {
	dir := filepath.Dir(path)
	f := s.folders[dir]
	if f == nil {
		f = &folder{path: dir, files: make(map[string]bool)}
		s.folders[dir] = f
	}
	return f
}

func (s *storage) isFrozen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frozen || s.failed != nil || s.damage != nil
}

// OpenFile implements kfake's file system.
func (s *storage) OpenFile(name string, flag int, perm os.FileMode) (file, error) {
	writes := flag&(os.O_WRONLY|os.O_RDWR) != 0
	switch {
	case writes && s.isFrozen():
		return nil, errFrozen
	case strings.HasSuffix(name, ".json.tmp"):
		return s.seal(name), nil
	case filepath.Ext(name) == indexExt:
		return noFile{}, nil
	case s.loading && filepath.Ext(name) == segmentExt && writes: // to remove batches that do not match their checksums
		return nil, s.mismatched(name)
	case flag&os.O_CREATE != 0 && filepath.Ext(name) == segmentExt:
		if err := s.begin(name); err != nil {
			return nil, s.refused(name, err)
		}
	}
	f, err := s.disk.OpenFile(name, flag, perm)
	if err != nil {
		if writes {
			err = s.refused(name, err)
		}
		return nil, err
	}
	if !writes {
		return f, nil
	}
	out := &appended{file: f, s: s, path: name}
	if flag&os.O_TRUNC == 0 {
		info, err := s.disk.Stat(name)
		if err != nil {
			return nil, errors.Join(s.refused(name, err), f.Close())
		}
		out.size = info.Size()
	}
	return out, nil
}

// begin prepares the folder of a segment that is opened. It syncs the earlier segments before a new one, so that only
// the last one can end within a batch.
func (s *storage) begin(name string) error {
	if _, err := s.disk.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.mu.Lock()
	f := s.folderOf(name)
	s.mu.Unlock()
	if err := f.settle(s); err != nil {
		return err
	}
	s.mu.Lock()
	f.names = true
	s.mu.Unlock()
	return nil
}

// Rename implements kfake's file system. It returns once the file is on the disk under its new name.
func (s *storage) Rename(oldpath, newpath string) error {
	if s.isFrozen() {
		return errFrozen
	}
	s.mu.Lock()
	content := s.sealing[oldpath]
	delete(s.sealing, oldpath)
	s.mu.Unlock()
	var err error
	if content != nil {
		err = content.writeTo(s.disk, oldpath)
	} else {
		err = syncPath(s.disk, oldpath)
	}
	if err == nil {
		err = s.disk.Rename(oldpath, newpath)
	}
	if err == nil {
		err = syncPath(s.disk, filepath.Dir(newpath))
	}
	if err != nil {
		return s.refused(newpath, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.folderOf(oldpath).files, filepath.Base(oldpath))
	delete(s.folderOf(newpath).files, filepath.Base(newpath))
	if filepath.Base(newpath) == topicsFile {
		s.topics = nil
		s.relieve(topicsFile)
	}
	return nil
}

// Remove implements kfake's file system. Removals are durable: segments go in order, without holes.
func (s *storage) Remove(name string) error {
	if s.isFrozen() {
		return errFrozen
	}
	if filepath.Ext(name) == indexExt { // of an earlier version
		_ = s.disk.Remove(name) // nothing reads it
		return nil
	}
	stays, err := s.keepPlace(name)
	if err != nil && passes(err) {
		return err // the segment stays, and its records are back after a restart
	}
	if err == nil && !stays {
		err = s.disk.Remove(name)
	}
	if err == nil {
		err = syncPath(s.disk, filepath.Dir(name))
	}
	if err != nil {
		return s.refused(name, err)
	}
	return nil
}

// RemoveAll implements kfake's file system. A kill never leaves half of a folder.
func (s *storage) RemoveAll(path string) error {
	if s.isFrozen() {
		return errFrozen
	}
	gone := path + removedExt
	err := s.disk.RemoveAll(gone)
	if err == nil {
		err = s.disk.Rename(path, gone)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && passes(err): // a rename needs room, and this removal may be meant to make some
		gone, err = path, nil
	case err == nil:
		err = syncPath(s.disk, filepath.Dir(path))
	}
	if err == nil {
		err = s.disk.RemoveAll(gone)
	}
	if err != nil {
		return s.refused(path, err)
	}
	return nil
}

// MkdirAll implements kfake's file system.
func (s *storage) MkdirAll(path string, perm os.FileMode) error {
	if s.isFrozen() {
		return errFrozen
	}
	if err := makeFolders(s.disk, path, perm); err != nil {
		return s.refused(filepath.Join(path, segmentExt), err)
	}
	return nil
}

// makeFolders makes a folder and its parents, and syncs each name to the disk.
func makeFolders(d disk, path string, perm os.FileMode) error {
	if _, err := d.Stat(path); err == nil {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := makeFolders(d, parent, perm); err != nil {
			return err
		}
	}
	if err := d.MkdirAll(path, perm); err != nil {
		return err
	}
	return syncPath(d, parent)
}

// ReadDir implements kfake's file system.
func (s *storage) ReadDir(name string) ([]os.DirEntry, error) { return s.disk.ReadDir(name) }

// Stat implements kfake's file system.
func (s *storage) Stat(name string) (os.FileInfo, error) { return s.disk.Stat(name) }
