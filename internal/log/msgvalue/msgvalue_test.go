package msgvalue

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func TestDecode(t *testing.T) {
	tests := []struct {
		name  string
		value string
		want  any
	}{
		{"nil", "\xc0", nil},
		{"false", "\xc2", false},
		{"true", "\xc3", true},
		{"largest small integer", "\x7f", int64(127)},
		{"smallest small integer", "\xe0", int64(-32)},
		{"uint8", "\xcc\xff", int64(255)},
		{"uint16", "\xcd\xff\xff", int64(65535)},
		{"uint32", "\xce\xff\xff\xff\xff", int64(math.MaxUint32)},
		{"uint64 within int64", "\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", int64(math.MaxInt64)},
		{"uint64 above int64", "\xcf\x80\x00\x00\x00\x00\x00\x00\x00", uint64(1 << 63)},
		{"int8", "\xd0\x80", int64(-128)},
		{"int16", "\xd1\xff\xfe", int64(-2)},
		{"int32", "\xd2\x80\x00\x00\x00", int64(math.MinInt32)},
		{"int64", "\xd3\x80\x00\x00\x00\x00\x00\x00\x00", int64(math.MinInt64)},
		{"float32", "\xca\x3f\x80\x00\x00", float32(1)},
		{"float64", "\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00", float64(1)},
		{"short text", "\xa2hi", "hi"},
		{"text 8", "\xd9\x02hi", "hi"},
		{"text 16", "\xda\x00\x02hi", "hi"},
		{"text 32", "\xdb\x00\x00\x00\x02hi", "hi"},
		{"bin 8", "\xc4\x02hi", []byte("hi")},
		{"bin 16", "\xc5\x00\x02hi", []byte("hi")},
		{"bin 32", "\xc6\x00\x00\x00\x02hi", []byte("hi")},
		{"fixed extension", "\xd5\x07hi", Ext{7, []byte("hi")}},
		{"extension", "\xc7\x03\xffyou", Ext{-1, []byte("you")}},
		{"empty list", "\x90", []any{}},
		{"list", "\x92\x01\xa1a", []any{int64(1), "a"}},
		{"list 16", "\xdc\x00\x01\x01", []any{int64(1)}},
		{"list 32", "\xdd\x00\x00\x00\x01\x01", []any{int64(1)}},
		{"map in its order", "\x82\xa1b\x01\xa1a\x02", Map{{"b", int64(1)}, {"a", int64(2)}}},
		{"map with a key twice", "\xde\x00\x02\x01\x01\x01\x02", Map{{int64(1), int64(1)}, {int64(1), int64(2)}}},
		{"map 32", "\xdf\x00\x00\x00\x01\x01\x01", Map{{int64(1), int64(1)}}},
		{"deepest", strings.Repeat("\x91", maxDepth) + "\x01", nested(maxDepth, int64(1))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := Decode([]byte(tt.value)); err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("decoded %#v, %v, want %#v", got, err, tt.want)
			}
		})
	}
}

func nested(depth int, v any) any {
	for range depth {
		v = []any{v}
	}
	return v
}

func TestDecodeRefuses(t *testing.T) {
	for name, value := range map[string]string{
		"nothing":               "",
		"code not in use":       "\xc1",
		"two values":            "\x01\x01",
		"cut number":            "\xcd\x01",
		"cut text":              "\xa3hi",
		"gigabytes of text":     "\xdb\xff\xff\xff\xff",
		"gigabytes of list":     "\xdd\xff\xff\xff\xff",
		"gigabytes of map":      "\xdf\xff\xff\xff\xff",
		"gigabytes of elements": "\xc9\xff\xff\xff\xff\x01",
		"map without a value":   "\x81\x01",
		"too deep":              strings.Repeat("\x91", maxDepth+1) + "\x01",
		"too many":              "\xdd\x00\x10\x00\x00" + strings.Repeat("\x01", maxValues),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Decode([]byte(value)); !errors.Is(err, schemas.ErrMalformed) || got != nil {
				t.Errorf("decoded %v with error %v", got, err)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	v := Map{
		{"text", "a <b> \"ä\" \xff"},
		{"id", bytes.Repeat([]byte{0xab}, 16)},
		{"vector", bytes.Repeat([]byte{0, 1}, 20)},
		{"list", []any{nil, true, int64(-1), uint64(1 << 63), float32(0.1), 0.1, math.Inf(1), []any{}, Map{}}},
		{int64(7), Ext{3, []byte{1}}},
	}
	want := `{
  "text": "a <b> \"ä\" \ufffd",
  "id": "abababababababababababababababab",
  "vector": "00010001000100010001000100010001… (40 bytes)",
  "list": [
    null,
    true,
    -1,
    9223372036854775808,
    0.1,
    0.1,
    "+Inf",
    [],
    {}
  ],
  "7": "extension 3: 01"
}`
	if got := string(JSON(v)); got != want {
		t.Errorf("JSON\n%s\nwant\n%s", got, want)
	}
	if got, want := Short(strings.Repeat("ä", 100)), "\""+strings.Repeat("ä", 78)+"…"; got != want {
		t.Errorf("short form %s, want %s", got, want)
	}
}

func TestDiff(t *testing.T) {
	base := func() Map {
		return Map{{"id", []byte{1, 2, 3}}, {"samples", []any{Map{{"uri", "a"}, {"text", "x"}}, Map{{"uri", "b"}, {"text", "y"}}}}, {"n", int64(1)}}
	}
	sample := func(m Map, i int) Map { return m[1].Value.([]any)[i].(Map) }
	tests := []struct {
		name   string
		change func(m *Map)
		want   string
	}{
		{"nothing", func(*Map) {}, ""},
		{"accepted", func(m *Map) { sample(*m, 1)[0].Value = "elsewhere" }, ""},
		{"deep", func(m *Map) { sample(*m, 1)[1].Value = "z" }, `samples[1].text: "y", not "z"`},
		{"the first of two", func(m *Map) { sample(*m, 0)[1].Value = "z"; (*m)[2].Value = int64(2) }, `samples[0].text: "x", not "z"`},
		{"bytes", func(m *Map) { (*m)[0].Value = []byte{1, 5} }, "id: byte 1 is 0x02, not 0x05 (of 3 and 2 bytes)"},
		{"shorter bytes", func(m *Map) { (*m)[0].Value = []byte{1, 2} }, "id: byte 2 is 0x03, not missing (of 3 and 2 bytes)"},
		{"another type", func(m *Map) { (*m)[2].Value = 1.0 }, "n: 1, not 1"},
		{"missing element", func(m *Map) { (*m)[1].Value = (*m)[1].Value.([]any)[:1] }, `samples[1]: {"uri":"b","text":"y"}, not missing`},
		{"missing key", func(m *Map) { *m = (*m)[:2] }, "n: 1, not missing"},
		{"more keys", func(m *Map) { *m = append(*m, Entry{"more", nil}) }, "more: missing, not null"},
		{"other key", func(m *Map) { (*m)[2].Key = "o" }, "n: 1, not missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			other := base()
			tt.change(&other)
			same := func(path string, a, b any) bool { return strings.HasSuffix(path, ".uri") && b == "elsewhere" }
			d, found := Diff(base(), other, same)
			if found != (tt.want != "") || found && d.String() != tt.want {
				t.Errorf("difference %q (%t), want %q", d, found, tt.want)
			}
		})
	}
	if d, found := Diff(int64(1), "x", nil); !found || d.String() != `value: 1, not "x"` {
		t.Errorf("difference of two scalars: %q", d)
	}
	if d, found := Diff(math.NaN(), math.NaN(), nil); found {
		t.Errorf("not-a-numbers of equal bits differ: %v", d)
	}
}

// TestDecodeReadsRecords reads back whole what the records' own codec writes.
func TestDecodeReadsRecords(t *testing.T) {
	for _, r := range []schemas.Record{
		&schemas.Seal{Final: true, Note: "end"},
		&schemas.Progress{Kind: schemas.ProgressStep, Step: 3, Values: schemas.Measures{"loss": 0.5}},
	} {
		raw := must.Get(schemas.Marshal(r))(t)
		v, err := Decode(raw)
		if err != nil || !json.Valid(JSON(v)) {
			t.Errorf("%s: %v, %v", r.Schema(), v, err)
		}
	}
}

// FuzzDecode checks that nothing panics, and that decoded values can be shown and compared.
func FuzzDecode(f *testing.F) {
	paths, err := filepath.Glob("../../../schemas/testdata/golden/v1/*.hex")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no golden records: %v", err)
	}
	for _, p := range paths {
		text := must.Get(os.ReadFile(p))(f)
		_, digits, _ := strings.Cut(string(text), "\n")
		raw, err := hex.DecodeString(strings.ReplaceAll(digits, "\n", ""))
		if err != nil {
			f.Fatalf("reading %s: %v", p, err)
		}
		if _, err := Decode(raw); err != nil {
			f.Errorf("%s: %v", p, err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := Decode(b)
		switch {
		case err != nil && (v != nil || !errors.Is(err, schemas.ErrMalformed)):
			t.Errorf("value %v with error %v", v, err)
		case err == nil && !json.Valid(JSON(v)):
			t.Errorf("no JSON: %s", JSON(v))
		}
		if d, found := Diff(v, v, nil); found {
			t.Errorf("differs from itself: %v", d)
		}
	})
}
