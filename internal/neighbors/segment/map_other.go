//go:build !linux

package segment

import (
	"io"
	"os"
)

// Elsewhere segments lie on the Go heap; only the memory figures differ.
func reserve(size int) ([]byte, func() error, error) {
	return make([]byte, size), func() error { return nil }, nil
}

func mapFile(f *os.File) ([]byte, func() error, error) {
	raw, err := io.ReadAll(f)
	return raw, func() error { return nil }, err
}
