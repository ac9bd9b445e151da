package stream

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/schemas"
)

// TopicSeq is the seq of the next record of a stage's lane of one output topic.
type TopicSeq struct {
	Topic schemas.Topic
	Seq   int64
}

// Mark is a point from which a stage can resume. It holds the positions to read the stage's inputs from, the seqs of
// its next outputs, and a few bytes of state. Stages get marks from [Output] and treat them as opaque. The zero mark is
// the start of the lane. In a mark without Seqs (nil), the seqs are those after the record that carries it.
type Mark struct {
	Inputs []TopicPosition
	Seqs   []TopicSeq
	State  []byte
}

func (m Mark) input(t schemas.Topic) Position {
	for _, p := range m.Inputs {
		if p.Topic == t {
			return p.Position
		}
	}
	return Position{}
}

// With returns the mark with another position in one of its inputs.
func (m Mark) With(t schemas.Topic, at Position) Mark {
	m.Inputs = slices.DeleteFunc(slices.Clone(m.Inputs), func(p TopicPosition) bool { return p.Topic == t })
	m.Inputs = append(m.Inputs, TopicPosition{Topic: t, Position: at})
	return m
}

// Rereading returns the mark of a stage that reads its own output again, from a seq on. The record cannot lie before
// the mark's offset, because repetitions only shift offsets up.
func (m Mark) Rereading(t schemas.Topic, seq int64) Mark {
	return m.With(t, Position{Offset: seq, Seq: seq})
}

func (m Mark) seq(t schemas.Topic) int64 {
	for _, s := range m.Seqs {
		if s.Topic == t {
			return s.Seq
		}
	}
	return 0
}

// covered reports whether all records that the stage wrote before m are in the log (invariant 5).
func (m Mark) covered(published map[schemas.Topic]int64) bool {
	for _, s := range m.Seqs {
		if s.Seq > published[s.Topic] {
			return false
		}
	}
	return true
}

// furthest returns the furthest covered mark, or the zero mark if there is none. Of marks of the same position it
// returns the first. A mark at the start of the lane is not the zero mark: it has a state.
func furthest(marks []Mark, published map[schemas.Topic]int64, inputs, outputs []schemas.Topic) Mark {
	var best Mark
	found := false
	for _, m := range marks {
		if m.covered(published) && (!found || m.compare(best, inputs, outputs) > 0) {
			best, found = m, true
		}
	}
	return best
}

// compare orders the marks of one lane of one stage by progress: inputs first, then outputs.
func (m Mark) compare(n Mark, inputs, outputs []schemas.Topic) int {
	for _, t := range inputs {
		if a, b := m.input(t), n.input(t); a.Offset != b.Offset {
			return cmp.Compare(a.Offset, b.Offset)
		}
	}
	for _, t := range outputs {
		if a, b := m.seq(t), n.seq(t); a != b {
			return cmp.Compare(a, b)
		}
	}
	return 0
}

// check refuses a mark with topics that the stage does not have: another stage wrote it.
func (m Mark) check(inputs, outputs []schemas.Topic) error {
	for _, p := range m.Inputs {
		if !slices.Contains(inputs, p.Topic) && !slices.Contains(outputs, p.Topic) {
			return fmt.Errorf("%w: it names the input %q, which this stage does not read", errMark, p.Topic)
		}
	}
	for _, s := range m.Seqs {
		if !slices.Contains(outputs, s.Topic) {
			return fmt.Errorf("%w: it names the output %q, which this stage does not write", errMark, s.Topic)
		}
	}
	return nil
}

var errMark = errors.New("bad resume mark")

const markVersion = 1

// appendMark writes the value of the src header:
//
//	version  1 byte
//	inputs   uvarint count, then for each: topic, uvarint offset, uvarint seq
//	seqs     uvarint count, then for each: topic, uvarint seq
//	state    the rest
//
// where a topic is a uvarint length and as many bytes.
func appendMark(dst []byte, m Mark) []byte {
	dst = append(dst, markVersion)
	dst = binary.AppendUvarint(dst, uint64(len(m.Inputs)))
	for _, p := range m.Inputs {
		dst = appendTopic(dst, p.Topic)
		dst = binary.AppendUvarint(dst, uint64(p.Offset))
		dst = binary.AppendUvarint(dst, uint64(p.Seq))
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.Seqs)))
	for _, s := range m.Seqs {
		dst = appendTopic(dst, s.Topic)
		dst = binary.AppendUvarint(dst, uint64(s.Seq))
	}
	return append(dst, m.State...)
}

func appendTopic(dst []byte, t schemas.Topic) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(t)))
	return append(dst, t...)
}

// parseMark reads what appendMark wrote.
func parseMark(src []byte) (Mark, error) {
	if len(src) == 0 || src[0] != markVersion {
		return Mark{}, fmt.Errorf("%w: %d bytes, want version %d", errMark, len(src), markVersion)
	}
	d := markDecoder{rest: src[1:]}
	var m Mark
	for range d.count() {
		m.Inputs = append(m.Inputs, TopicPosition{Topic: d.topic(), Position: Position{Offset: d.number(), Seq: d.number()}})
	}
	for range d.count() {
		m.Seqs = append(m.Seqs, TopicSeq{d.topic(), d.number()})
	}
	if d.bad {
		return Mark{}, fmt.Errorf("%w: cut short", errMark)
	}
	if len(d.rest) > 0 {
		m.State = slices.Clone(d.rest)
	}
	return m, nil
}

// markDecoder reads numbers and topics until something does not fit. From then on it returns zeros.
type markDecoder struct {
	rest []byte
	bad  bool
}

func (d *markDecoder) number() int64 {
	v, n := binary.Uvarint(d.rest)
	if d.bad || n <= 0 || v > 1<<62 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return int64(v)
}

// count reads a number of elements of at least two bytes each.
func (d *markDecoder) count() int64 {
	n := d.number()
	if n > int64(len(d.rest)/2) {
		d.bad, d.rest = true, nil
		return 0
	}
	return n
}

func (d *markDecoder) topic() schemas.Topic {
	n := d.number()
	if n > int64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return ""
	}
	t := schemas.Topic(d.rest[:n])
	d.rest = d.rest[n:]
	return t
}
