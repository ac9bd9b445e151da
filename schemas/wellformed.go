package schemas

import (
	"fmt"
	"math"
)

// Limits of the walker on unknown keys and on nesting. The walker skips values below unknown keys without decoding
// them, so these limits bound its work alone.
const (
	maxDepth         = 16      // nesting of arrays and maps below an unknown key
	maxUnknownValues = 1 << 12 // values below unknown keys, in one record
	maxOpenKeys      = 512     // unknown keys and free keys of the maps that are open at one time
	maxValueBytes    = 1 << 30 // of a record
)

// checkWellFormed verifies that value is exactly one msgpack map that a record of shape s can be decoded from.
//
// The decoder itself cannot be trusted with bytes from a topic. It allocates a declared length before it looks for the
// bytes: one record of 120 bytes for each byte of input. It wraps integers that are too large for their field, and
// takes a str for a bin and an array for a map. It ignores trailing bytes. The walker refuses all of these beforehand:
//
//   - every length is checked against the bytes that are there, and every count against the bytes that its elements
//     need at least;
//   - a known key must hold the msgpack type of its field, within the range of the field;
//   - nil stands for a key that is absent, and stands nowhere else;
//   - keys are str and appear once in a map; unknown keys are skipped, within the limits above;
//   - extension types, the reserved code and trailing bytes are refused.
//
// It wraps ErrMalformed for bytes that break msgpack itself or the limits, and ErrInvalid for a value of a wrong
// type. It allocates nothing unless it fails.
func checkWellFormed(value []byte, s *shape) error {
	if int64(len(value)) > maxValueBytes {
		return fmt.Errorf("%w: %d bytes, want at most %d", ErrMalformed, len(value), maxValueBytes)
	}
	w := walker{Scanner: Scanner{Value: value}}
	if err := w.known(s); err != nil {
		return err
	}
	if w.Pos != len(value) {
		return w.Malformed("%d bytes after the end of the record", len(value)-w.Pos)
	}
	return nil
}

// PairIDOf returns the id that an encoded pair says it has. It checks nothing else: the hash of an image takes long.
func PairIDOf(value []byte) (id PairID, ok bool) {
	if len(value) > maxValueBytes {
		return id, false
	}
	w := walker{Scanner: Scanner{Value: value}}
	c, n, err := w.Head()
	if err != nil || c != ClassMap {
		return id, false
	}
	for range n {
		key, err := w.key()
		if err != nil {
			return id, false
		}
		if string(value[key.from:key.to]) == "id" {
			c, n, err := w.Head()
			ok := err == nil && c == ClassBytes && int(n) == len(id)
			if ok {
				copy(id[:], value[w.Pos:])
			}
			return id, ok
		}
		if w.skip(1) != nil {
			return id, false
		}
	}
	return id, false
}

// walker is a position in a value, and the keys of the maps that are open there.
type walker struct {
	Scanner
	unknown int
	open    int
	keys    [maxOpenKeys]byteRange
}

// byteRange is a part of the value, which maxValueBytes keeps within 32 bits.
type byteRange struct{ from, to uint32 }

// known walks one value that must have shape s.
func (w *walker) known(s *shape) error {
	c, n, err := w.Head()
	if err != nil {
		return err
	}
	if c == ClassExtension {
		return w.extension()
	}
	if !s.accepts(c) {
		return fmt.Errorf("%w: %s, want %s", ErrInvalid, c, s.kind)
	}
	switch s.kind {
	case kindInt32:
		if n < math.MinInt32 || n > math.MaxInt32 {
			return fmt.Errorf("%w: %d does not fit int32", ErrInvalid, n)
		}
	case kindString, kindBytes:
		if s.size > 0 && n != int64(s.size) {
			return fmt.Errorf("%w: %d bytes, want %d", ErrInvalid, n, s.size)
		}
		w.Pos += int(n)
	case kindList:
		return w.list(s, int(n))
	case kindMap:
		return w.freeMap(s, int(n))
	case kindStruct:
		return w.structure(s, int(n))
	case kindScalar:
		if c == ClassString {
			w.Pos += int(n)
		}
	case kindBool, kindInt64, kindFloat32, kindFloat64: // the header was all of it
	}
	return nil
}

func (w *walker) list(s *shape, n int) error {
	if n > s.size {
		return fmt.Errorf("%w: %d elements, want at most %d", ErrInvalid, n, s.size)
	}
	for i := range n {
		if err := w.known(s.elem); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
	}
	return nil
}

// freeMap walks a map whose keys are the writer's choice.
func (w *walker) freeMap(s *shape, n int) error {
	if n > s.size {
		return fmt.Errorf("%w: %d keys, want at most %d", ErrInvalid, n, s.size)
	}
	base := w.open
	for range n {
		key, err := w.key()
		if err != nil {
			return err
		}
		if err := w.openKey(base, key); err != nil {
			return err
		}
		if err := w.known(s.elem); err != nil {
			return fmt.Errorf("%.64q: %w", w.Value[key.from:key.to], err)
		}
	}
	w.open = base
	return nil
}

// structure walks a map whose keys are fields, in any order.
func (w *walker) structure(s *shape, n int) error {
	var seen uint64 // bit i: field i was there
	base, next := w.open, 0
	for range n {
		key, err := w.key()
		if err != nil {
			return err
		}
		i := s.field(w.Value[key.from:key.to], next)
		if i < 0 {
			if err := w.unknownField(s, base, key); err != nil {
				return err
			}
			continue
		}
		f := &s.fields[i]
		if seen&(1<<i) != 0 {
			return w.Malformed("key %q appears twice", f.name)
		}
		seen |= 1 << i
		next = i + 1
		if w.Pos < len(w.Value) && w.Value[w.Pos] == 0xc0 { // nil counts as an absent key
			w.Pos++
			continue
		}
		if err := w.known(f.shape); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	w.open = base
	return nil
}

func (w *walker) unknownField(s *shape, base int, key byteRange) error {
	if string(w.Value[key.from:key.to]) == s.inlined {
		// The decoder also accepts an embedded struct's Go name as a key. It would fill the struct from values that the
		// walker only skipped.
		return fmt.Errorf("%w: key %q is reserved", ErrInvalid, s.inlined)
	}
	if err := w.openKey(base, key); err != nil {
		return err
	}
	return w.skip(1)
}

// skip walks one value of any shape; depth is the number of containers around it.
func (w *walker) skip(depth int) error {
	if w.unknown++; w.unknown > maxUnknownValues {
		return w.Malformed("more than %d values below unknown keys", maxUnknownValues)
	}
	c, n, err := w.Head()
	if err != nil {
		return err
	}
	switch c {
	case ClassString, ClassBytes:
		w.Pos += int(n)
		return nil
	case ClassArray, ClassMap:
		if depth == maxDepth {
			return w.Malformed("nested deeper than %d", maxDepth)
		}
	case ClassExtension:
		return w.extension()
	case ClassNil, ClassBool, ClassInt, ClassBigUint, ClassFloat32, ClassFloat64:
		return nil
	}
	base := w.open
	for range n {
		if c == ClassMap {
			key, err := w.key()
			if err != nil {
				return err
			}
			if err := w.openKey(base, key); err != nil {
				return err
			}
		}
		if err := w.skip(depth + 1); err != nil {
			return err
		}
	}
	w.open = base
	return nil
}

// key reads a map key.
func (w *walker) key() (byteRange, error) {
	c, n, err := w.Head()
	if err != nil {
		return byteRange{}, err
	}
	if c != ClassString {
		return byteRange{}, w.Malformed("map key is %s, want str", c)
	}
	key := byteRange{uint32(w.Pos), uint32(w.Pos + int(n))}
	w.Pos += int(n)
	return key, nil
}

func (w *walker) extension() error { return w.Malformed("extension types are not used") }

// openKey notes a key of the map whose keys start at base. It refuses the key when that map has it already.
func (w *walker) openKey(base int, key byteRange) error {
	text := w.Value[key.from:key.to]
	for _, k := range w.keys[base:w.open] {
		if string(w.Value[k.from:k.to]) == string(text) {
			return w.Malformed("key %.64q appears twice", text)
		}
	}
	if w.open == maxOpenKeys {
		return w.Malformed("more than %d unknown keys", maxOpenKeys)
	}
	w.keys[w.open] = key
	w.open++
	return nil
}
