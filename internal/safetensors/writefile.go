package safetensors

import (
	"io"

	"github.com/pairstream/pairstream/internal/atomicfile"
)

// WriteFile writes a file that appears whole or not at all. A file that was there before is replaced.
func WriteFile(path string, tensors []NamedTensor, metadata map[string]string) error {
	return atomicfile.Write(path, 0o644, func(w io.Writer) error { return Write(w, tensors, metadata) })
}
