package schemas

import (
	"fmt"
	"reflect"
	"strings"
)

// kind is the type of a value as this package's records use it.
type kind uint8

const (
	kindBool kind = iota
	kindInt32
	kindInt64
	kindFloat32
	kindFloat64
	kindString
	kindBytes
	kindList
	kindMap
	kindStruct
	kindScalar // a bool, an integer, a float or a str
)

var kindNames = [...]string{"bool", "int32", "int64", "float32", "float64", "str", "bin", "array", "map", "map", "scalar"}

func (k kind) String() string { return kindNames[k] }

// shape describes a Go type to the walker: the msgpack type of a value, and the limits on it.
type shape struct {
	kind    kind
	size    int          // bin: its exact length, if not 0; array, map: the most elements
	elem    *shape       // of an array's elements or a map's values
	fields  []shapeField // of a struct, in the order in which they are encoded
	inlined string       // Go name of the struct that is embedded, if any
}

type shapeField struct {
	name  string
	shape *shape
}

// accepts reports whether a value of class c can be decoded into the shape. Any integer is taken for a float: some
// writers shorten whole numbers.
func (s *shape) accepts(c Class) bool {
	switch s.kind {
	case kindBool:
		return c == ClassBool
	case kindInt32, kindInt64:
		return c == ClassInt
	case kindFloat32:
		return c == ClassFloat32 || c == ClassInt
	case kindFloat64:
		return c == ClassFloat64 || c == ClassFloat32 || c == ClassInt
	case kindString:
		return c == ClassString
	case kindBytes:
		return c == ClassBytes
	case kindList:
		return c == ClassArray
	case kindMap, kindStruct:
		return c == ClassMap
	case kindScalar:
		return c == ClassBool || c == ClassInt || c == ClassFloat32 || c == ClassFloat64 || c == ClassString
	}
	return false
}

// field finds a key among the fields, -1 if it is unknown. Writers mostly keep the order, so field tries next first.
func (s *shape) field(key []byte, next int) int {
	for i := next; i < len(s.fields); i++ {
		if s.fields[i].name == string(key) {
			return i
		}
	}
	for i := range min(next, len(s.fields)) {
		if s.fields[i].name == string(key) {
			return i
		}
	}
	return -1
}

// shapeOf works out the shape of a record's type. A type that no record uses is a bug in this package.
func shapeOf(t reflect.Type) *shape {
	switch t {
	case reflect.TypeFor[PairID](), reflect.TypeFor[ImageID]():
		return &shape{kind: kindBytes, size: 16}
	case reflect.TypeFor[Int32s](), reflect.TypeFor[Floats32](), reflect.TypeFor[Float16s](), reflect.TypeFor[[]byte]():
		return &shape{kind: kindBytes}
	case reflect.TypeFor[Columns]():
		return &shape{kind: kindMap, size: MaxColumns, elem: &shape{kind: kindScalar}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return shapeOf(t.Elem())
	case reflect.Bool:
		return &shape{kind: kindBool}
	case reflect.Int32:
		return &shape{kind: kindInt32}
	case reflect.Int64:
		return &shape{kind: kindInt64}
	case reflect.Float32:
		return &shape{kind: kindFloat32}
	case reflect.Float64:
		return &shape{kind: kindFloat64}
	case reflect.String:
		return &shape{kind: kindString}
	case reflect.Slice:
		elem := shapeOf(t.Elem())
		if elem.kind == kindStruct {
			return &shape{kind: kindList, size: MaxBatch, elem: elem}
		}
		return &shape{kind: kindList, size: MaxNouns, elem: elem}
	case reflect.Map:
		return &shape{kind: kindMap, size: MaxMeasures, elem: shapeOf(t.Elem())}
	case reflect.Struct:
		return structShape(t)
	}
	panic(fmt.Sprintf("schemas: no shape for %s", t))
}

func structShape(t reflect.Type) *shape {
	s := &shape{kind: kindStruct}
	for f := range t.Fields() {
		if f.Anonymous {
			s.inlined = f.Name
			s.fields = append(s.fields, structShape(f.Type).fields...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
		s.fields = append(s.fields, shapeField{name: name, shape: shapeOf(f.Type)})
	}
	if len(s.fields) > 64 {
		panic(fmt.Sprintf("schemas: %s has more fields than the walker can mark", t))
	}
	return s
}
