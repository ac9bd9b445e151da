package schemas

import (
	"math"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
)

// Columns hold the crawl's metadata of a pair: named numbers, texts and truth values. A value is an int64, a float64, a
// string or a bool. They travel as a map sorted by name.
type Columns map[string]any

// Names appends the names to a slice, and returns all of it in order.
func (c Columns) Names(to []string) []string {
	for name := range c {
		to = append(to, name)
	}
	slices.Sort(to)
	return to
}

// EncodeMsgpack writes the map in the order of the names.
func (c Columns) EncodeMsgpack(e *msgpack.Encoder) error {
	if err := e.EncodeMapLen(len(c)); err != nil {
		return err
	}
	var room [MaxColumns]string
	for _, name := range c.Names(room[:0]) {
		if err := e.EncodeString(name); err != nil {
			return err
		}
		if err := encodeScalar(e, c[name]); err != nil {
			return err
		}
	}
	return nil
}

func encodeScalar(e *msgpack.Encoder, value any) error {
	switch v := value.(type) {
	case int64:
		return e.EncodeInt(v)
	case float64:
		return e.EncodeFloat64(v)
	case string:
		return e.EncodeString(v)
	case bool:
		return e.EncodeBool(v)
	}
	return invalid("a column holds a %T", value)
}

// DecodeMsgpack reads the map. The walker has let nothing but scalars through.
func (c *Columns) DecodeMsgpack(d *msgpack.Decoder) error {
	n, err := d.DecodeMapLen()
	if err != nil || n < 0 {
		return err
	}
	*c = make(Columns, n)
	for range n {
		name, err := d.DecodeString()
		if err != nil {
			return err
		}
		value, err := d.DecodeInterfaceLoose()
		if err != nil {
			return err
		}
		if u, ok := value.(uint64); ok { // the wire does not tell signed from unsigned
			value = int64(u)
		}
		(*c)[name] = value
	}
	return nil
}

// ColumnBytes returns the bytes that a column counts towards MaxColumnsBytes: its name, plus its text or 8.
func ColumnBytes(name string, value any) int {
	if text, ok := value.(string); ok {
		return len(name) + len(text)
	}
	return len(name) + 8
}

// ValidateColumn checks one column by itself.
func ValidateColumn(name string, value any) error {
	if err := validateName("name of a column", name, MaxColumnName); err != nil {
		return err
	}
	switch v := value.(type) {
	case int64, bool:
		return nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return invalid("column %s is %g", name, v)
		}
		return nil
	case string:
		return validateText("column "+name, v, MaxColumnText)
	}
	return invalid("column %s holds a %T, want int64, float64, string or bool", name, value)
}

// firstFault returns the error of the first invalid column by name, so equal records give equal errors.
func (c Columns) firstFault() error {
	for _, name := range c.Names(nil) {
		if err := ValidateColumn(name, c[name]); err != nil {
			return err
		}
	}
	return nil
}

func (c Columns) validate() error {
	if len(c) > MaxColumns {
		return invalid("%d columns, want at most %d", len(c), MaxColumns)
	}
	size := 0
	for name, value := range c {
		if ValidateColumn(name, value) != nil {
			return c.firstFault()
		}
		size += ColumnBytes(name, value)
	}
	if size > MaxColumnsBytes {
		return invalid("columns of %d bytes, want at most %d", size, MaxColumnsBytes)
	}
	return nil
}
