package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func file(header, body string) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), body...)
}

func TestWriteThenParse(t *testing.T) {
	tensors := []safetensors.NamedTensor{
		{Name: "b", Tensor: safetensors.FromFloat32s([]float32{1, -2.5}, 2, 1)},
		{Name: "a", Tensor: safetensors.FromInt64s([]int64{-7})},
		{Name: "empty", Tensor: safetensors.FromFloat32s(nil, 0, 3)},
	}
	var first, second bytes.Buffer
	metadata := map[string]string{"x": "1", "é": "\"\n"}
	must.Do(t, safetensors.Write(&first, tensors, metadata))
	slices.Reverse(tensors)
	must.Do(t, safetensors.Write(&second, tensors, metadata))
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the bytes depend on the order of the tensors")
	}
	f := must.Get(safetensors.Parse(first.Bytes()))(t)
	if got := f.Names(); !slices.Equal(got, []string{"a", "b", "empty"}) {
		t.Errorf("names %v", got)
	}
	if f.Metadata["é"] != "\"\n" || f.Metadata["x"] != "1" {
		t.Errorf("metadata %q", f.Metadata)
	}
	b, _ := f.Tensor("b")
	if v, err := b.Float32s(); err != nil || !slices.Equal(v, []float32{1, -2.5}) || !slices.Equal(b.Shape, []int64{2, 1}) {
		t.Errorf("tensor b: %v of shape %v, %v", v, b.Shape, err)
	}
	a, _ := f.Tensor("a")
	if v, err := a.Int64s(); err != nil || !slices.Equal(v, []int64{-7}) || len(a.Shape) != 0 {
		t.Errorf("tensor a: %v of shape %v, %v", v, a.Shape, err)
	}
}

func TestConversions(t *testing.T) {
	tests := []struct {
		dtype string
		data  []byte
		want  float64
	}{
		{"F16", []byte{0x00, 0xc1}, -2.5},
		{"BF16", []byte{0x20, 0xc0}, -2.5},
		{"F32", binary.LittleEndian.AppendUint32(nil, math.Float32bits(-2.5)), -2.5},
		{"F64", binary.LittleEndian.AppendUint64(nil, math.Float64bits(-2.5)), -2.5},
	}
	for _, test := range tests {
		x := safetensors.Tensor{DType: test.dtype, Shape: []int64{1}, Data: test.data}
		if v, err := x.Float64s(); err != nil || v[0] != test.want {
			t.Errorf("%s as float64: %v, %v", test.dtype, v, err)
		}
		if v, err := x.Float32s(); err != nil || v[0] != float32(test.want) {
			t.Errorf("%s as float32: %v, %v", test.dtype, v, err)
		}
		if _, err := x.Int64s(); err == nil {
			t.Errorf("%s was converted to integers", test.dtype)
		}
	}
	flags := safetensors.Tensor{DType: "U8", Shape: []int64{2}, Data: []byte{0, 1}}
	if v, err := flags.Bools(); err != nil || v[0] || !v[1] {
		t.Errorf("flags: %v, %v", v, err)
	}
}

func TestParseRefuses(t *testing.T) {
	one := `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
	tests := map[string][]byte{
		"nothing":               nil,
		"a cut length":          []byte("1234567"),
		"a header past the end": file(one, "")[:20],
		"a giant header":        append(bytes.Repeat([]byte{0xff}, 8), one...),
		"not JSON":              file("{", ""),
		"a cut body":            file(one, "123"),
		"bytes left over":       file(one, "12345"),
		"a gap":                 file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, "12"),
		"an overlap":            file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, "123"),
		"a negative offset":     file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}}`, ""),
		"an unknown type":       file(`{"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,4]}}`, "1234"),
		"a wrong size":          file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, "1234"),
		"a negative size":       file(`{"a":{"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]}}`, "1234"),
		"an overflowing size":   file(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, ""),
		"metadata of numbers":   file(`{"__metadata__":{"a":1}}`, ""),
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			if f, err := safetensors.Parse(data); !errors.Is(err, safetensors.ErrFormat) || f != nil {
				t.Errorf("got %v, %v", f, err)
			}
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	x := safetensors.FromFloat32s([]float32{1}, 1)
	tests := map[string][]safetensors.NamedTensor{
		"a name twice":  {{Name: "a", Tensor: x}, {Name: "a", Tensor: x}},
		"the metadata":  {{Name: "__metadata__", Tensor: x}},
		"a wrong shape": {{Name: "a", Tensor: safetensors.FromFloat32s([]float32{1}, 2)}},
	}
	for name, tensors := range tests {
		if err := safetensors.Write(&bytes.Buffer{}, tensors, nil); err == nil {
			t.Errorf("%s: written", name)
		}
	}
}

func TestOpenNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weights.safetensors")
	if _, err := safetensors.Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"__metadata__":{"k":"v"}}`, "1234"))
	f.Add(file(`{"a":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[],"data_offsets":[4,5]}}`, "12345"))
	f.Add(file(`{}`, ""))
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, err := safetensors.Parse(data)
		if err != nil {
			return
		}
		var tensors []safetensors.NamedTensor
		for _, name := range parsed.Names() {
			x, _ := parsed.Tensor(name)
			tensors = append(tensors, safetensors.NamedTensor{Name: name, Tensor: x})
		}
		var out bytes.Buffer
		if err := safetensors.Write(&out, tensors, parsed.Metadata); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := safetensors.Parse(out.Bytes())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		for _, want := range tensors {
			got, ok := again.Tensor(want.Name)
			if !ok || got.DType != want.DType || !bytes.Equal(got.Data, want.Data) || !slices.Equal(got.Shape, want.Shape) {
				t.Fatalf("tensor %q changed", want.Name)
			}
		}
	})
}
