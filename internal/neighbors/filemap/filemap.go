// Package filemap maps files for reading, and outlives their loss. A file that is cut while it is mapped, or a disk
// that cannot read a page, would end the process with SIGBUS, wherever its bytes are used: in Go, in C, on any thread.
// Here the rest of the mapping becomes zeros instead, and [Mapping.Err] says so. Whoever has used the bytes asks it
// before the result counts.
//
// A cut within the last page that is left makes zeros without an error: that is what the system shows behind a file's
// end.
//
// A Mapping may be read by any number of goroutines until Close. Without cgo, or on another system than Linux, the
// bytes are read into memory.
package filemap

import "errors"

// ErrCut says that a part of a mapped file could not be read.
var ErrCut = errors.New("the file was cut while it was mapped, or its disk cannot be read")
