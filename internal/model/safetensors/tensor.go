package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/x448/float16"
)

// elementBytes is the width of the types of the format that this package knows.
var elementBytes = map[string]int64{
	"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
	"I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8,
}

// Tensor is a type, a shape and the elements' little-endian bytes, row by row.
type Tensor struct {
	DType string
	Shape []int64
	Data  []byte
}

// NamedTensor is a tensor to be written.
type NamedTensor struct {
	Name string
	Tensor
}

// Len is the number of elements.
func (t Tensor) Len() int { return len(t.Data) / int(elementBytes[t.DType]) }

// Float64s converts elements of type F16, BF16, F32 or F64.
func (t Tensor) Float64s() ([]float64, error) {
	return convert[float64](t, map[string]func([]byte) float64{
		"F16":  func(b []byte) float64 { return float64(float16.Frombits(binary.LittleEndian.Uint16(b)).Float32()) },
		"BF16": func(b []byte) float64 { return float64(fromBFloat16(b)) },
		"F32":  func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) },
		"F64":  func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) },
	})
}

// Float32s converts elements of type F16, BF16, F32 or F64 (rounded).
func (t Tensor) Float32s() ([]float32, error) {
	return convert[float32](t, map[string]func([]byte) float32{
		"F16":  func(b []byte) float32 { return float16.Frombits(binary.LittleEndian.Uint16(b)).Float32() },
		"BF16": fromBFloat16,
		"F32":  func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) },
		"F64":  func(b []byte) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(b))) },
	})
}

// Finite reports whether all values are numbers, and otherwise the index of the first that is not. Integers always are.
func (t Tensor) Finite() (index int, ok bool) {
	exponent := map[string]uint64{"F16": 0x7c00, "BF16": 0x7f80, "F32": 0x7f80_0000, "F64": 0x7ff0_0000_0000_0000}[t.DType]
	if exponent == 0 {
		return 0, true
	}
	size := int(elementBytes[t.DType])
	for i := 0; i+size <= len(t.Data); i += size {
		var bits uint64
		switch size {
		case 2:
			bits = uint64(binary.LittleEndian.Uint16(t.Data[i:]))
		case 4:
			bits = uint64(binary.LittleEndian.Uint32(t.Data[i:]))
		case 8:
			bits = binary.LittleEndian.Uint64(t.Data[i:])
		}
		if bits&exponent == exponent { // infinite, or not a number
			return i / size, false
		}
	}
	return 0, true
}

// Int64s converts elements of type I64, I32 or U8.
func (t Tensor) Int64s() ([]int64, error) {
	return convert[int64](t, map[string]func([]byte) int64{
		"I64": func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) },
		"I32": func(b []byte) int64 { return int64(int32(binary.LittleEndian.Uint32(b))) },
		"U8":  func(b []byte) int64 { return int64(b[0]) },
	})
}

// Bools converts elements of type BOOL or U8; nonzero elements are true.
func (t Tensor) Bools() ([]bool, error) {
	set := func(b []byte) bool { return b[0] != 0 }
	return convert[bool](t, map[string]func([]byte) bool{"BOOL": set, "U8": set})
}

func fromBFloat16(b []byte) float32 {
	return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
}

func convert[T any](t Tensor, from map[string]func([]byte) T) ([]T, error) {
	one, ok := from[t.DType]
	if !ok {
		var want T
		return nil, fmt.Errorf("has type %s, which does not convert to %T", t.DType, want)
	}
	width := int(elementBytes[t.DType])
	out := make([]T, len(t.Data)/width)
	for i := range out {
		out[i] = one(t.Data[i*width:])
	}
	return out, nil
}

// FromFloat32s makes a tensor of type F32.
func FromFloat32s(values []float32, shape ...int64) Tensor {
	data := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	}
	return Tensor{DType: "F32", Shape: shape, Data: data}
}

// FromInt64s makes a tensor of type I64.
func FromInt64s(values []int64, shape ...int64) Tensor {
	data := make([]byte, 0, 8*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint64(data, uint64(v))
	}
	return Tensor{DType: "I64", Shape: shape, Data: data}
}

// FromFloat64s makes a tensor of type F64.
func FromFloat64s(values []float64, shape ...int64) Tensor {
	data := make([]byte, 0, 8*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
	}
	return Tensor{DType: "F64", Shape: shape, Data: data}
}
