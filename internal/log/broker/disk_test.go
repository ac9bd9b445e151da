package broker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Calls to the operating system that change what a kill or a loss of power leaves.
const (
	opMake     = "make"
	opOpen     = "open"
	opWrite    = "write"
	opTruncate = "truncate"
	opSync     = "sync"
	opRename   = "rename"
	opRemove   = "remove"
)

// testDisk is the file system of the machine, with a look before every call that changes something. A call that gets an
// error from the look fails with it. A write then leaves the half of its bytes.
//
// testDisk also knows what a loss of power would leave: of every file its content at its last sync, under the name that
// the last sync of its folder has seen.
type testDisk struct {
	osDisk
	before func(op, path string) error // nil: nothing is disturbed
	tracks bool                        // keep what is needed for lose; calls then come one after the other

	serial  sync.Mutex
	writing []byte // by the call that is looked at

	mu    sync.Mutex
	names map[string]*inode            // of all files that were opened to be written, by path
	safe  map[string]map[string]*inode // of every folder that was synced: its files then
}

// inode is a file without its name.
type inode struct {
	content []byte // as it was synced
	synced  bool
	folder  bool
}

// alone lets calls come one after the other, so that what the look sees was there at one moment.
func (d *testDisk) alone() (done func()) {
	if !d.tracks {
		return func() {}
	}
	d.serial.Lock()
	return d.serial.Unlock
}

func (d *testDisk) look(op, path string) error {
	if d.before == nil {
		return nil
	}
	return d.before(op, path)
}

func (d *testDisk) OpenFile(name string, flag int, perm os.FileMode) (file, error) {
	defer d.alone()()
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		if err := d.look(opOpen, name); err != nil {
			return nil, err
		}
	}
	f, err := d.osDisk.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &testFile{f, d, name, d.track(name, flag&os.O_CREATE != 0)}, nil
}

// track returns the inode of a path. It makes one if the path was just created.
func (d *testDisk) track(name string, create bool) *inode {
	if !d.tracks {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names == nil {
		d.names, d.safe = make(map[string]*inode), make(map[string]map[string]*inode)
	}
	if d.names[name] == nil && create {
		d.names[name] = new(inode)
	}
	return d.names[name]
}

type testFile struct {
	file
	disk  *testDisk
	path  string
	inode *inode
}

func (f *testFile) Write(p []byte) (int, error) {
	defer f.disk.alone()()
	if f.disk.tracks {
		f.disk.writing = p
	}
	if err := f.disk.look(opWrite, f.path); err != nil {
		n, werr := f.file.Write(p[:len(p)/2])
		return n, errors.Join(err, werr)
	}
	return f.file.Write(p)
}

func (f *testFile) Truncate(size int64) error {
	defer f.disk.alone()()
	if err := f.disk.look(opTruncate, f.path); err != nil {
		return err
	}
	return f.file.Truncate(size)
}

func (f *testFile) Sync() error {
	defer f.disk.alone()()
	if err := f.disk.look(opSync, f.path); err != nil {
		return err
	}
	if !f.disk.tracks {
		return nil // a test that does not cut the power needs no disk either
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if info, err := os.Stat(f.path); err == nil && info.IsDir() {
		seen := make(map[string]*inode)
		for name, node := range f.disk.names {
			if filepath.Dir(name) == f.path {
				seen[filepath.Base(name)] = node
			}
		}
		f.disk.safe[f.path] = seen
		return nil
	}
	content, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was removed since it was opened
	}
	if f.inode != nil {
		f.inode.content, f.inode.synced = content, true
	}
	return err
}

func (d *testDisk) Rename(oldpath, newpath string) error {
	defer d.alone()()
	if err := d.look(opRename, newpath); err != nil {
		return err
	}
	if err := d.osDisk.Rename(oldpath, newpath); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, node := range d.names {
		if name == oldpath || strings.HasPrefix(name, oldpath+"/") {
			d.names[newpath+name[len(oldpath):]] = node
			delete(d.names, name)
		}
	}
	for name, seen := range d.safe {
		if name == oldpath {
			d.safe[newpath] = seen
			delete(d.safe, name)
		}
	}
	return nil
}

func (d *testDisk) Remove(name string) error {
	defer d.alone()()
	if err := d.look(opRemove, name); err != nil {
		return err
	}
	d.mu.Lock()
	delete(d.names, name)
	d.mu.Unlock()
	return d.osDisk.Remove(name)
}

func (d *testDisk) RemoveAll(path string) error {
	defer d.alone()()
	if err := d.look(opRemove, path); err != nil {
		return err
	}
	d.mu.Lock()
	for name := range d.names {
		if name == path || strings.HasPrefix(name, path+"/") {
			delete(d.names, name)
		}
	}
	d.mu.Unlock()
	return d.osDisk.RemoveAll(path)
}

func (d *testDisk) MkdirAll(path string, perm os.FileMode) error {
	defer d.alone()()
	if err := d.look(opMake, path); err != nil {
		return err
	}
	if d.tracks {
		d.track(path, true).folder = true
	}
	return d.osDisk.MkdirAll(path, perm)
}

// lose writes what a loss of power would leave of the folder from to the folder to.
func (d *testDisk) lose(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.loseIn(from, to)
}

func (d *testDisk) loseIn(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for name, node := range d.safe[from] {
		var err error
		if node.folder {
			err = d.loseIn(filepath.Join(from, name), filepath.Join(to, name))
		} else {
			err = os.WriteFile(filepath.Join(to, name), node.content, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
