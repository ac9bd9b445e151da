//go:build !linux || !cgo

package filemap

import (
	"io"
	"os"
)

// Mapping is a file in memory.
type Mapping struct{ bytes []byte }

// Map reads a file.
func Map(f *os.File) (*Mapping, error) {
	bytes, err := io.ReadAll(f)
	return &Mapping{bytes}, err
}

// Bytes returns the bytes of the file.
func (m *Mapping) Bytes() []byte { return m.bytes }

// Err returns nil: the bytes are the process's own.
func (m *Mapping) Err() error { return nil }

// Close frees the memory.
func (m *Mapping) Close() error {
	m.bytes = nil
	return nil
}
