//go:build cgo

package jpeg

// #cgo LDFLAGS: -lturbojpeg
// #include <stdlib.h>
// #include <turbojpeg.h>
// #ifdef __GLIBC__
// #include <malloc.h>
// // malloc_trim leaves the upper end of every arena as it is, but for the first one's. Each thread that decodes may get an
// // arena, and keep a large picture's memory in it. This runs before there are other threads.
// __attribute__((constructor)) static void one_arena(void) { mallopt(M_ARENA_MAX, 1); }
// static void return_memory(void) { malloc_trim(0); }
// #else
// static void return_memory(void) {}
// #endif
import "C"

import (
	"errors"
	"fmt"
	"image"
)

// hasTurbo is for tests.
const hasTurbo = true

// decodeTurbo decodes what libjpeg-turbo has no word to say against.
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
	m := &RGB{Size: divided(size, shrink)}
	m.Pix = make([]byte, 3*m.Size.X*m.Size.Y)
	// It takes the largest scale, of those in eighths, that fits into the width and height it is given.
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

// ReturnMemory gives the memory that C has freed back to the system.
func ReturnMemory() { C.return_memory() }
