package float16rows

import "syscall"

// reserve maps private zero pages. They take no memory before they are written, and do not count until then.
func reserve(size int) ([]byte, error) {
	return syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
}

func giveBack(mem []byte) error { return syscall.Munmap(mem) }
