package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/log/kafka"

	"github.com/pairstream/pairstream/schemas"
)

// Reader reads one lane of a topic, in order and each record once. It is for one goroutine.
type Reader struct {
	log         *Log
	f           *kafka.Fetcher
	instruments *instruments
	in          prometheus.Counter
	skips       []Skip // that operators have ordered
	asked       bool   // whether skips was read
	seqed       bool
	pos         Position
	chunk       []Record // taken from the fetcher, not yet returned
	lag         int64    // as last counted
}

// ReaderOptions tune a reader. The zero value is ready to use.
type ReaderOptions struct {
	MaxBytes int64     // read ahead at most about this much; 0: 8 MiB
	Name     string    // name of the reader in metrics; empty: "reader"
	Counters *Counters // kept up to date when set
}

// OpenReader starts to read a lane at a position: the zero position, or one from [Record.Next] or [Reader.Position]. It
// returns at once. A position that the log does not have is an error of Next.
func (l *Log) OpenReader(topic schemas.Topic, lane int, from Position, opts ReaderOptions) *Reader {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 8 << 20
	}
	if opts.Name == "" {
		opts.Name = "reader"
	}
	return l.newReader(topic, lane, from, opts.MaxBytes, newInstruments(l.metrics, opts.Name, opts.Counters), nil)
}

func (l *Log) newReader(topic schemas.Topic, lane int, from Position, budget int64, m *instruments, skips []Skip) *Reader {
	r := &Reader{log: l, instruments: m, in: m.in[topic], seqed: Sequenced(topic), pos: from, skips: skips, asked: skips != nil || !isLaneTopic(topic)}
	r.follow()
	r.f = l.Fetch(topic, lane, r.pos.Offset, budget, m.addBytes)
	return r
}

// Close stops reading.
func (r *Reader) Close() {
	r.f.Close()
	r.instruments.addLag(-r.lag)
	r.lag = 0
}

// Position returns the position after the last record that Next returned or skipped.
func (r *Reader) Position() Position { return r.pos }

// Next waits for the next record of the lane's sequence. An error that wraps ErrPoison comes together with a record
// that is not part of the sequence. Set the record aside and call Next again. Any other error is final. A [GapError]
// means that records are lost.
func (r *Reader) Next(ctx context.Context) (Record, error) {
	for {
		rec, ok, err := r.poll(ctx)
		if ok || err != nil {
			return rec, err
		}
		select {
		case <-ctx.Done():
			return Record{}, ctx.Err()
		case <-r.f.Ready():
		}
	}
}

// poll returns the next record like Next, but does not wait. ok is false if no record is at hand.
func (r *Reader) poll(ctx context.Context) (rec Record, ok bool, err error) {
	if err := r.ask(ctx); err != nil {
		return Record{}, false, err
	}
	for {
		if len(r.chunk) == 0 {
			if r.chunk, err = r.f.Take(); err != nil {
				return Record{}, false, r.explain(ctx, err)
			}
			if len(r.chunk) == 0 {
				r.updateLag()
				return Record{}, false, nil
			}
			r.updateLag()
			r.instruments.progressed()
		}
		rec, r.chunk = r.chunk[0], r.chunk[1:]
		isNew, err := r.accept(&rec)
		if isNew || err != nil {
			return rec, err == nil, err
		}
	}
}

// accept moves the position past rec. It reports whether rec is the next record of the sequence.
func (r *Reader) accept(rec *Record) (bool, error) {
	if len(r.skips) > 0 && r.dropped(rec.Offset) {
		r.pos.Offset = rec.Offset + 1
		r.instruments.dropped(rec.Topic)
		return false, nil
	}
	if rec.Unreadable != nil {
		r.pos.Offset = rec.Offset + 1
		return false, Poison(rec.Unreadable)
	}
	if !r.seqed {
		r.pos = rec.Next()
		r.instruments.read(r.in)
		return true, nil
	}
	seq, err := parseSeq(rec)
	if err != nil {
		r.pos.Offset = rec.Offset + 1
		return false, Poison(err)
	}
	rec.Seq = seq
	switch {
	case seq < r.pos.Seq: // invariant 3: a repetition of a record that was delivered before
		r.pos.Offset = rec.Offset + 1
		r.instruments.dropped(rec.Topic)
		return false, nil
	case seq > r.pos.Seq:
		return false, &GapError{Topic: rec.Topic, Lane: rec.Lane, Offset: rec.Offset, Expected: r.pos.Seq, Found: seq}
	}
	r.pos = rec.Next()
	r.follow()
	r.instruments.read(r.in)
	return true, nil
}

func parseSeq(rec *Record) (int64, error) {
	raw, ok := rec.Header(schemas.HeaderSeq)
	if !ok {
		return -1, errors.New("no seq header: not written by a stage")
	}
	seq, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || seq < 0 || len(raw) > 1 && raw[0] == '0' || raw[0] == '+' {
		return -1, fmt.Errorf("bad seq header: %q is no sequence number", raw)
	}
	return seq, nil
}

// updateLag counts the records that the broker had at the last fetch and Next has not returned.
func (r *Reader) updateLag() {
	lag := max(r.f.High()-r.pos.Offset, 0)
	r.instruments.addLag(lag - r.lag)
	r.lag = lag
}

// explain turns an offset out of range into an error that tells the cause.
func (r *Reader) explain(ctx context.Context, err error) error {
	if !kafka.NotThere(err) {
		return err
	}
	b, berr := r.log.Bounds(ctx, r.f.Topic(), r.f.Lane())
	if berr != nil {
		return errors.Join(err, berr)
	}
	name := r.log.Name(r.f.Topic())
	switch {
	case r.pos.Offset < b.Start:
		return fmt.Errorf("%w: topic %s, lane %d: offset %d is wanted, retention has removed all before %d: %w",
			ErrGap, name, r.f.Lane(), r.pos.Offset, b.Start, err)
	case r.pos.Offset > b.End:
		return fmt.Errorf("%w: topic %s, lane %d: offset %d is wanted, the log ends at %d (was the topic recreated?): %w",
			ErrGap, name, r.f.Lane(), r.pos.Offset, b.End, err)
	}
	return err
}
