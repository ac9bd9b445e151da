// Package filemap maps files for reading, and survives their loss. If a mapped file is truncated, or a disk cannot read
// a page, any use of its bytes would end the process with SIGBUS: in Go, in C, on any thread. Here the rest of the
// mapping becomes zeros instead, and [Mapping.Err] reports it. Call it after using the bytes and before using the
// result.
//
// A truncation within the last remaining page makes zeros without an error, because the system fills the rest of a
// file's last page with zeros.
//
// Any number of goroutines may read a Mapping until Close. Without cgo, or on another system than Linux, the bytes are
// read into memory.
package filemap

import "errors"

// ErrCut means that a part of a mapped file could not be read.
var ErrCut = errors.New("the file was cut while it was mapped, or its disk cannot be read")
