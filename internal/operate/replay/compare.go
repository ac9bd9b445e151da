package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"text/tabwriter"

	"github.com/pairstream/pairstream/internal/log/msgvalue"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Result is the comparison of one lane of a topic.
type Result struct {
	Topic   schemas.Topic `json:"topic"`
	Lane    int           `json:"lane"`
	Records int64         `json:"records"`           // equal records, from the first on
	Equal   bool          `json:"equal"`             // all records are equal
	Moved   int64         `json:"moved,omitempty"`   // references to spooled images that name another folder or offset
	Differs string        `json:"differs,omitempty"` // the first difference, or why the lane cannot be compared
}

// follower compares one lane of a topic while the replay writes it.
type follower struct {
	topic    schemas.Topic
	want     Lane
	ended    bool // the original's lane has ended
	original *stream.Log
	replayed *stream.Log
	places   *places

	compared func()          // called for every record of the replay
	enough   func()          // called when this lane needs no more records
	stopped  <-chan struct{} // closed when the stages have ended

	digest *stream.Digest // of the replay
	seen   *stream.Digest // of the original
	blind  error          // why the original can no longer be read
}

// follow compares until every record has arrived, one differs, or live ends. Then it judges the records so far.
func (f *follower) follow(ctx, live context.Context) (Result, error) {
	defer f.enough()
	f.digest, f.seen = stream.NewDigest(), stream.NewDigest()
	if f.want.Records > 0 { // otherwise the reader would wait for the missing ones
		last, err := f.original.LastSeq(ctx, f.topic, f.want.Lane)
		if err != nil {
			return Result{}, fmt.Errorf("reading the original: %w", err)
		}
		if last+1 < f.want.Records {
			return Result{}, fmt.Errorf("comparing %s, lane %d: the original has only %d records, the manifest says %d: it is of another log", f.topic, f.want.Lane, last+1, f.want.Records)
		}
	}
	original := open(f.original, f.topic, f.want.Lane)
	defer original.Close()
	r := Result{Topic: f.topic, Lane: f.want.Lane}
	for rec, err := range f.replay(ctx, live) {
		if err != nil {
			return r, fmt.Errorf("reading the replay: %w", err)
		}
		if r.Records == f.want.Records {
			r.Differs = fmt.Sprintf("record %d: the original has only %d", r.Records, f.want.Records)
			return r, nil
		}
		f.digest.Add(rec)
		what, err := f.compare(ctx, rec, original)
		if err != nil {
			return r, err
		}
		if what != "" {
			r.Differs = fmt.Sprintf("record %d: %s", r.Records, what)
			return r, nil
		}
		r.Records++
		f.compared()
	}
	return f.conclude(r)
}

// conclude judges a lane in which no record differs.
func (f *follower) conclude(r Result) (Result, error) {
	r.Moved = f.places.moved
	switch {
	case r.Records < f.want.Records:
		r.Differs = fmt.Sprintf("record %d: the replay has only %d of %d", r.Records, r.Records, f.want.Records)
	case f.blind != nil && f.digest.Sum() != f.want.Digest:
		r.Differs = fmt.Sprintf("some record: the digests are not equal, and the original cannot be read any more: %v", f.blind)
	case f.blind == nil && f.seen.Sum() != f.want.Digest:
		return r, fmt.Errorf("comparing %s, lane %d: the original's digest is %s, the manifest says %s: it is of another log", f.topic, f.want.Lane, f.seen.Sum(), f.want.Digest)
	default:
		r.Equal = true
	}
	return r, nil
}

// replay yields the replay's records as they arrive, and after the end of live those that have been written. It stops
// at the number of records in the manifest, unless the original has ended: then it yields any records beyond that.
func (f *follower) replay(ctx, live context.Context) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		r := open(f.replayed, f.topic, f.want.Lane)
		defer r.Close()
		n := int64(0)
		for n < f.want.Records {
			rec, err := nextOf(live, r)
			if err != nil && live.Err() != nil && ctx.Err() == nil {
				break
			}
			if !yield(rec, err) || err != nil {
				return
			}
			n++
		}
		f.enough()
		if n == f.want.Records && !f.ended {
			return
		}
		select {
		case <-ctx.Done():
			yield(stream.Record{}, ctx.Err())
			return
		case <-f.stopped:
		}
		for rec, err := range f.replayed.Records(ctx, f.topic, f.want.Lane, r.Position(), -1) {
			if !yield(rec, err) || n == f.want.Records && !f.ended {
				return
			}
			n++
		}
	}
}

// followBytes is the number of bytes read ahead on each side of a comparison. Every lane of every topic has a
// comparison.
const followBytes = 256 << 10

func open(log *stream.Log, topic schemas.Topic, lane int) *stream.Reader {
	return log.OpenReader(topic, lane, stream.Position{}, stream.ReaderOptions{MaxBytes: followBytes, Name: "replay"})
}

// nextOf is [stream.Reader.Next] without foreign records.
func nextOf(ctx context.Context, r *stream.Reader) (stream.Record, error) {
	for {
		rec, err := r.Next(ctx)
		if !errors.Is(err, stream.ErrPoison) {
			return rec, err
		}
	}
}

// compare returns the difference between a record of the replay and the next record of the original, "" if there is none.
func (f *follower) compare(ctx context.Context, rec stream.Record, original *stream.Reader) (string, error) {
	if f.blind != nil {
		return "", nil
	}
	want, err := nextOf(ctx, original)
	switch {
	case errors.Is(err, stream.ErrGap):
		f.blind = err
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the original: %w", err)
	}
	f.seen.Add(want)
	switch {
	case want.Schema != rec.Schema:
		return fmt.Sprintf("schema: %q, not %q", want.Schema, rec.Schema), nil
	case bytes.Equal(want.Value, rec.Value):
		return "", nil
	}
	a, aerr := msgvalue.Decode(want.Value)
	b, berr := msgvalue.Decode(rec.Value)
	if aerr != nil || berr != nil {
		a, b = want.Value, rec.Value
	}
	moved := f.places.moved
	d, found := msgvalue.Diff(a, b, f.places.same)
	switch {
	case found:
		return d.String(), nil
	case f.places.moved == moved: // the same values in another encoding
		return msgvalue.Difference{A: want.Value, B: rec.Value}.String(), nil
	}
	return "", nil
}

// Print writes a line for every lane of every topic, and a summary.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "topic\tlane\trecords\tresult")
	records := int64(0)
	for _, x := range r.Results {
		result := "equal"
		switch {
		case !x.Equal:
			result = "differs at " + x.Differs
		case x.Moved > 0:
			result = fmt.Sprintf("equal but for where %d spooled images lie", x.Moved)
		}
		if x.Equal {
			records += x.Records
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\n", x.Topic, x.Lane, x.Records, result)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	sum := fmt.Sprintf("%d pairs were copied; %d records in %d lanes are equal", r.Copied, records, len(r.Results)-r.differing())
	if n := r.differing(); n > 0 {
		sum += fmt.Sprintf(", %d lanes differ", n)
	}
	if r.Stalled {
		sum += "; no record came for as long as --patience, so the stages were stopped"
	}
	if r.Unfinished {
		sum += "; training did not end by itself, so its last step and checkpoint may be missing"
	}
	if r.Tombstones > 0 {
		sum += fmt.Sprintf("; %d tombstones apply to the replay from its start, so it differs where the original used a pair before its tombstone", r.Tombstones)
	}
	_, err := fmt.Fprintln(w, sum)
	return err
}
