package schemas

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Scanner reads msgpack one code at a time, and never beyond the end of Value. Validation uses it, and so does the
// display of untrusted bytes. It allocates only when it fails.
type Scanner struct {
	Value []byte
	Pos   int
}

// Malformed returns an error that wraps ErrMalformed and names the byte where the scanner is.
func (s *Scanner) Malformed(format string, args ...any) error {
	return fmt.Errorf("%w: byte %d: %s", ErrMalformed, s.Pos, fmt.Sprintf(format, args...))
}

// Class is the kind of value that a msgpack code announces, whatever its width.
type Class uint8

const (
	ClassNil Class = iota
	ClassBool
	ClassInt
	ClassBigUint // an unsigned integer above the largest int64
	ClassFloat32
	ClassFloat64
	ClassString
	ClassBytes
	ClassArray
	ClassMap
	ClassExtension
)

var classNames = [...]string{"nil", "bool", "int", "uint64", "float32", "float64", "str", "bin", "array", "map", "extension"}

func (c Class) String() string { return classNames[c] }

// Head reads a code and its value: an integer, the bits of a float or of a large unsigned integer, or 1 for true. For a
// str, bin or extension the value is the length in bytes, for an array or map the number of elements. Head refuses a
// length that exceeds the bytes that follow. It stops before the bytes of a str or bin, before the type of an
// extension, and before the elements of an array or map.
//
//	0xxxxxxx int    1000nnnn map    1001nnnn array    101nnnnn str    111xxxxx int
//	c0 nil   c2, c3 bool   c4-c6 bin   ca, cb float   cc-cf uint   d0-d3 int   d9-db str   dc, dd array   de, df map
//	c7-c9, d4-d8 extension
func (s *Scanner) Head() (Class, int64, error) {
	if s.Pos >= len(s.Value) {
		return 0, 0, s.Malformed("the value ends where another was expected")
	}
	code := s.Value[s.Pos]
	s.Pos++
	switch {
	case code <= 0x7f || code >= 0xe0:
		return ClassInt, int64(int8(code)), nil
	case code <= 0x8f:
		return s.container(ClassMap, int64(code&0x0f))
	case code <= 0x9f:
		return s.container(ClassArray, int64(code&0x0f))
	case code <= 0xbf:
		return s.run(ClassString, int64(code&0x1f))
	case code == 0xc0:
		return ClassNil, 0, nil
	case code == 0xc2 || code == 0xc3:
		return ClassBool, int64(code & 1), nil
	case code >= 0xd4 && code <= 0xd8:
		return s.extension(1 << (code - 0xd4))
	}
	width := widths[code-0xc0]
	if width == 0 {
		s.Pos--
		return 0, 0, s.Malformed("code %#x is reserved", code)
	}
	if len(s.Value)-s.Pos < int(width) {
		s.Pos--
		return 0, 0, s.Malformed("the value ends inside a number or a length")
	}
	n := s.number(int(width))
	switch {
	case code <= 0xc6:
		return s.run(ClassBytes, int64(n))
	case code <= 0xc9:
		return s.extension(int64(n))
	case code == 0xca:
		return ClassFloat32, int64(n), nil
	case code == 0xcb:
		return ClassFloat64, int64(n), nil
	case code == 0xcf && n > math.MaxInt64:
		return ClassBigUint, int64(n), nil
	case code <= 0xcf:
		return ClassInt, int64(n), nil
	case code <= 0xd3:
		shift := 64 - 8*width
		return ClassInt, int64(n) << shift >> shift, nil
	case code <= 0xdb:
		return s.run(ClassString, int64(n))
	case code <= 0xdd:
		return s.container(ClassArray, int64(n))
	}
	return s.container(ClassMap, int64(n))
}

// widths holds, for codes 0xc0 to 0xdf, the bytes of the number or length that follows the code.
var widths = [32]uint8{
	4: 1, 5: 2, 6: 4, // bin
	7: 1, 8: 2, 9: 4, // extension
	10: 4, 11: 8, // float
	12: 1, 13: 2, 14: 4, 15: 8, // uint
	16: 1, 17: 2, 18: 4, 19: 8, // int
	25: 1, 26: 2, 27: 4, // str
	28: 2, 29: 4, // array
	30: 2, 31: 4, // map
}

func (s *Scanner) number(width int) uint64 {
	at := s.Value[s.Pos:]
	s.Pos += width
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
func (s *Scanner) run(c Class, n int64) (Class, int64, error) {
	if left := int64(len(s.Value) - s.Pos); n > left {
		return 0, 0, s.Malformed("%s of %d bytes where %d are left", c, n, left)
	}
	return c, n, nil
}

// extension checks the declared length of an extension, whose type comes before its bytes.
func (s *Scanner) extension(n int64) (Class, int64, error) {
	if left := int64(len(s.Value) - s.Pos); n+1 > left {
		return 0, 0, s.Malformed("extension of %d bytes where %d are left", n, left)
	}
	return ClassExtension, n, nil
}

// container checks the declared count of an array or map: every element takes a byte at least, every entry two.
func (s *Scanner) container(c Class, n int64) (Class, int64, error) {
	least := n
	if c == ClassMap {
		least = 2 * n
	}
	if left := int64(len(s.Value) - s.Pos); least > left {
		return 0, 0, s.Malformed("%s of %d elements where %d bytes are left", c, n, left)
	}
	return c, n, nil
}
