package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

const (
	fillEvery  = time.Second // between two looks at the log
	chunkCount = 2000        // records of one transaction
	chunkBytes = 16 << 20
)

// laneTopics are read in this order. Their ends are asked for in the reverse order, so that a record is read after the
// records that it refers to.
var laneTopics = []schemas.Topic{schemas.Embeddings, schemas.Neighbors, schemas.Groups, schemas.Scored, schemas.Features}

// runTopics have no lanes.
var runTopics = []schemas.Topic{schemas.DeadLetters, schemas.ProgressLog, schemas.Judgements}

// Run follows the log until ctx ends. It logs a fault and tries again, since the pages can do without new records.
func (x *Index) Run(ctx context.Context, logger *slog.Logger) error {
	all, ctx := errgroup.WithContext(ctx)
	follow := func(what string, lane int, topics []schemas.Topic) {
		all.Go(func() error {
			for {
				if err := x.pass(ctx, lane, topics); err != nil && ctx.Err() == nil {
					logger.Warn("the console's index cannot read the log and tries again", keyOf, what, keyErr, err)
				}
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(fillEvery):
				}
			}
		})
	}
	follow("the run", 0, runTopics)
	for lane := range x.log.Config().Lanes {
		follow(fmt.Sprintf("lane %d", lane), lane, laneTopics)
	}
	return all.Wait()
}

// Fill reads the log once, up to its present end.
func (x *Index) Fill(ctx context.Context) error {
	if err := x.pass(ctx, 0, runTopics); err != nil {
		return err
	}
	for lane := range x.log.Config().Lanes {
		if err := x.pass(ctx, lane, laneTopics); err != nil {
			return err
		}
	}
	return nil
}

// pass reads the new records of some topics of a lane.
func (x *Index) pass(ctx context.Context, lane int, topics []schemas.Topic) error {
	if err := x.gone.Refresh(ctx); err != nil {
		return err
	}
	ends := make([]kafka.Bounds, len(topics))
	for i := len(topics) - 1; i >= 0; i-- {
		var err error
		if ends[i], err = x.log.Bounds(ctx, topics[i], lane); err != nil {
			return err
		}
	}
	for i, topic := range topics {
		if err := x.read(ctx, topic, lane, ends[i]); err != nil {
			return fmt.Errorf("indexing %s, lane %d: %w", topic, lane, err)
		}
	}
	return nil
}

// read adds the records of one lane up to its end.
func (x *Index) read(ctx context.Context, topic schemas.Topic, lane int, b kafka.Bounds) error {
	at, err := x.cursor(ctx, topic, lane)
	switch {
	case err != nil:
		return err
	case at.Offset > b.End:
		return x.rebuild(ctx, fmt.Sprintf("%s, lane %d, ends at %d, and %d was read", topic, lane, b.End, at.Offset))
	case at.Offset == b.End:
		return nil
	}
	same, err := x.sameLog(ctx, topic, lane)
	if err != nil {
		return err
	}
	if !same {
		return x.rebuild(ctx, "its last pair is not where it was")
	}
	if at, err = x.behindRetention(ctx, topic, lane, at, b); err != nil {
		return err
	}
	var records []stream.Record
	size := 0
	for rec, err := range x.log.Records(ctx, topic, lane, at, b.End) {
		if err != nil {
			return err
		}
		records = append(records, rec)
		at = rec.Next()
		if size += len(rec.Value); len(records) == chunkCount || size > chunkBytes {
			if err := x.take(ctx, topic, lane, records, at); err != nil {
				return err
			}
			records, size = nil, 0
		}
	}
	at.Offset = b.End
	return x.take(ctx, topic, lane, records, at)
}

// behindRetention moves the place from which to read behind records that retention has removed.
func (x *Index) behindRetention(ctx context.Context, topic schemas.Topic, lane int, at stream.Position, b kafka.Bounds) (stream.Position, error) {
	if at.Offset >= b.Start {
		return at, nil
	}
	at.Offset = b.Start
	if !stream.Sequenced(topic) {
		return at, nil
	}
	var err error
	at.Seq, err = x.log.SeqAt(ctx, topic, lane, b.Start)
	return at, err
}

func (x *Index) cursor(ctx context.Context, topic schemas.Topic, lane int) (stream.Position, error) {
	var p stream.Position
	_, err := one(ctx, x, []any{&p.Offset, &p.Seq}, "SELECT at, seq FROM cursor WHERE topic = ? AND lane = ?", string(topic), lane)
	return p, err
}

// sameLog reports whether the last pair that was indexed is still in its place. It is not in a log that was made anew.
func (x *Index) sameLog(ctx context.Context, topic schemas.Topic, lane int) (bool, error) {
	if topic != schemas.Embeddings {
		return true, nil
	}
	var id []byte
	var at int64
	found, err := one(ctx, x, []any{&id, &at}, "SELECT id, at FROM pair WHERE n = (SELECT max(n) FROM pair WHERE lane = ?)", lane)
	if err != nil || !found {
		return err == nil, err
	}
	rec, err := x.log.RecordAt(ctx, topic, lane, at)
	if errors.Is(err, stream.ErrGap) { // retention
		return true, nil
	}
	if err != nil {
		return false, err
	}
	e, ok := stream.As[*schemas.Embedding](rec)
	return ok && string(e.ID[:]) == string(id), nil
}

// rebuild empties the index, which another log has filled.
func (x *Index) rebuild(ctx context.Context, why string) error {
	err := x.update(ctx, func(w *writer) {
		for _, table := range []string{"cursor", "uri", "pair", "grp", "chunk", "sheet", "batch", "place", "connection", "dead", "progress", "judgement"} {
			w.exec("DELETE FROM " + table)
		}
		clear(x.bounds)
		w.exec("INSERT INTO words(words) VALUES('rebuild')")
	})
	if err != nil {
		return err
	}
	return fmt.Errorf("the log is another than before (%s): the index begins anew", why)
}

// take adds records and the position after them in one transaction.
func (x *Index) take(ctx context.Context, topic schemas.Topic, lane int, records []stream.Record, next stream.Position) error {
	var closed []*schemas.Group
	err := x.update(ctx, func(w *writer) {
		for _, rec := range records {
			if g := w.record(topic, rec); g != nil {
				closed = append(closed, g)
			}
			if w.err != nil {
				w.err = fmt.Errorf("offset %d: %w", rec.Offset, w.err)
				return
			}
		}
		w.prune(topic)
		w.exec("INSERT OR REPLACE INTO cursor (topic, lane, at, seq) VALUES (?, ?, ?, ?)", string(topic), lane, next.Offset, next.Seq)
	})
	for _, g := range closed {
		if err == nil {
			err = x.sheets(ctx, g)
		}
	}
	return err
}

// record adds one record, and returns the manifest of a group that closes. It skips a record that cannot be decoded,
// which the stage sets aside.
func (w *writer) record(topic schemas.Topic, rec stream.Record) *schemas.Group {
	if topic == schemas.DeadLetters {
		w.deadLetter(rec)
		return nil
	}
	r, err := schemas.Unmarshal(rec.Schema, rec.Value)
	if err != nil {
		return nil
	}
	switch r := r.(type) {
	case *schemas.Embedding:
		w.embedding(rec, r)
	case *schemas.NeighborChunk:
		w.neighbors(rec, r)
	case *schemas.Group:
		w.manifest(rec, r)
		return r
	case *schemas.ScoredBatch:
		w.scored(rec, r)
	case *schemas.FeatureBlock:
		w.features(rec, r)
	case *schemas.Progress:
		w.progress(rec, r)
	case *schemas.Judgement:
		w.judgement(r)
	}
	return nil
}

// Keys of log lines.
const (
	keyErr = "err"
	keyOf  = "of"
)
