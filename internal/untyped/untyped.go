// Package untyped reads msgpack whose type nobody vouches for: the bytes of a dead letter, and records that are compared
// field by field. It shows them as JSON and finds the first place where two of them differ.
//
// Guarantees:
//
//  1. [Decode] never panics, and what it allocates is bounded: lengths are checked against the bytes that are there, a
//     value has at most 2^20 elements, nested at most 64 deep.
//  2. A map keeps the order and the repetitions of its keys, so that two values are equal exactly if they say the same
//     in the same order.
//
// A value is nil, bool, int64, uint64 (above the largest int64), float32, float64, string, []byte, []any, [Map] or [Ext].
// The package is safe for concurrent use. It does not check values against a schema; that is what schemas is for.
package untyped

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrMalformed is what every error of Decode wraps.
var ErrMalformed = errors.New("not well-formed msgpack")

// Entry is a key of a map and its value.
type Entry struct{ Key, Value any }

// Map is a map in the order in which it was written.
type Map []Entry

// Ext is a value of an extension type.
type Ext struct {
	Type int8
	Data []byte
}

// Get returns the value of the first key with this name.
func (m Map) Get(name string) (any, bool) {
	for _, e := range m {
		if e.Key == name {
			return e.Value, true
		}
	}
	return nil, false
}

const (
	maxDepth  = 64
	maxValues = 1 << 20
)

// Decode reads exactly one value. Byte strings share memory with b.
func Decode(b []byte) (any, error) {
	d := decoder{rest: b, size: len(b)}
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if len(d.rest) > 0 {
		return nil, d.malformed("%d bytes after the value", len(d.rest))
	}
	return v, nil
}

type decoder struct {
	rest   []byte
	size   int
	values int
}

func (d *decoder) malformed(format string, args ...any) error {
	return fmt.Errorf("%w: byte %d: %s", ErrMalformed, d.size-len(d.rest), fmt.Sprintf(format, args...))
}

func (d *decoder) take(n uint64) ([]byte, error) {
	if n > uint64(len(d.rest)) {
		return nil, d.malformed("%d bytes announced, %d are there", n, len(d.rest))
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b, nil
}

// number reads a big-endian unsigned integer of width bytes.
func (d *decoder) number(width uint64) (uint64, error) {
	b, err := d.take(width)
	if err != nil {
		return 0, err
	}
	var whole [8]byte
	copy(whole[8-width:], b)
	return binary.BigEndian.Uint64(whole[:]), nil
}

func (d *decoder) value(depth int) (any, error) {
	d.values++
	if depth > maxDepth || d.values > maxValues {
		return nil, d.malformed("more than %d values, or nested deeper than %d", maxValues, maxDepth)
	}
	b, err := d.take(1)
	if err != nil {
		return nil, err
	}
	switch c := b[0]; {
	case c < 0x80:
		return int64(c), nil
	case c < 0x90:
		return d.mapping(uint64(c&0x0f), depth)
	case c < 0xa0:
		return d.list(uint64(c&0x0f), depth)
	case c < 0xc0:
		return d.text(uint64(c & 0x1f))
	case c >= 0xe0:
		return int64(int8(c)), nil
	default:
		return d.wide(c, depth)
	}
}

// wide reads a value whose code is followed by a number: its content or its length.
func (d *decoder) wide(c byte, depth int) (any, error) {
	switch c {
	case 0xc0:
		return nil, nil
	case 0xc2, 0xc3:
		return c == 0xc3, nil
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return d.extension(1 << (c - 0xd4))
	}
	width, ok := widths[c]
	if !ok {
		return nil, d.malformed("code %#x is not in use", c)
	}
	n, err := d.number(width)
	if err != nil {
		return nil, err
	}
	switch c {
	case 0xc4, 0xc5, 0xc6:
		return d.take(n)
	case 0xc7, 0xc8, 0xc9:
		return d.extension(n)
	case 0xca:
		return math.Float32frombits(uint32(n)), nil
	case 0xcb:
		return math.Float64frombits(n), nil
	case 0xd9, 0xda, 0xdb:
		return d.text(n)
	case 0xdc, 0xdd:
		return d.list(n, depth)
	case 0xde, 0xdf:
		return d.mapping(n, depth)
	case 0xd0, 0xd1, 0xd2, 0xd3:
		shift := 64 - 8*width
		return int64(n<<shift) >> shift, nil
	}
	if n > math.MaxInt64 {
		return n, nil
	}
	return int64(n), nil
}

// widths are the bytes of the number behind a code.
var widths = map[byte]uint64{
	0xc4: 1, 0xc5: 2, 0xc6: 4, 0xc7: 1, 0xc8: 2, 0xc9: 4, 0xca: 4, 0xcb: 8,
	0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8, 0xd0: 1, 0xd1: 2, 0xd2: 4, 0xd3: 8,
	0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4,
}

func (d *decoder) text(n uint64) (any, error) {
	b, err := d.take(n)
	return string(b), err
}

func (d *decoder) extension(n uint64) (any, error) {
	kind, err := d.take(1)
	if err != nil {
		return nil, err
	}
	data, err := d.take(n)
	return Ext{Type: int8(kind[0]), Data: data}, err
}

func (d *decoder) list(n uint64, depth int) (any, error) {
	if n > uint64(len(d.rest)) {
		return nil, d.malformed("%d elements announced, %d bytes are there", n, len(d.rest))
	}
	out := []any{}
	for range n {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (d *decoder) mapping(n uint64, depth int) (any, error) {
	if 2*n > uint64(len(d.rest)) {
		return nil, d.malformed("%d entries announced, %d bytes are there", n, len(d.rest))
	}
	out := Map{}
	for range n {
		key, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, Entry{key, v})
	}
	return out, nil
}
