package schemas

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Limits on what the walker lets through. What lies below keys that no reader knows is skipped, never decoded, so these
// bounds are on work alone.
const (
	maxDepth         = 16      // nesting of arrays and maps below an unknown key
	maxUnknownValues = 1 << 12 // values below unknown keys, in one record
	maxOpenKeys      = 512     // unknown keys and free keys of the maps that are open at one time
	maxValueBytes    = 1 << 30 // of a record
)

// checkWellFormed verifies that value is exactly one msgpack map that a record of shape s can be decoded from.
//
// The decoder itself cannot be trusted with bytes from a topic: it allocates what a length declares before it looks
// for the bytes (a slice of records of 120 bytes each, for one byte of input each), wraps integers that are too large
// for their field, takes a str for a bin and an array for a map, and leaves trailing bytes unread. The walker refuses
// all of these beforehand:
//
//   - every length is checked against the bytes that are there, and every count against the bytes that its elements
//     need at least;
//   - a known key must hold the msgpack type of its field, within the range of the field; nil stands for a key that is
//     absent, and stands nowhere else;
//   - keys are str and appear once in a map; unknown keys are skipped, within the limits above;
//   - extension types, the reserved code and trailing bytes are refused.
//
// It wraps ErrMalformed for bytes that break msgpack itself or the limits, ErrInvalid for a value of a wrong type, and
// allocates nothing unless it fails.
func checkWellFormed(value []byte, s *shape) error {
	if int64(len(value)) > maxValueBytes {
		return fmt.Errorf("%w: %d bytes, want at most %d", ErrMalformed, len(value), maxValueBytes)
	}
	w := walker{b: value}
	if err := w.known(s); err != nil {
		return err
	}
	if w.pos != len(value) {
		return w.malformed("%d bytes after the end of the record", len(value)-w.pos)
	}
	return nil
}

// walker is a position in a value, and the keys of the maps that are open there.
type walker struct {
	b       []byte
	pos     int
	unknown int
	open    int
	keys    [maxOpenKeys]span
}

// span is a part of the value, which maxValueBytes keeps within 32 bits.
type span struct{ from, to uint32 }

// class is what a msgpack code announces, whatever its width.
type class uint8

const (
	classNil class = iota
	classBool
	classInt
	classBigUint // an unsigned integer above the largest int64
	classFloat32
	classFloat64
	classString
	classBytes
	classArray
	classMap
)

var classNames = [...]string{"nil", "bool", "int", "uint64", "float32", "float64", "str", "bin", "array", "map"}

func (c class) String() string { return classNames[c] }

func (w *walker) malformed(format string, args ...any) error {
	return fmt.Errorf("%w: byte %d: %s", ErrMalformed, w.pos, fmt.Sprintf(format, args...))
}

// known walks one value that must have shape s.
func (w *walker) known(s *shape) error {
	c, n, err := w.header()
	if err != nil {
		return err
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
		w.pos += int(n)
	case kindList:
		return w.list(s, int(n))
	case kindMap:
		return w.freeMap(s, int(n))
	case kindStruct:
		return w.structure(s, int(n))
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
			return fmt.Errorf("%.64q: %w", w.b[key.from:key.to], err)
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
		i := s.field(w.b[key.from:key.to], next)
		if i < 0 {
			if err := w.unknownField(s, base, key); err != nil {
				return err
			}
			continue
		}
		f := &s.fields[i]
		if seen&(1<<i) != 0 {
			return w.malformed("key %q appears twice", f.name)
		}
		seen |= 1 << i
		next = i + 1
		if w.pos < len(w.b) && w.b[w.pos] == 0xc0 { // nil: as if the key were absent
			w.pos++
			continue
		}
		if err := w.known(f.shape); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	w.open = base
	return nil
}

func (w *walker) unknownField(s *shape, base int, key span) error {
	if string(w.b[key.from:key.to]) == s.inlined {
		// The decoder knows an embedded struct by its Go name too, and would fill it from what was only skipped here.
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
		return w.malformed("more than %d values below unknown keys", maxUnknownValues)
	}
	c, n, err := w.header()
	if err != nil {
		return err
	}
	switch c {
	case classString, classBytes:
		w.pos += int(n)
		return nil
	case classArray, classMap:
		if depth == maxDepth {
			return w.malformed("nested deeper than %d", maxDepth)
		}
	case classNil, classBool, classInt, classBigUint, classFloat32, classFloat64:
		return nil
	}
	base := w.open
	for range n {
		if c == classMap {
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
func (w *walker) key() (span, error) {
	c, n, err := w.header()
	if err != nil {
		return span{}, err
	}
	if c != classString {
		return span{}, w.malformed("map key is %s, want str", c)
	}
	key := span{uint32(w.pos), uint32(w.pos + int(n))}
	w.pos += int(n)
	return key, nil
}

// openKey notes a key of the map whose keys start at base, and refuses it when that map has it already.
func (w *walker) openKey(base int, key span) error {
	text := w.b[key.from:key.to]
	for _, k := range w.keys[base:w.open] {
		if string(w.b[k.from:k.to]) == string(text) {
			return w.malformed("key %.64q appears twice", text)
		}
	}
	if w.open == maxOpenKeys {
		return w.malformed("more than %d unknown keys", maxOpenKeys)
	}
	w.keys[w.open] = key
	w.open++
	return nil
}

// header reads a code and what belongs to it: an integer's value, a str's or bin's length in bytes, an array's or
// map's number of elements. A length is never larger than the bytes that follow allow. It stops before the bytes of a
// str or bin and before the elements of an array or map.
//
//	0xxxxxxx int    1000nnnn map    1001nnnn array    101nnnnn str    111xxxxx int
//	c0 nil   c2, c3 bool   c4-c6 bin   ca, cb float   cc-cf uint   d0-d3 int   d9-db str   dc, dd array   de, df map
func (w *walker) header() (class, int64, error) {
	if w.pos >= len(w.b) {
		return 0, 0, w.malformed("the value ends where another was expected")
	}
	code := w.b[w.pos]
	w.pos++
	switch {
	case code <= 0x7f || code >= 0xe0:
		return classInt, int64(int8(code)), nil
	case code <= 0x8f:
		return w.container(classMap, int64(code&0x0f))
	case code <= 0x9f:
		return w.container(classArray, int64(code&0x0f))
	case code <= 0xbf:
		return w.run(classString, int64(code&0x1f))
	case code == 0xc0:
		return classNil, 0, nil
	case code == 0xc2 || code == 0xc3:
		return classBool, 0, nil
	}
	width := widths[code-0xc0]
	if width == 0 {
		w.pos--
		return 0, 0, w.malformed("code %#x is reserved or an extension type", code)
	}
	if len(w.b)-w.pos < int(width) {
		w.pos--
		return 0, 0, w.malformed("the value ends inside a number or a length")
	}
	n := w.number(int(width))
	switch {
	case code <= 0xc6:
		return w.run(classBytes, int64(n))
	case code == 0xca:
		return classFloat32, 0, nil
	case code == 0xcb:
		return classFloat64, 0, nil
	case code == 0xcf && n > math.MaxInt64:
		return classBigUint, 0, nil
	case code <= 0xcf:
		return classInt, int64(n), nil
	case code <= 0xd3:
		shift := 64 - 8*width
		return classInt, int64(n) << shift >> shift, nil
	case code <= 0xdb:
		return w.run(classString, int64(n))
	case code <= 0xdd:
		return w.container(classArray, int64(n))
	}
	return w.container(classMap, int64(n))
}

// widths holds, for codes 0xc0 to 0xdf, the bytes of the number or length that follows the code.
var widths = [32]uint8{
	4: 1, 5: 2, 6: 4, // bin
	10: 4, 11: 8, // float
	12: 1, 13: 2, 14: 4, 15: 8, // uint
	16: 1, 17: 2, 18: 4, 19: 8, // int
	25: 1, 26: 2, 27: 4, // str
	28: 2, 29: 4, // array
	30: 2, 31: 4, // map
}

func (w *walker) number(width int) uint64 {
	at := w.b[w.pos:]
	w.pos += width
	switch width {
	case 1:
		return uint64(at[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(at))
	case 4:
		return uint64(binary.BigEndian.Uint32(at))
	}
	return binary.BigEndian.Uint64(at)
}

// run checks the declared length of a str or bin.
func (w *walker) run(c class, n int64) (class, int64, error) {
	if left := int64(len(w.b) - w.pos); n > left {
		return 0, 0, w.malformed("%s of %d bytes where %d are left", c, n, left)
	}
	return c, n, nil
}

// container checks the declared count of an array or map: every element takes a byte at least, every entry two.
func (w *walker) container(c class, n int64) (class, int64, error) {
	least := n
	if c == classMap {
		least = 2 * n
	}
	if left := int64(len(w.b) - w.pos); least > left {
		return 0, 0, w.malformed("%s of %d elements where %d bytes are left", c, n, left)
	}
	return c, n, nil
}
