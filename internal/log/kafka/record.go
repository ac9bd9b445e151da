package kafka

import (
	"time"

	"github.com/pairstream/pairstream/schemas"
)

// Position is a position in one lane of a topic.
type Position struct {
	Offset int64 // next offset to read
	Seq    int64 // next expected seq; 0 on topics without seqs
}

// TopicPosition is a position in a lane of one topic.
type TopicPosition struct {
	Topic schemas.Topic
	Position
}

// Header is one header of a message.
type Header struct {
	Key   string
	Value []byte
}

// Record is one message of a lane.
type Record struct {
	Topic  schemas.Topic
	Lane   int
	Offset int64 // for messages; repetitions in the log shift it, so a stage's output may depend on Seq but not on Offset
	Seq    int64 // -1 on topics without seqs
	Schema string
	Value  []byte
	Time   time.Time // informative; nothing may depend on it

	Key        []byte // nil: none. Notes have one.
	Headers    []Header
	Unreadable error           // why the record cannot be read; it is set aside
	Others     []TopicPosition // positions of a stage's other inputs when it got this record
}

// Header returns the value of the named message header.
func (r Record) Header(name string) ([]byte, bool) {
	for _, h := range r.Headers {
		if h.Key == name {
			return h.Value, true
		}
	}
	return nil, false
}

// Position returns the position of the record.
func (r Record) Position() Position { return Position{Offset: r.Offset, Seq: max(r.Seq, 0)} }

// Next returns the position after the record.
func (r Record) Next() Position { return Position{Offset: r.Offset + 1, Seq: r.Seq + 1} }

const (
	recordOverhead = 256 // rough size of a record besides its bytes
	headerOverhead = 64  // rough size of a header besides its bytes
)

func (r *Record) size() int64 {
	n := int64(len(r.Value)) + int64(len(r.Key)) + recordOverhead
	for _, h := range r.Headers {
		n += int64(len(h.Key)) + int64(len(h.Value)) + headerOverhead
	}
	return n
}

func sizeOf(records []Record) int64 {
	var n int64
	for i := range records {
		n += records[i].size()
	}
	return n
}

// Message is a record to be sent to the brokers.
type Message struct {
	Topic   schemas.Topic
	Lane    int
	Key     []byte // nil: none
	Value   []byte // nil: none
	Headers []Header
}

// Batch is a list of messages of one lane that go out together.
type Batch interface {
	Len() int
	Message(i int) *Message
}

const (
	wireOverhead = batchHead + 64 // of a batch and its only record
	headerWire   = 10
)

// Size returns roughly the bytes that a message takes in memory.
func (m *Message) Size() int64 {
	n := int64(len(m.Value)) + int64(len(m.Key)) + recordOverhead
	for _, h := range m.Headers {
		n += int64(len(h.Key)) + int64(len(h.Value))
	}
	return n
}

// WireSize returns the size of a batch with only this message. The result is exact or a little too large.
func (m *Message) WireSize() int64 {
	return int64(len(m.Value)) + int64(len(m.Key)) + wireOverhead + m.HeaderSize()
}

// HeaderSize returns the bytes that the headers take in a batch. The result is exact or a little too large.
func (m *Message) HeaderSize() (n int64) {
	for _, h := range m.Headers {
		n += int64(len(h.Key)) + int64(len(h.Value)) + headerWire
	}
	return n
}
