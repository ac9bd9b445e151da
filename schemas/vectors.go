package schemas

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/x448/float16"
)

// Float16s is a run of float16 values, little-endian, as it travels in one bin.
type Float16s []byte

// NewFloat16s rounds each value to the nearest float16 (ties to even).
func NewFloat16s(values []float32) Float16s {
	out := make(Float16s, 2*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint16(out[2*i:], float16.Fromfloat32(v).Bits())
	}
	return out
}

// Len returns the number of values.
func (f Float16s) Len() int { return len(f) / 2 }

// AppendTo appends the values as float32 and returns the extended slice.
func (f Float16s) AppendTo(dst []float32) []float32 {
	for i := 0; i+1 < len(f); i += 2 {
		dst = append(dst, float32Of(binary.LittleEndian.Uint16(f[i:])))
	}
	return dst
}

// Floats returns the values as float32.
func (f Float16s) Floats() []float32 { return f.AppendTo(make([]float32, 0, f.Len())) }

// float32Of widens a float16. A finite float16 has the bit fields of a float32 whose exponent counts from 2^-112. One
// multiplication corrects the exponent, including that of subnormal values.
func float32Of(bits uint16) float32 {
	if bits&0x7c00 == 0x7c00 { // infinite or not a number
		return float16.Frombits(bits).Float32()
	}
	return math.Float32frombits(uint32(bits&0x8000)<<16|uint32(bits&0x7fff)<<13) * 0x1p112
}

// dot returns the dot product with g, which has as many values.
func (f Float16s) dot(g Float16s) float64 {
	var sum float64
	for i := 0; i+1 < len(f) && i+1 < len(g); i += 2 {
		sum += float64(float32Of(binary.LittleEndian.Uint16(f[i:]))) * float64(float32Of(binary.LittleEndian.Uint16(g[i:])))
	}
	return sum
}

// unitTolerance bounds | |x| - 1 |: rounding to float16 moves the norm of a unit vector by less than 2^-11 (about
// 0.0005).
const unitTolerance = 1e-3

// similarityTolerance bounds the distance of a similarity from the dot product of the rounded vectors. A writer that
// multiplies the vectors before it rounds them is off by 2 * 2^-11 at most.
const similarityTolerance = 1e-3

// checkUnitRows verifies that f holds rows of dim finite values whose norm is 1 within unitTolerance.
func (f Float16s) checkUnitRows(field string, rows, dim int) error {
	if dim <= 0 || len(f) != 2*rows*dim {
		return invalid("%s has %d bytes, want %d rows of %d float16", field, len(f), rows, dim)
	}
	for r := range rows {
		row := f[2*r*dim : 2*(r+1)*dim]
		if norm := math.Sqrt(row.dot(row)); !(math.Abs(norm-1) <= unitTolerance) { // the negation also refuses NaN
			return invalid("row %d of %s has norm %g, want 1", r, field, norm)
		}
	}
	return nil
}

// Int32s is a column of integers that travels as little-endian int32 in one bin.
type Int32s []int32

// EncodeMsgpack writes the column as one bin of 4 bytes a value.
func (c Int32s) EncodeMsgpack(e *msgpack.Encoder) error {
	raw := make([]byte, 4*len(c))
	for i, v := range c {
		binary.LittleEndian.PutUint32(raw[4*i:], uint32(v))
	}
	return e.EncodeBytes(raw)
}

// DecodeMsgpack reads one bin of 4 bytes a value.
func (c *Int32s) DecodeMsgpack(d *msgpack.Decoder) error {
	raw, err := d.DecodeBytes()
	if err != nil {
		return fmt.Errorf("decoding int32 column: %w", err)
	}
	if len(raw)%4 != 0 {
		return fmt.Errorf("decoding int32 column: %w: %d bytes is no multiple of 4", ErrInvalid, len(raw))
	}
	if *c = nil; len(raw) == 0 {
		return nil
	}
	*c = make(Int32s, len(raw)/4)
	for i := range *c {
		(*c)[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return nil
}

// Floats32 is a column of float32 that travels little-endian in one bin.
type Floats32 []float32

// EncodeMsgpack writes the column as one bin of 4 bytes a value.
func (c Floats32) EncodeMsgpack(e *msgpack.Encoder) error {
	raw := make([]byte, 4*len(c))
	for i, v := range c {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
	}
	return e.EncodeBytes(raw)
}

// DecodeMsgpack reads one bin of 4 bytes a value.
func (c *Floats32) DecodeMsgpack(d *msgpack.Decoder) error {
	raw, err := d.DecodeBytes()
	if err != nil {
		return fmt.Errorf("decoding float32 column: %w", err)
	}
	if len(raw)%4 != 0 {
		return fmt.Errorf("decoding float32 column: %w: %d bytes is no multiple of 4", ErrInvalid, len(raw))
	}
	if *c = nil; len(raw) == 0 {
		return nil
	}
	*c = make(Floats32, len(raw)/4)
	for i := range *c {
		(*c)[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return nil
}
