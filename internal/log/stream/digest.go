package stream

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"iter"

	"github.com/pairstream/pairstream/schemas"
)

// Records yields the records of a lane from a position up to but not including the offset end, each once. A negative
// end means everything in the log now. Records skips records that are not part of the lane's sequence.
func (l *Log) Records(ctx context.Context, topic schemas.Topic, lane int, from Position, end int64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		b, err := l.Bounds(ctx, topic, lane)
		if err != nil {
			yield(Record{}, err)
			return
		}
		if end < 0 {
			end = b.End
		}
		if !Sequenced(topic) && from.Offset < b.Start {
			from.Offset = b.Start
		}
		if from.Offset >= end {
			return
		}
		var skips []Skip
		if isLaneTopic(topic) {
			if skips, err = l.skipsOf(ctx, topic, lane); err != nil {
				yield(Record{}, err)
				return
			}
		}
		r := l.newReader(topic, lane, from, 8<<20, newInstruments(l.metrics, "scan", nil), skips)
		defer r.Close()
		r.scan(ctx, end, yield)
	}
}

// Everything yields all records that a lane holds now. Unlike [Log.Records] it includes foreign records, repetitions
// and records that operators have skipped. All have the seq -1.
func (l *Log) Everything(ctx context.Context, topic schemas.Topic, lane int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		b, err := l.Bounds(ctx, topic, lane)
		if err != nil {
			yield(Record{}, err)
			return
		}
		r := l.newReader(topic, lane, Position{Offset: b.Start}, 8<<20, newInstruments(l.metrics, "scan", nil), []Skip{})
		defer r.Close()
		r.seqed = false
		r.scan(ctx, b.End, yield)
	}
}

// scan yields the reader's records up to the offset end, except records that are not part of the lane's sequence.
func (r *Reader) scan(ctx context.Context, end int64, yield func(Record, error) bool) {
	for r.Position().Offset < end {
		rec, ok, err := r.nextBelow(ctx, end)
		if errors.Is(err, ErrPoison) {
			continue
		}
		if err != nil {
			yield(Record{}, err)
			return
		}
		if !ok || !yield(rec, nil) {
			return
		}
	}
}

// nextBelow returns the next record below the offset end. It stops at the end even if only duplicates or control
// batches lie before it.
func (r *Reader) nextBelow(ctx context.Context, end int64) (Record, bool, error) {
	for {
		rec, ok, err := r.poll(ctx)
		switch {
		case ok:
			return rec, rec.Offset < end, nil
		case err != nil:
			return rec, false, err
		case r.pos.Offset >= end || r.f.Passed() >= end && len(r.chunk) == 0 && r.f.Idle():
			return Record{}, false, nil
		}
		select {
		case <-ctx.Done():
			return Record{}, false, ctx.Err()
		case <-r.f.Ready():
		}
	}
}

// Digest is a running hash over the records of a lane: their schemas, seqs and values, in order and each once. Offsets
// do not count, so equal digests mean equal sequences.
type Digest struct {
	Records int64
	h       hash.Hash
}

// NewDigest returns the digest of no records.
func NewDigest() *Digest { return &Digest{h: sha256.New()} }

// Add hashes the next record.
func (d *Digest) Add(rec Record) {
	var buf []byte
	buf = binary.AppendUvarint(buf, uint64(len(rec.Schema)))
	buf = append(buf, rec.Schema...)
	buf = binary.AppendVarint(buf, rec.Seq)
	buf = binary.AppendUvarint(buf, uint64(len(rec.Value)))
	d.h.Write(buf)
	d.h.Write(rec.Value)
	d.Records++
}

// Sum returns the digest as 64 hexadecimal digits.
func (d *Digest) Sum() string { return hex.EncodeToString(d.h.Sum(nil)) }

// Digest reads a lane from a position up to the offset end and returns its digest. A negative end means everything in
// the log now.
func (l *Log) Digest(ctx context.Context, topic schemas.Topic, lane int, from Position, end int64) (*Digest, error) {
	d := NewDigest()
	for rec, err := range l.Records(ctx, topic, lane, from, end) {
		if err != nil {
			return nil, err
		}
		d.Add(rec)
	}
	return d, nil
}
