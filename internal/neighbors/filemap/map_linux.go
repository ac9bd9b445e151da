//go:build linux && cgo

package filemap

/*
#include "filemap.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// Mapping is a file in memory.
type Mapping struct {
	bytes []byte
	slot  C.int
}

// install puts our SIGBUS handler before that of the Go runtime, which gets all other faults.
var install = sync.OnceValue(func() error {
	if n := C.ps_filemap_install(); n != 0 {
		return fmt.Errorf("handling SIGBUS: %w", syscall.Errno(n))
	}
	return nil
})

// Map maps a file, which may then be closed and removed.
func Map(f *os.File) (*Mapping, error) {
	info, err := f.Stat()
	if err == nil {
		err = install()
	}
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return &Mapping{slot: -1}, nil
	}
	bytes, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", f.Name(), err)
	}
	slot := C.ps_filemap_watch(unsafe.Pointer(unsafe.SliceData(bytes)), C.size_t(len(bytes)))
	if slot < 0 {
		return nil, errors.Join(fmt.Errorf("mapping %s: too many files are mapped", f.Name()), syscall.Munmap(bytes))
	}
	return &Mapping{bytes, slot}, nil
}

// Bytes returns the bytes of the file.
func (m *Mapping) Bytes() []byte { return m.bytes }

// Err returns [ErrCut] when a part of the file could not be read.
func (m *Mapping) Err() error {
	if m.slot >= 0 && C.ps_filemap_cut(m.slot) != 0 {
		return ErrCut
	}
	return nil
}

// Close unmaps the file.
func (m *Mapping) Close() error {
	if m.slot < 0 {
		return nil
	}
	C.ps_filemap_forget(m.slot)
	err := syscall.Munmap(m.bytes)
	m.bytes, m.slot = nil, -1
	return err
}
