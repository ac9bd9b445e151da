package stream

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/schemas"
)

// reread is an output that a stage reads again, from the position in its mark up to the mark's seq. It is in the log
// (invariant 5). It is no input: reading it needs no wait, it has no lag, and the skips of operators apply only to its
// other readers.
type reread struct {
	from   Position
	end    int64   // seq of the first record that the stage makes
	reader *Reader // nil: not begun, or over
	over   bool
}

// openRereads records the parts of its outputs that the stage may read again.
func (ln *lane) openRereads(mark Mark) {
	ln.rereads = make(map[schemas.Topic]*reread, len(ln.spec.Rereads))
	for _, t := range ln.spec.Rereads {
		ln.rereads[t] = &reread{from: mark.input(t), end: mark.seq(t)}
	}
}

// source returns the reader of the topic that the stage asks for.
func (ln *lane) source(ctx context.Context) (*Reader, error) {
	topic := ln.stage.Input()
	if r, ok := ln.readers[topic]; ok {
		return r, nil
	}
	r := ln.rereads[topic]
	switch {
	case r == nil:
		return nil, fmt.Errorf("stage asks for %q, which is none of its inputs %v", topic, ln.spec.Inputs)
	case r.over || r.from.Seq >= r.end:
		return nil, fmt.Errorf("stage asks for %q again, behind its mark at seq %d", topic, r.end)
	case r.reader != nil:
		return r.reader, nil
	}
	b, err := ln.log.Bounds(ctx, topic, ln.id)
	if err != nil {
		return nil, err
	}
	if r.from.Offset < b.Start { // repetitions have moved the record up, or it is gone
		r.from.Offset = b.Start
		first, err := ln.log.firstSeq(ctx, topic, ln.id, b)
		if err != nil {
			return nil, err
		}
		if first > r.from.Seq {
			return nil, fmt.Errorf("%w: topic %s, lane %d: the %s reads its own records again from seq %d on, retention has removed all before seq %d. "+
				"`pairstream status --retention` shows the retention needed. Use another NAMESPACE", ErrGap, ln.log.Name(topic), ln.id, ln.spec.Name, r.from.Seq, first)
		}
	}
	r.reader = ln.log.newReader(topic, ln.id, r.from, compareBytes, newInstruments(ln.log.metrics, "scan", nil), []Skip{})
	return r.reader, nil
}

// reread counts a record as taken, and stops reading after the last.
func (ln *lane) reread(rec *Record) {
	if r := ln.rereads[rec.Topic]; r != nil && rec.Seq == r.end-1 {
		r.close()
	}
}

func (r *reread) close() {
	if r.reader != nil {
		r.reader.Close()
		r.reader, r.over = nil, true
	}
}
