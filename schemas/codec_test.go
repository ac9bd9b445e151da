package schemas

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func mustMarshal(t testing.TB, r Record) []byte {
	t.Helper()
	b := must.Get(Marshal(r))(t)
	return b
}

func TestRoundTrip(t *testing.T) {
	for name, r := range fixtures() {
		t.Run(name, func(t *testing.T) {
			value := mustMarshal(t, r)
			for range 5 { // maps have no order of their own
				if again := mustMarshal(t, r); !bytes.Equal(again, value) {
					t.Fatalf("a second encoding differs:\n%x\n%x", again, value)
				}
			}
			got := must.Get(Unmarshal(r.Schema(), value))(t)
			if !reflect.DeepEqual(got, r) {
				t.Fatalf("decoded\n%+v\nwant\n%+v", got, r)
			}
			if again := mustMarshal(t, got); !bytes.Equal(again, value) {
				t.Fatalf("re-encoded\n%x\nwant\n%x", again, value)
			}
		})
	}
}

// TestEmptyIsLikeNil encodes a column or list without elements. It is left out, whether the program made it nil or
// empty.
func TestEmptyIsLikeNil(t *testing.T) {
	bare, empty := batchOfOne(), batchOfOne()
	empty.I2T, empty.T2I, empty.Samples[0].Partners = Int32s{}, Int32s{}, Int32s{}
	if a, b := mustMarshal(t, bare), mustMarshal(t, empty); !bytes.Equal(a, b) {
		t.Errorf("batches differ:\n%x\n%x", a, b)
	}
	g, h := groupBare(), groupBare()
	h.Nouns = []string{}
	if a, b := mustMarshal(t, g), mustMarshal(t, h); !bytes.Equal(a, b) {
		t.Errorf("groups differ:\n%x\n%x", a, b)
	}
	p, q := &Progress{Kind: ProgressEval}, &Progress{Kind: ProgressEval, Values: Measures{}}
	if a, b := mustMarshal(t, p), mustMarshal(t, q); !bytes.Equal(a, b) {
		t.Errorf("reports differ:\n%x\n%x", a, b)
	}
}

// TestWireForm reads the wire form of a record without this package's types: one flat map, vectors and ids as bin.
func TestWireForm(t *testing.T) {
	var flat map[string]any
	must.Do(t, msgpack.Unmarshal(mustMarshal(t, scoredBatch()), &flat))
	for _, key := range []string{"group", "samples", "i2t", "t2i", "m", "model", "prob_i2t", "prob_t2i"} {
		if _, ok := flat[key]; !ok {
			t.Errorf("scored batch has no key %q", key)
		}
	}
	if _, ok := flat["Batch"]; ok {
		t.Error("the batch is nested in the scored batch")
	}
	if _, ok := flat["prob_i2t"].([]byte); !ok {
		t.Errorf("prob_i2t travels as %T, want bin", flat["prob_i2t"])
	}
	flat = nil
	must.Do(t, msgpack.Unmarshal(mustMarshal(t, embedding()), &flat))
	for _, key := range []string{"id", "image_id", "v", "t"} {
		if _, ok := flat[key].([]byte); !ok {
			t.Errorf("%s travels as %T, want bin", key, flat[key])
		}
	}
	if _, ok := flat["similarity"].(float32); !ok {
		t.Errorf("similarity travels as %T, want float32", flat["similarity"])
	}
}

// pack encodes any value. It writes a map in the order of its keys.
func pack(t testing.TB, v any) []byte {
	t.Helper()
	var buf bytes.Buffer
	e := msgpack.NewEncoder(&buf)
	e.UseCompactInts(true)
	e.SetSortMapKeys(true)
	must.Do(t, e.Encode(v))
	return buf.Bytes()
}

// edited encodes r, decodes it into a generic map, applies edit and encodes it again.
func edited(t testing.TB, r Record, edit func(m map[string]any)) []byte {
	t.Helper()
	var m map[string]any
	must.Do(t, msgpack.Unmarshal(mustMarshal(t, r), &m))
	edit(m)
	return pack(t, m)
}

func nested(depth int) any {
	var v any = true
	for range depth {
		v = []any{v}
	}
	return v
}

func TestUnmarshalTolerates(t *testing.T) {
	ref := pairByRef()
	tests := []struct {
		name  string
		want  Record
		value []byte
	}{
		{"any order of keys", ref, edited(t, ref, func(map[string]any) {})},
		{"unknown keys", ref, edited(t, ref, func(m map[string]any) {
			m["a_later_key"] = map[string]any{"x": []any{1, "y", nil, 2.5, []byte{1}}, "z": uint64(1) << 63}
			m["zz"] = nil
		})},
		{"deepest unknown value", ref, edited(t, ref, func(m map[string]any) { m["zz"] = nested(maxDepth - 1) })},
		{"most unknown values", ref, edited(t, ref, func(m map[string]any) { m["zz"] = make([]any, maxUnknownValues-1) })},
		{"unknown keys below a known one", ref, edited(t, ref, func(m map[string]any) {
			m["image"].(map[string]any)["etag"] = "abc"
		})},
		{"nil for an absent key", pairInline(), edited(t, pairInline(), func(m map[string]any) {
			m["image"], m["source"], m["crawl_time"] = nil, nil, nil
		})},
		{"nil for an empty column", batchOfOne(), edited(t, batchOfOne(), func(m map[string]any) { m["i2t"] = nil })},
		{"empty bin for an empty column", batchOfOne(), edited(t, batchOfOne(), func(m map[string]any) {
			m["i2t"], m["t2i"] = []byte{}, []byte{}
		})},
		{"missing key is zero", &Seal{}, pack(t, map[string]any{})},
		{"wide integers", ref, edited(t, ref, func(m map[string]any) {
			m["image"].(map[string]any)["size"] = int64(48_211)
		})},
		{"whole number for a float", &Progress{Kind: ProgressStep, Values: Measures{"x": 3}}, pack(t, map[string]any{
			"kind": "step", "values": map[string]any{"x": 3},
		})},
		{"float32 for a float64", &Progress{Kind: ProgressStep, Values: Measures{"x": 0.5}}, pack(t, map[string]any{
			"kind": "step", "values": map[string]any{"x": float32(0.5)},
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := must.Get(Unmarshal(tt.want.Schema(), tt.value))(t)
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("decoded\n%+v\nwant\n%+v", got, tt.want)
			}
		})
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	seal, ref := mustMarshal(t, &Seal{}), pairByRef()
	sample := func(key string, v any) []byte {
		return edited(t, batch(), func(m map[string]any) { m["samples"].([]any)[0].(map[string]any)[key] = v })
	}
	set := func(r Record, key string, v any) []byte {
		return edited(t, r, func(m map[string]any) { m[key] = v })
	}
	tests := []struct {
		name   string
		schema string
		value  []byte
		want   error
		text   string
	}{
		{"unknown type", "pairstream.pears/1", seal, ErrUnknownSchema, `"pairstream.pears/1"`},
		{"unknown major", "pairstream.seal/2", seal, ErrUnknownSchema, ""},
		{"no schema", "", seal, ErrUnknownSchema, ""},
		{"no bytes", SchemaSeal, nil, ErrMalformed, "ends"},
		{"not msgpack", SchemaSeal, []byte("{\"final\":true}"), ErrInvalid, "want map"},
		{"nil record", SchemaSeal, []byte{0xc0}, ErrInvalid, "want map"},
		{"record as array", SchemaSeal, pack(t, []any{true, "x"}), ErrInvalid, "want map"},
		{"trailing byte", SchemaSeal, append(bytes.Clone(seal), 0xc0), ErrMalformed, "1 bytes after the end"},
		{"two records", SchemaSeal, append(bytes.Clone(seal), seal...), ErrMalformed, "after the end"},
		{"five bytes that ask for gigabytes", SchemaBatch, []byte("\x81\xa7samples\xdd\xff\xff\xff\xff"), ErrMalformed, "4294967295 elements"},
		{"map of four billion", SchemaSeal, []byte("\xdf\xff\xff\xff\xff"), ErrMalformed, "4294967295 elements"},
		{"bin of four gigabytes", SchemaPair, []byte("\x81\xa6inline\xc6\xff\xff\xff\xff"), ErrMalformed, "4294967295 bytes"},
		{"key of four gigabytes", SchemaPair, []byte("\x81\xdb\xff\xff\xff\xff"), ErrMalformed, "4294967295 bytes"},
		{"cut inside a length", SchemaPair, []byte("\x81\xdb\xff\xff"), ErrMalformed, "inside"},
		{"extension type", SchemaSeal, []byte("\x81\xa4note\xd4\x01\x02"), ErrMalformed, "extension"},
		{"extension below an unknown key", SchemaSeal, []byte("\x81\xa1x\xc7\x01\x02\x03"), ErrMalformed, "extension"},
		{"extension before a map", SchemaSeal, []byte("\xc7\x00\x00\x80"), ErrMalformed, "extension"},
		{"reserved code", SchemaSeal, []byte("\x81\xa4note\xc1"), ErrMalformed, "reserved"},
		{"key is bin", SchemaSeal, []byte("\x81\xc4\x05final\xc3"), ErrMalformed, "map key is bin"},
		{"key is int below an unknown key", SchemaSeal, []byte("\x81\xa1x\x81\x01\x01"), ErrMalformed, "map key is int"},
		{"known key twice", SchemaSeal, []byte("\x82\xa5final\xc3\xa5final\xc2"), ErrMalformed, `"final" appears twice`},
		{"known key twice, once nil", SchemaSeal, []byte("\x82\xa5final\xc0\xa5final\xc2"), ErrMalformed, "twice"},
		{"unknown key twice", SchemaSeal, []byte("\x82\xa1x\x01\xa1x\x01"), ErrMalformed, "twice"},
		{"key twice below an unknown key", SchemaSeal, []byte("\x81\xa1x\x82\xa1y\x01\xa1y\x01"), ErrMalformed, "twice"},
		{"name of a value twice", SchemaProgress, []byte("\x81\xa6values\x82\xa1x\xca\x00\x00\x00\x00\xa1x\xca\x00\x00\x00\x00"), ErrMalformed, "twice"},
		{"nested too deep", SchemaPair, set(ref, "zz", nested(maxDepth)), ErrMalformed, "deeper"},
		{"too many unknown values", SchemaPair, set(ref, "zz", make([]any, maxUnknownValues)), ErrMalformed, "unknown"},
		{"embedded struct by its Go name", SchemaScoredBatch, set(scoredBatch(), "Batch", nil), ErrInvalid, `"Batch" is reserved`},

		{"str for bin", SchemaPair, set(ref, "id", "0123456789abcdef"), ErrInvalid, "id: invalid record: str, want bin"},
		{"bin for str", SchemaPair, set(ref, "caption", []byte("x")), ErrInvalid, "caption: invalid record: bin, want str"},
		{"array for bin", SchemaEmbedding, set(embedding(), "v", []any{1, 0}), ErrInvalid, "v: invalid record: array, want bin"},
		{"array for map", SchemaPair, set(ref, "image", []any{"file:///x", 0, 1}), ErrInvalid, "image: invalid record: array, want map"},
		{"int for bool", SchemaSeal, set(&Seal{}, "final", 1), ErrInvalid, "final: invalid record: int, want bool"},
		{"float for int", SchemaPair, set(ref, "crawl_time", 1.5), ErrInvalid, "float64, want int64"},
		{"float64 for float32", SchemaEmbedding, set(embedding(), "similarity", 0.96), ErrInvalid, "float64, want float32"},
		{"bool for float", SchemaProgress, pack(t, map[string]any{"kind": "step", "values": map[string]any{"x": true}}), ErrInvalid, `"x"`},
		{"nil for a value", SchemaProgress, pack(t, map[string]any{"kind": "step", "values": map[string]any{"x": nil}}), ErrInvalid, "nil"},
		{"nil for a sample", SchemaBatch, set(batch(), "samples", []any{nil}), ErrInvalid, "samples: 0: invalid record: nil, want map"},
		{"int32 too large", SchemaBatch, sample("position", int64(1)<<31), ErrInvalid, "position: invalid record: 2147483648 does not fit int32"},
		{"int32 too small", SchemaBatch, sample("position", -int64(1)<<31-1), ErrInvalid, "-2147483649 does not fit int32"},
		{"int32 that would wrap to a good value", SchemaBatch, sample("position", int64(1)<<32), ErrInvalid, "does not fit"},
		{"int64 too large", SchemaPair, set(ref, "crawl_time", uint64(1)<<63), ErrInvalid, "uint64, want int64"},
		{"id too short", SchemaPair, set(ref, "id", make([]byte, 15)), ErrInvalid, "15 bytes, want 16"},
		{"id too long", SchemaPair, set(ref, "id", make([]byte, 17)), ErrInvalid, "17 bytes, want 16"},
		{"column cut inside a value", SchemaBatch, set(batch(), "i2t", make([]byte, 7)), ErrInvalid, "multiple of 4"},
		{"vector cut inside a value", SchemaEmbedding, set(embedding(), "v", make([]byte, 7)), ErrInvalid, "7 bytes"},
		{"too many samples", SchemaBatch, set(batch(), "samples", make([]map[string]any, MaxBatch+1)), ErrInvalid, "at most 65536"},
		{"too many values", SchemaProgress, set(progress(), "values", tooMany()), ErrInvalid, "at most 256"},
		{"valid msgpack, invalid pair", SchemaPair, set(ref, "caption", "another"), ErrInvalid, "does not match"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Unmarshal(tt.schema, tt.value)
			if got != nil {
				t.Errorf("got a record: %+v", got)
			}
			if !errors.Is(err, tt.want) {
				t.Fatalf("error is %v, want one that wraps %q", err, tt.want)
			}
			for _, other := range []error{ErrMalformed, ErrInvalid, ErrUnknownSchema} {
				if !errors.Is(other, tt.want) && errors.Is(err, other) {
					t.Errorf("error %v wraps %q too", err, other)
				}
			}
			if !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %q does not say %q", err, tt.text)
			}
		})
	}
}

func tooMany() map[string]any {
	m := map[string]any{}
	for i := range MaxMeasures + 1 {
		m[fmt.Sprint("v", i)] = 0.5
	}
	return m
}

// TestUnmarshalRefusesPrefixes checks that every proper prefix of a record is refused.
func TestUnmarshalRefusesPrefixes(t *testing.T) {
	for name, r := range fixtures() {
		value := mustMarshal(t, r)
		for n := range value {
			if n > 600 && n < len(value)-600 { // inside a long bin or str
				continue
			}
			if got, err := Unmarshal(r.Schema(), value[:n]); got != nil || !errors.Is(err, ErrMalformed) {
				t.Fatalf("%s cut to %d of %d bytes: %v, %v", name, n, len(value), got, err)
			}
		}
	}
}

func TestMarshalRefusesInvalid(t *testing.T) {
	p := pairByRef()
	p.Caption = "another"
	if b, err := Marshal(p); b != nil || !errors.Is(err, ErrInvalid) {
		t.Errorf("got %x, %v", b, err)
	}
}

func TestUnmarshalSharesNoMemory(t *testing.T) {
	value := mustMarshal(t, pairInline())
	got := must.Get(Unmarshal(SchemaPair, value))(t)
	clear(value)
	if !reflect.DeepEqual(got, Record(pairInline())) {
		t.Error("the record changed with the bytes that it was decoded from")
	}
}

func TestCatalogueSchemasAreKnown(t *testing.T) {
	seen := map[string]bool{}
	for _, topic := range Catalogue() {
		for _, schema := range topic.Schemas {
			seen[schema] = true
			r, ok := recordTypes[schema]
			if !ok || r.make().Schema() != schema {
				t.Errorf("topic %s carries %s, which the codec does not know", topic.Topic, schema)
			}
		}
	}
	for schema := range recordTypes {
		if !seen[schema] {
			t.Errorf("%s travels on no topic", schema)
		}
	}
}
