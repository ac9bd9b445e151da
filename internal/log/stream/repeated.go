package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pairstream/pairstream/schemas"
)

// compareBytes is the number of bytes to read ahead of a lane's own earlier output.
const compareBytes = 1 << 20

// repeated compares an owner's repeated records with the log (invariant 1), if an operator has skipped records after
// the mark that the owner resumes from. The lane may have used them before they were skipped. Without skips there is no
// need to compare.
type repeated struct {
	because string // of these skips
	readers map[schemas.Topic]*Reader
	next    map[schemas.Topic]Record // read, and not yet compared
	unknown error                    // a repeated record since the last comparison is gone from the log; nil: none
}

// compareWith makes the lane compare its repeated records, if it must. published has the seqs that follow in the log.
// given has the skips that the lane's readers follow.
func (ln *lane) compareWith(ctx context.Context, mark Mark, published map[schemas.Topic]int64, given []Skip) (*repeated, error) {
	var because []string
	for _, t := range ln.spec.Inputs {
		from := mark.input(t)
		for _, s := range ofLane(given, t, ln.id) {
			switch {
			case s.To.Seq > from.Seq && s.To.Seq > s.From.Seq:
				because = append(because, fmt.Sprintf("seqs %d to %d of %s were skipped (%s)", s.From.Seq, s.To.Seq-1, t, s.Reason))
			case s.To.Seq == s.From.Seq && s.To.Offset > from.Offset:
				because = append(because, fmt.Sprintf("offsets %d to %d of %s were skipped (%s)", s.From.Offset, s.To.Offset-1, t, s.Reason))
			}
		}
	}
	if because == nil {
		return nil, nil
	}
	r := &repeated{because: strings.Join(because, ", "), readers: make(map[schemas.Topic]*Reader), next: make(map[schemas.Topic]Record)}
	for _, t := range ln.spec.Outputs {
		from := Position{Offset: mark.seq(t), Seq: mark.seq(t)} // seqs have no gaps, so a record's offset is its seq or more
		if from.Seq >= published[t] {
			continue
		}
		b, err := ln.log.Bounds(ctx, t, ln.id)
		if err != nil {
			return nil, err
		}
		if b.Start > from.Offset { // records deleted by retention cannot be compared
			from.Offset = b.Start
			first, err := ln.log.firstSeq(ctx, t, ln.id, b)
			if err != nil {
				return nil, err
			}
			if from.Seq = max(from.Seq, first); from.Seq >= published[t] {
				continue // a reader would wait for the lane's own records
			}
		}
		r.readers[t] = ln.log.newReader(t, ln.id, from, compareBytes, newInstruments(ln.log.metrics, "scan", nil), ofLane(given, t, ln.id))
	}
	return r, nil
}

// compare refuses a record that differs from the record with its seq in the log. It cannot compare with a record of
// another version, or with a deleted one. It remembers the latter.
func (r *repeated) compare(ctx context.Context, topic schemas.Topic, lane int, seq int64, rec schemas.Record) error {
	if r == nil {
		return nil
	}
	if r.readers[topic] == nil {
		r.miss(topic, lane, seq)
		return nil
	}
	there, ok := r.next[topic]
	for !ok || there.Seq < seq {
		var err error
		there, err = r.readers[topic].Next(ctx)
		if ok = err == nil; !ok && !errors.Is(err, ErrPoison) {
			return fmt.Errorf("comparing with %s, seq %d: %w", topic, seq, err)
		}
	}
	r.next[topic] = there
	value, err := schemas.Marshal(rec)
	switch {
	case err != nil:
		return err
	case there.Seq > seq:
		r.miss(topic, lane, seq)
		return nil
	case bytes.Equal(value, there.Value) && there.Schema == rec.Schema():
		r.unknown = nil // then those before it are the same
		return nil
	}
	if _, err := schemas.Unmarshal(there.Schema, there.Value); there.Schema != rec.Schema() && newer(&there, err) {
		return nil
	}
	return Damaged(fmt.Errorf("%s, lane %d, seq %d: the stage now makes another record of its inputs than the log has, because %s after they were used: "+
		"continuing would lose the next records; use another NAMESPACE", topic, lane, seq, r.because))
}

// miss remembers that a repeated record is gone from the log.
func (r *repeated) miss(topic schemas.Topic, lane int, seq int64) {
	r.unknown = Damaged(fmt.Errorf("%s, lane %d, seq %d: the log has lost this record, and the stage may now make another one, because %s: "+
		"continuing may lose the next records; use another NAMESPACE", topic, lane, seq, r.because))
}

// unsure explains why repeated records may differ from the original ones; nil: they are the same.
func (r *repeated) unsure() error {
	if r == nil {
		return nil
	}
	return r.unknown
}

func (r *repeated) close() {
	if r == nil {
		return
	}
	for _, reader := range r.readers {
		reader.Close()
	}
}
