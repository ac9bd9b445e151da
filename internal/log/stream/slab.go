package stream

import (
	"slices"
	"strconv"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/schemas"
)

const (
	slabBytes   = 64 << 10
	slabHeaders = 192
	slabSpares  = 32 // pieces kept for reuse
)

// slab allocates the memory of many small messages of a publisher in a few pieces. It reuses a piece once the last of
// its messages is acknowledged. The zero slab gives each message its own memory.
type slab struct {
	pub     *Publisher
	bytes   []byte // empty, with the room after it
	headers []kafka.Header
	piece   []byte  // the piece that bytes is the end of
	used    []piece // full ones, the oldest first
}

// piece is the memory of messages whose numbers lie below until.
type piece struct {
	bytes []byte
	until int64
}

// keep returns b, which was appended to s.bytes, and reserves its room.
func (s *slab) keep(b []byte) []byte {
	switch {
	case len(b) <= cap(s.bytes):
		s.bytes = b[len(b):]
	case s.pub != nil && len(b) < slabBytes/8:
		s.renew()
	}
	return slices.Clip(b)
}

// renew begins another piece. The message in hand lies in the last piece with its value, and is taken after this.
func (s *slab) renew() {
	put, acked := s.pub.progress()
	if s.piece != nil {
		s.used = append(s.used, piece{s.piece, put + 1})
	}
	switch {
	case len(s.used) > 0 && s.used[0].until <= acked:
		s.piece = s.used[0].bytes
		s.used = slices.Delete(s.used, 0, 1)
	default:
		s.piece = make([]byte, 0, slabBytes)
	}
	if len(s.used) > slabSpares {
		s.used = slices.Delete(s.used, 0, 1)
	}
	s.bytes = s.piece
}

// sequenced returns record seq of a lane.
func (s *slab) sequenced(topic schemas.Topic, lane int, seq int64, resume Mark, schema string, value []byte) message {
	made := s.bytes
	made = append(made, schema...)
	a := len(made)
	made = strconv.AppendInt(made, seq, 10)
	b := len(made)
	made = s.keep(appendMark(made, resume))
	if cap(s.headers)-len(s.headers) < 3 {
		n := 3
		if s.pub != nil {
			n = slabHeaders
		}
		s.headers = make([]kafka.Header, 0, n)
	}
	from := len(s.headers)
	s.headers = append(s.headers,
		kafka.Header{Key: schemas.HeaderSchema, Value: made[:a:a]}, kafka.Header{Key: schemas.HeaderSeq, Value: made[a:b:b]}, kafka.Header{Key: schemas.HeaderSource, Value: made[b:]})
	return message{Message: kafka.Message{Topic: topic, Lane: lane, Value: value, Headers: slices.Clip(s.headers[from:])}}
}

// cloned returns headers that share no memory with others.
func cloned(headers []kafka.Header) []kafka.Header {
	headers = slices.Clone(headers)
	for i := range headers {
		headers[i].Value = slices.Clone(headers[i].Value)
	}
	return headers
}
