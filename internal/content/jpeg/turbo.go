//go:build cgo

package jpeg

// #cgo LDFLAGS: -lturbojpeg
// #include <stdlib.h>
// #include <turbojpeg.h>
// #ifdef __GLIBC__
// #include <malloc.h>
// #include <stdint.h>
// #include <sys/mman.h>
// // Each thread that decodes may get an arena, and keep some of a picture's memory in it. With one arena, the threads that
// // compute with tensors wait for each other; with two they do not. This runs before there are other threads.
// __attribute__((constructor)) static void two_arenas(void) { mallopt(M_ARENA_MAX, 2); }
// static void return_memory(void) { malloc_trim(0); }
// // return_top gives back the upper end of the calling thread's arena. malloc_trim does that for the first arena alone. The
// // end is at most 64 MiB: it takes it in two pieces, gives back their pages, and frees them.
// static void return_top(void) {
//   enum { page = 4096, piece = (32 << 20) - 16 * page };
//   char *pieces[2];
//   for (int i = 0; i < 2; i++) {
//     pieces[i] = malloc(piece);
//     if (pieces[i] != NULL) {
//       char *first = (char *)(((uintptr_t)pieces[i] + page - 1) / page * page);
//       madvise(first, piece - page, MADV_DONTNEED); // the first bytes may lie before the first page
//     }
//   }
//   free(pieces[1]);
//   free(pieces[0]);
// }
// #else
// static void return_memory(void) {}
// static void return_top(void) {}
// #endif
import "C"

import (
	"errors"
	"fmt"
	"image"
	"runtime"
)

// large is the number of pixels above which a progressive picture takes at least 1.5 MiB of C's memory.
const large = 1 << 19

// hasTurbo is for tests.
const hasTurbo = true

// decodeTurbo decodes a file if libjpeg-turbo has neither errors nor warnings.
func decodeTurbo(encoded []byte, size image.Point, shrink int) (*RGB, error) {
	if len(encoded) == 0 || size.X <= 0 || size.Y <= 0 {
		return nil, errors.New("nothing to decode")
	}
	handle := C.tjInitDecompress()
	if handle == nil {
		return nil, turboError(nil)
	}
	defer C.tjDestroy(handle) // fails for no handle only
	start, length := (*C.uchar)(&encoded[0]), C.ulong(len(encoded))
	var w, h, sampling, space C.int
	if C.tjDecompressHeader3(handle, start, length, &w, &h, &sampling, &space) != 0 {
		return nil, turboError(handle)
	}
	switch {
	case int(w) != size.X || int(h) != size.Y:
		return nil, fmt.Errorf("%d x %d pixels, want %v", w, h, size)
	case space != C.TJCS_YCbCr && space != C.TJCS_GRAY && space != C.TJCS_RGB:
		return nil, errors.New("colours that are not red, green and blue")
	}
	if size.X*size.Y >= large {
		runtime.LockOSThread() // a thread keeps its arena
		defer runtime.UnlockOSThread()
		defer C.return_top()
	}
	m := &RGB{Size: divided(size, shrink)}
	m.Pix = make([]byte, 3*m.Size.X*m.Size.Y)
	// libjpeg-turbo chooses the largest scale, in eighths, that fits into the given width and height.
	const flags = C.TJFLAG_ACCURATEDCT | C.TJFLAG_STOPONWARNING | C.TJFLAG_LIMITSCANS
	if C.tjDecompress2(handle, start, length, (*C.uchar)(&m.Pix[0]), C.int(m.Size.X), 0, C.int(m.Size.Y), C.TJPF_RGB, flags) != 0 {
		return nil, turboError(handle)
	}
	return m, nil
}

// divided rounds up, as libjpeg-turbo does.
func divided(size image.Point, by int) image.Point {
	return image.Pt((size.X+by-1)/by, (size.Y+by-1)/by)
}

func turboError(handle C.tjhandle) error {
	return errors.New(C.GoString(C.tjGetErrorStr2(handle)))
}

// ReturnMemory returns memory freed by C to the system.
func ReturnMemory() { C.return_memory() }
