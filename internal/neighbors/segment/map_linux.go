package segment

import "syscall"

// reserve maps zero pages outside the Go heap.
func reserve(size int) ([]byte, func() error, error) {
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	return mem, func() error { return syscall.Munmap(mem) }, err
}
