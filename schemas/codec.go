package schemas

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// The ways in which bytes fail to be a record. A caller tells them apart to name the reason of a dead letter.
var (
	ErrMalformed     = errors.New("not well-formed msgpack")
	ErrUnknownSchema = errors.New("unknown schema")
	ErrInvalid       = errors.New("invalid record")
)

// Record is a value that travels on a topic.
type Record interface {
	Schema() string  // the value of the schema header
	Validate() error // wraps ErrInvalid
}

// recordType holds the constructor and the shape of one type of record.
type recordType struct {
	make  func() Record
	shape *shape
}

var recordTypes = map[string]recordType{
	SchemaPair:          recordTypeOf[Pair](),
	SchemaSeal:          recordTypeOf[Seal](),
	SchemaEmbedding:     recordTypeOf[Embedding](),
	SchemaRefusal:       recordTypeOf[Refusal](),
	SchemaNeighborChunk: recordTypeOf[NeighborChunk](),
	SchemaGroup:         recordTypeOf[Group](),
	SchemaBatch:         recordTypeOf[Batch](),
	SchemaScoredBatch:   recordTypeOf[ScoredBatch](),
	SchemaFeatureBlock:  recordTypeOf[FeatureBlock](),
	SchemaProgress:      recordTypeOf[Progress](),
	SchemaJudgement:     recordTypeOf[Judgement](),
}

func recordTypeOf[T any, P interface {
	*T
	Record
}]() recordType {
	return recordType{make: func() Record { return P(new(T)) }, shape: shapeOf(reflect.TypeFor[T]())}
}

// rooms pools buffers for encoding; Append copies each record out at its exact size. The pool keeps large buffers until
// the garbage collector empties it.
var rooms = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Marshal validates and encodes a record. The same record always gives the same bytes.
func Marshal(r Record) ([]byte, error) { return Append(nil, r) }

// Append appends to dst what Marshal returns.
func Append(dst []byte, r Record) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("encoding %s: %w", r.Schema(), err)
	}
	buf := rooms.Get().(*bytes.Buffer)
	defer rooms.Put(buf)
	buf.Reset()
	e := msgpack.GetEncoder()
	defer msgpack.PutEncoder(e)
	e.Reset(buf)
	e.UseCompactInts(true)
	write := func() error { return e.Encode(r) }
	if p, ok := r.(*Pair); ok {
		write = func() error { return p.writeFields(e) }
	}
	if err := write(); err != nil {
		return nil, fmt.Errorf("encoding %s: %w", r.Schema(), err)
	}
	return append(dst, buf.Bytes()...), nil
}

// Unmarshal checks, decodes and validates the value of a message whose schema header is schema. The record shares no
// memory with value.
func Unmarshal(schema string, value []byte) (Record, error) {
	t, ok := recordTypes[schema]
	if !ok {
		return nil, fmt.Errorf("decoding: %w %.64q", ErrUnknownSchema, schema)
	}
	if err := checkWellFormed(value, t.shape); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", schema, err)
	}
	r := t.make()
	if err := decode(value, r); err != nil {
		if errors.Is(err, ErrInvalid) {
			return nil, fmt.Errorf("decoding %s: %w", schema, err)
		}
		return nil, fmt.Errorf("decoding %s: %w: %w", schema, ErrMalformed, err)
	}
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", schema, err)
	}
	return r, nil
}

// decode does what msgpack.Unmarshal does, without its stock of values made in advance. The stock costs a goroutine
// for ever, and a channel operation for each value of every type.
func decode(value []byte, r Record) error {
	d := msgpack.GetDecoder()
	defer msgpack.PutDecoder(d)
	d.Reset(bytes.NewReader(value))
	return d.Decode(r)
}

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI returns the description of the HTTP front door, in YAML.
func OpenAPI() []byte { return openAPI }
