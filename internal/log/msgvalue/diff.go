package msgvalue

import (
	"bytes"
	"fmt"
	"math"
)

// Difference is a path at which two values differ. A value that is missing on one side is [Missing].
type Difference struct {
	Path string // for example samples[3].text; empty: the whole value
	A, B any
}

// Missing stands for a value that only the other side has.
type Missing struct{}

// Equal decides whether two values at a path count as equal although they are not the same. A nil Equal accepts none.
type Equal func(path string, a, b any) bool

// Diff finds the first difference of a and b, in their order. It skips differences that same accepts. same may be nil.
func Diff(a, b any, same Equal) (Difference, bool) {
	if same == nil {
		same = never
	}
	return diff("", a, b, same)
}

func never(string, any, any) bool { return false }

func diff(path string, a, b any, same Equal) (Difference, bool) {
	switch va := a.(type) {
	case Map:
		if vb, ok := b.(Map); ok {
			return diffMaps(path, va, vb, same)
		}
	case []any:
		if vb, ok := b.([]any); ok {
			return diffLists(path, va, vb, same)
		}
	default:
		if identical(a, b) {
			return Difference{}, false
		}
	}
	if same(path, a, b) {
		return Difference{}, false
	}
	return Difference{path, a, b}, true
}

// identical compares values that are neither lists nor maps. NaNs with equal bits are the same.
func identical(a, b any) bool {
	switch va := a.(type) {
	case []byte:
		vb, ok := b.([]byte)
		return ok && bytes.Equal(va, vb)
	case Ext:
		vb, ok := b.(Ext)
		return ok && va.Type == vb.Type && bytes.Equal(va.Data, vb.Data)
	case float32:
		vb, ok := b.(float32)
		return ok && math.Float32bits(va) == math.Float32bits(vb)
	case float64:
		vb, ok := b.(float64)
		return ok && math.Float64bits(va) == math.Float64bits(vb)
	case nil, bool, int64, uint64, string:
		switch b.(type) {
		case nil, bool, int64, uint64, string:
			return a == b
		}
	}
	return false
}

func diffLists(path string, a, b []any, same Equal) (Difference, bool) {
	for i := range max(len(a), len(b)) {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i >= len(a):
			return Difference{at, Missing{}, b[i]}, true
		case i >= len(b):
			return Difference{at, a[i], Missing{}}, true
		}
		if d, found := diff(at, a[i], b[i], same); found {
			return d, true
		}
	}
	return Difference{}, false
}

func diffMaps(path string, a, b Map, same Equal) (Difference, bool) {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return Difference{join(path, b[i].Key), Missing{}, b[i].Value}, true
		case i >= len(b):
			return Difference{join(path, a[i].Key), a[i].Value, Missing{}}, true
		}
		if _, other := diff("", a[i].Key, b[i].Key, never); other {
			return Difference{join(path, a[i].Key), a[i].Value, Missing{}}, true
		}
		if d, found := diff(join(path, a[i].Key), a[i].Value, b[i].Value, same); found {
			return d, true
		}
	}
	return Difference{}, false
}

func join(path string, key any) string {
	if path == "" {
		return keyText(key)
	}
	return path + "." + keyText(key)
}

// String shows the path and both sides in one line. It shows a differing byte string from shortly before the
// difference.
func (d Difference) String() string {
	path := d.Path
	if path == "" {
		path = "value"
	}
	a, aok := d.A.([]byte)
	b, bok := d.B.([]byte)
	if aok && bok {
		at := 0
		for at < min(len(a), len(b)) && a[at] == b[at] {
			at++
		}
		return fmt.Sprintf("%s: byte %d is %s, not %s (of %d and %d bytes)", path, at, byteAt(a, at), byteAt(b, at), len(a), len(b))
	}
	return fmt.Sprintf("%s: %s, not %s", path, side(d.A), side(d.B))
}

func byteAt(b []byte, at int) string {
	if at >= len(b) {
		return "missing"
	}
	return fmt.Sprintf("0x%02x", b[at])
}

func side(v any) string {
	if _, ok := v.(Missing); ok {
		return "missing"
	}
	return Short(v)
}
