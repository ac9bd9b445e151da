// Package msgvalue reads untrusted msgpack of unknown type: the bytes of a dead letter, and records that are compared
// field by field. It shows them as JSON and finds the first difference of two.
//
// Guarantees:
//
//  1. [Decode] never panics, and its errors wrap [schemas.ErrMalformed]. It bounds its allocations by checking
//     lengths against the bytes that are there. A value has at most 2^20 elements, nested at most 64 deep.
//  2. A map keeps the order and the repetitions of its keys. So two values are equal exactly if they have the same
//     entries in the same order.
//
// A value is nil, bool, int64, uint64 (above the largest int64), float32, float64, string, []byte, []any, [Map] or
// [Ext]. The package is safe for concurrent use. Package schemas checks values against a schema; this one does not.
package msgvalue

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/pairstream/pairstream/schemas"
)

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
	d := decoder{Scanner: schemas.Scanner{Value: b}}
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if left := len(b) - d.Pos; left > 0 {
		return nil, d.Malformed("%d bytes after the value", left)
	}
	return v, nil
}

type decoder struct {
	schemas.Scanner
	values int
}

func (d *decoder) value(depth int) (any, error) {
	d.values++
	if depth > maxDepth || d.values > maxValues {
		return nil, d.Malformed("more than %d values, or nested deeper than %d", maxValues, maxDepth)
	}
	class, n, err := d.Head()
	if err != nil {
		return nil, err
	}
	switch class {
	case schemas.ClassBool:
		return n == 1, nil
	case schemas.ClassInt:
		return n, nil
	case schemas.ClassBigUint:
		return uint64(n), nil
	case schemas.ClassFloat32:
		return math.Float32frombits(uint32(n)), nil
	case schemas.ClassFloat64:
		return math.Float64frombits(uint64(n)), nil
	case schemas.ClassString:
		return string(d.take(n)), nil
	case schemas.ClassBytes:
		return d.take(n), nil
	case schemas.ClassExtension:
		kind := d.take(1)
		return Ext{Type: int8(kind[0]), Data: d.take(n)}, nil
	case schemas.ClassArray:
		return d.list(n, depth)
	case schemas.ClassMap:
		return d.mapping(n, depth)
	case schemas.ClassNil:
	}
	return nil, nil
}

// take returns the next n bytes. Head has checked that they exist.
func (d *decoder) take(n int64) []byte {
	from := d.Pos
	d.Pos += int(n)
	return d.Value[from:d.Pos:d.Pos]
}

func (d *decoder) list(n int64, depth int) (any, error) {
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

func (d *decoder) mapping(n int64, depth int) (any, error) {
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

// JSON shows a value for people. It keeps the order of maps and shows keys that are no strings as text. It shows bytes
// as hexadecimal digits, shortened when there are many.
func JSON(v any) []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, appendJSON(nil, v), "", "  "); err != nil {
		panic(fmt.Sprintf("msgvalue: writing JSON: %v", err)) // a bug in appendJSON
	}
	return out.Bytes()
}

// Short shows a value in one line of at most about 80 characters.
func Short(v any) string {
	const most = 80
	text := []rune(string(appendJSON(nil, v)))
	if len(text) > most {
		return string(text[:most-1]) + "…"
	}
	return string(text)
}

// shownBytes is the number of bytes shown of a byte string: enough for ids and digests.
const shownBytes = 32

func appendJSON(out []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(out, "null"...)
	case bool:
		return strconv.AppendBool(out, v)
	case int64:
		return strconv.AppendInt(out, v, 10)
	case uint64:
		return strconv.AppendUint(out, v, 10)
	case float32:
		return appendFloat(out, float64(v), 32)
	case float64:
		return appendFloat(out, v, 64)
	case string:
		return appendText(out, v)
	case []byte:
		return appendText(out, bytesText(v))
	case Ext:
		return appendText(out, fmt.Sprintf("extension %d: %s", v.Type, bytesText(v.Data)))
	case []any:
		out = append(out, '[')
		for i, elem := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendJSON(out, elem)
		}
		return append(out, ']')
	case Map:
		out = append(out, '{')
		for i, e := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendText(out, keyText(e.Key)), ':')
			out = appendJSON(out, e.Value)
		}
		return append(out, '}')
	}
	panic(fmt.Sprintf("msgvalue: no JSON for %T", v))
}

func bytesText(b []byte) string {
	if len(b) <= shownBytes {
		return hex.EncodeToString(b)
	}
	return fmt.Sprintf("%x… (%d bytes)", b[:shownBytes/2], len(b))
}

func keyText(key any) string {
	if s, ok := key.(string); ok {
		return s
	}
	return Short(key)
}

// appendFloat writes values without a JSON number as text.
func appendFloat(out []byte, v float64, bits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return appendText(out, strconv.FormatFloat(v, 'g', -1, bits))
	}
	return strconv.AppendFloat(out, v, 'g', -1, bits)
}

func appendText(out []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(fmt.Sprintf("msgvalue: writing text: %v", err)) // strings always encode
	}
	return append(out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
