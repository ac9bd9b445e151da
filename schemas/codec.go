package schemas

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// The ways in which bytes fail to be a record; a caller tells them apart to name the reason of a dead letter.
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

// Marshal validates and encodes a record; the same record always gives the same bytes.
func Marshal(r Record) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("encoding %s: %w", r.Schema(), err)
	}
	var buf bytes.Buffer
	e := msgpack.NewEncoder(&buf)
	e.UseCompactInts(true)
	e.SetSortMapKeys(true)
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("encoding %s: %w", r.Schema(), err)
	}
	return buf.Bytes(), nil
}

// Unmarshal checks, decodes and validates the value of a message whose schema header is schema.
func Unmarshal(schema string, value []byte) (Record, error) {
	r := newRecord(schema)
	if r == nil {
		return nil, fmt.Errorf("decoding: %w %q", ErrUnknownSchema, schema)
	}
	if err := checkWellFormed(value); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", schema, err)
	}
	if err := msgpack.Unmarshal(value, r); err != nil {
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

func newRecord(schema string) Record {
	switch schema {
	case SchemaPair:
		return new(Pair)
	case SchemaSeal:
		return new(Seal)
	case SchemaEmbedding:
		return new(Embedding)
	case SchemaNeighborChunk:
		return new(NeighborChunk)
	case SchemaGroup:
		return new(Group)
	case SchemaBatch:
		return new(Batch)
	case SchemaScoredBatch:
		return new(ScoredBatch)
	case SchemaFeatureBlock:
		return new(FeatureBlock)
	case SchemaProgress:
		return new(Progress)
	}
	return nil
}
