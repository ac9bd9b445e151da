package segment

import (
	"fmt"
	"os"
	"syscall"
)

// reserve maps zero pages outside the Go heap.
func reserve(size int) ([]byte, func() error, error) {
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	return mem, func() error { return syscall.Munmap(mem) }, err
}

// mapFile maps a file, which may lose its name meanwhile.
func mapFile(f *os.File) ([]byte, func() error, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Size() == 0 {
		return nil, nil, fmt.Errorf("%w: %s is empty", ErrInvalid, f.Name())
	}
	mem, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("mapping %s: %w", f.Name(), err)
	}
	return mem, func() error { return syscall.Munmap(mem) }, nil
}
