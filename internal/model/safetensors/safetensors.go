// Package safetensors reads and writes weights files in the safetensors format.
//
// A file is
//
//	8 bytes   little-endian length n of the header
//	n bytes   JSON: {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ..., "__metadata__": {string: string}}
//	the rest  the tensors' bytes, row by row, little-endian; offsets count from here
//
// Guarantees:
//
//  1. A file may come from anywhere. Every length is checked against the file's size before anything is allocated for
//     it, tensors neither overlap nor leave gaps, and their sizes fit their shapes. Nothing in a file is executed.
//  2. [Write] makes the same bytes from the same tensors and metadata, in any order.
//
// A [File] is read into memory once and is safe for concurrent use. The package needs no cgo.
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
)

// ErrFormat marks a file that is not a well-formed safetensors file.
var ErrFormat = errors.New("not a safetensors file")

// maxHeaderBytes is the limit of the format's reference implementation.
const maxHeaderBytes = 100_000_000

const metadataKey = "__metadata__"

// File is a file's content.
type File struct {
	Metadata map[string]string
	tensors  map[string]Tensor
	names    []string
}

// Names lists the tensors in order of name.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Tensor looks a tensor up.
func (f *File) Tensor(name string) (Tensor, bool) {
	t, ok := f.tensors[name]
	return t, ok
}

// Open reads a file.
func Open(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("opening weights: %w", err)
	}
	f, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return f, nil
}

// Parse reads a file's bytes, which the tensors then refer to.
func Parse(data []byte) (*File, error) {
	if len(data) < 8 {
		return nil, fmt.Errorf("%w: %d bytes, want at least 8", ErrFormat, len(data))
	}
	n := binary.LittleEndian.Uint64(data)
	if n > maxHeaderBytes || n > uint64(len(data)-8) {
		return nil, fmt.Errorf("%w: header of %d bytes in a file of %d", ErrFormat, n, len(data))
	}
	metadata, entries, err := parseHeader(data[8 : 8+n])
	if err != nil {
		return nil, err
	}
	body := data[8+n:]
	if err := checkLayout(entries, int64(len(body))); err != nil {
		return nil, err
	}
	f := &File{Metadata: metadata, tensors: make(map[string]Tensor, len(entries))}
	for _, e := range entries {
		f.tensors[e.name] = Tensor{DType: e.DType, Shape: e.Shape, Data: body[e.Offsets[0]:e.Offsets[1]:e.Offsets[1]]}
		f.names = append(f.names, e.name)
	}
	slices.Sort(f.names)
	return f, nil
}

// ReadMetadata reads the beginning of a file and returns its metadata. It does not look at the tensors. A header that
// claims to be long costs memory as it arrives.
func ReadMetadata(r io.Reader) (map[string]string, error) {
	var length [8]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, short(err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeaderBytes {
		return nil, fmt.Errorf("%w: header of %d bytes", ErrFormat, n)
	}
	var header bytes.Buffer
	if _, err := io.CopyN(&header, r, int64(n)); err != nil {
		return nil, short(err)
	}
	metadata, _, err := parseHeader(header.Bytes())
	return metadata, err
}

// short marks the end of a file within its header. Other errors are those of the reader.
func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends within its header", ErrFormat)
	}
	return err
}

// entry is a tensor's description in the header.
type entry struct {
	name    string
	DType   string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

func parseHeader(header []byte) (map[string]string, []entry, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(header, &raw); err != nil {
		return nil, nil, fmt.Errorf("%w: parsing the header: %w", ErrFormat, err)
	}
	metadata := map[string]string{}
	if text, ok := raw[metadataKey]; ok {
		if err := json.Unmarshal(text, &metadata); err != nil {
			return nil, nil, fmt.Errorf("%w: parsing the metadata: %w", ErrFormat, err)
		}
		delete(raw, metadataKey)
	}
	entries := make([]entry, 0, len(raw))
	for name, text := range raw {
		e := entry{name: name}
		if err := json.Unmarshal(text, &e); err != nil {
			return nil, nil, fmt.Errorf("%w: parsing the entry of tensor %q: %w", ErrFormat, name, err)
		}
		entries = append(entries, e)
	}
	return metadata, entries, nil
}

// checkLayout checks that the tensors, put one after the other, are exactly the file's body.
func checkLayout(entries []entry, size int64) error {
	slices.SortFunc(entries, func(a, b entry) int {
		if a.Offsets != b.Offsets {
			return slices.Compare(a.Offsets[:], b.Offsets[:])
		}
		return bytes.Compare([]byte(a.name), []byte(b.name))
	})
	at := int64(0)
	for _, e := range entries {
		begin, end := e.Offsets[0], e.Offsets[1]
		if begin != at || end < begin || end > size {
			return fmt.Errorf("%w: tensor %q is at bytes %d to %d, want a start at %d and an end by %d",
				ErrFormat, e.name, begin, end, at, size)
		}
		want, err := byteSize(e.DType, e.Shape, size)
		if err != nil {
			return fmt.Errorf("%w: tensor %q: %w", ErrFormat, e.name, err)
		}
		if want != end-begin {
			return fmt.Errorf("%w: tensor %q of shape %v and type %s has %d bytes, want %d",
				ErrFormat, e.name, e.Shape, e.DType, end-begin, want)
		}
		at = end
	}
	if at != size {
		return fmt.Errorf("%w: %d bytes belong to no tensor", ErrFormat, size-at)
	}
	return nil
}

// byteSize is the size of a tensor, which must not be larger than limit.
func byteSize(dtype string, shape []int64, limit int64) (int64, error) {
	width, ok := elementBytes[dtype]
	if !ok {
		return 0, fmt.Errorf("unknown type %q", dtype)
	}
	n := width
	for _, d := range shape {
		if d < 0 || d > 0 && n > limit/d {
			return 0, fmt.Errorf("shape %v is impossible in %d bytes", shape, limit)
		}
		n *= d
	}
	return n, nil
}

// Write writes tensors in order of name.
func Write(w io.Writer, tensors []NamedTensor, metadata map[string]string) error {
	sorted := slices.Clone(tensors)
	slices.SortStableFunc(sorted, func(a, b NamedTensor) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	header, err := makeHeader(sorted, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("writing the header: %w", err)
	}
	for _, t := range sorted {
		if _, err := w.Write(t.Data); err != nil {
			return fmt.Errorf("writing tensor %s: %w", t.Name, err)
		}
	}
	return nil
}

// makeHeader makes the length and the JSON, which encoding/json writes with sorted keys.
func makeHeader(sorted []NamedTensor, metadata map[string]string) ([]byte, error) {
	fields := make(map[string]any, len(sorted)+1)
	if len(metadata) > 0 {
		fields[metadataKey] = metadata
	}
	at := int64(0)
	for _, t := range sorted {
		if _, taken := fields[t.Name]; taken || t.Name == metadataKey {
			return nil, fmt.Errorf("writing tensor %q: the name is taken", t.Name)
		}
		size, err := byteSize(t.DType, t.Shape, int64(len(t.Data)))
		if err != nil || size != int64(len(t.Data)) {
			return nil, fmt.Errorf("writing tensor %q: %d bytes for shape %v of type %s", t.Name, len(t.Data), t.Shape, t.DType)
		}
		shape := t.Shape
		if shape == nil {
			shape = []int64{}
		}
		fields[t.Name] = entry{DType: t.DType, Shape: shape, Offsets: [2]int64{at, at + size}}
		at += size
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("writing the header: %w", err)
	}
	for len(text)%8 != 0 {
		text = append(text, ' ') // readers may map the body, so it starts aligned
	}
	if len(text) > maxHeaderBytes {
		return nil, fmt.Errorf("writing the header: %d bytes, the limit is %d", len(text), maxHeaderBytes)
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), nil
}

// WriteFile writes a file that appears whole or not at all. A file that was there before is replaced.
func WriteFile(path string, tensors []NamedTensor, metadata map[string]string) error {
	return atomicfile.Write(path, 0o644, func(w io.Writer) error { return Write(w, tensors, metadata) })
}
