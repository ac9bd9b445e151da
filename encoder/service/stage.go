// Package service is the encoder as a service: it reads pairs, lets the core embed them in batches, and writes
// embeddings. Every pair gives one record, in order: its embedding, or a refusal if its image is unavailable. So a
// position in the log belongs to one pair, even if two owners of the lane find different objects in the bucket. Refused
// pairs also go to dead-letters, and so do records that are no pairs. A pair that a rule of FILTER drops gets a refusal
// that names the rule, but no dead letter: there would be many. A forgotten pair gets no dead letter either. Rules and
// followed weights change only between spans (span).
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/filter"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/msgvalue"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
)

// embedder is the part of [encoder.Encoder] that the stage drives.
type embedder interface {
	Encode(ctx context.Context, pairs []*schemas.Pair, wanted encoder.Wanted) ([]encoder.Result, error)
	BatchSize() int
}

var _ embedder = (*encoder.Encoder)(nil)

// spool is the part of [shard.Spool] that the stage drives.
type spool interface {
	Put(offset int64, encoded []byte) (schemas.ImageRef, error)
	Sync() error
	State() []byte
	Close() error
}

var _ spool = (*shard.Spool)(nil)

// stage holds pairs back until a batch is full or no input is at hand. Held records are remembered with their
// positions, so every embedding carries the mark of its own pair.
type stage struct {
	core        embedder
	sieve       *sieve // of the span
	spans       *spans
	instruments *service.Instruments
	spool       spool // nil: inline images are refused
	held        []held
	wanted      int  // held pairs without a refusal so far
	dirty       bool // the spool holds images that are not synced
}

// held is a pair that waits for its batch.
type held struct {
	rec   stream.Record
	pair  *schemas.Pair
	state []byte // of the spool after the pair

	refusal *schemas.Refusal // of a pair that needs no embedding; nil: it does
}

// heldPerBatch bounds the pairs that are held, for each pair of a batch: rules may drop most of them.
const heldPerBatch = 16

// newStages returns a factory of stages like the given one. Each spool is its stage's lane's; without a root there is
// none. In next, a lane that does not follow the trainer has no weights.
func newStages(like stage, o shard.SpoolOptions, next spans) stream.Factory {
	return func(lane int, state []byte) (stream.Stage, error) {
		s := like
		at, state, err := parseState(state)
		if err != nil {
			return nil, err
		}
		p := next
		p.lane, p.at = lane, at
		s.spans = &p
		if at.Size > 0 && !p.over() && at.Filter != next.filter {
			if _, err := s.sieve.with(at.Filter); err != nil {
				return nil, fmt.Errorf("FILTER is %q, but lane %d goes on with the rules that %d embeddings were begun with: %w: run the version that began them, or seal the lane with it",
					next.filter, lane, at.Size, err)
			}
			s.instruments.Log.Warn("a lane keeps the rules of FILTER that its embeddings were begun with, up to a seal or so many embeddings",
				keyLane, lane, keyBegunWith, at.Filter, keyFilter, next.filter, keyCount, at.Size-at.Pairs)
		}
		if o.Root == "" {
			return &s, nil
		}
		o := o
		o.Lane = lane
		opened, err := shard.OpenSpool(o, state)
		if err != nil {
			return nil, fmt.Errorf("SPOOL_DIR is %q: %w", o.Root, err)
		}
		s.spool = opened
		return &s, nil
	}
}

// Input implements [stream.Stage].
func (s *stage) Input() schemas.Topic { return schemas.Pairs }

// Process implements [stream.Stage].
func (s *stage) Process(ctx context.Context, rec stream.Record, out stream.Output) error {
	value, err := schemas.Unmarshal(rec.Schema, rec.Value)
	if err != nil {
		return s.refuse(ctx, rec, err, out)
	}
	switch r := value.(type) {
	case *schemas.Pair:
		return s.add(ctx, rec, r, out)
	case *schemas.Seal:
		if err := s.Flush(ctx, out); err != nil {
			return err
		}
		s.spans.seal(rec, out)
		return out.Emit(schemas.Embeddings, r, out.After(rec, s.spans.state(s.state())))
	default:
		return s.refuse(ctx, rec, errors.New("foreign record: "+rec.Schema+" does not belong on this topic"), out)
	}
}

// refuse sets rec aside after the records held back before it, so that no mark runs ahead of a dead letter.
func (s *stage) refuse(ctx context.Context, rec stream.Record, reason error, out stream.Output) error {
	if err := s.Flush(ctx, out); err != nil {
		return err
	}
	return stream.Poison(explained(rec, reason))
}

const maxProblemBytes = 512

// explained puts a producer's finding before our own reason: `pairstream produce` publishes an invalid pair as a map
// with the key "problem".
func explained(rec stream.Record, reason error) error {
	value, err := msgvalue.Decode(rec.Value)
	if err != nil {
		return reason
	}
	fields, _ := value.(msgvalue.Map)
	field, _ := fields.Get("problem")
	problem, _ := field.(string)
	if len(problem) > maxProblemBytes {
		problem = problem[:maxProblemBytes]
	}
	if problem = strings.ToValidUTF8(problem, ""); problem == "" {
		return reason
	}
	class, detail, _ := strings.Cut(problem, ":")
	return fmt.Errorf("%s:%s (%s)", strings.ReplaceAll(class, "_", " "), detail, reason.Error())
}

// add takes a pair up. An inline image is spooled first, so that the stages behind can refer to it.
func (s *stage) add(ctx context.Context, rec stream.Record, p *schemas.Pair, out stream.Output) error {
	if err := s.enter(ctx, rec, out); err != nil {
		return err
	}
	if len(p.Inline) > 0 {
		if s.spool == nil {
			return s.refusePair(ctx, rec, p, schemas.MaskInline, errors.New("image came inline: SPOOL_DIR is not set"), out)
		}
		if err := checkInline(p.Inline); err != nil {
			return s.refusePair(ctx, rec, p, schemas.MaskUnusable, err, out)
		}
		ref, err := s.spool.Put(rec.Offset, p.Inline)
		switch {
		case errors.Is(err, shard.ErrForeignSpool):
			return fmt.Errorf("SPOOL_DIR: %w", err)
		case err != nil:
			return stream.Transient(err)
		}
		p.Image, p.Inline, s.dirty = &ref, nil, true
	}
	h := held{rec: rec, pair: p, state: s.state(), refusal: s.sieve.early(p)}
	s.held = append(s.held, h)
	if h.refusal == nil {
		s.wanted++
	}
	if s.wanted < s.spans.room(s.core.BatchSize()) && len(s.held) < heldPerBatch*s.core.BatchSize() {
		return nil
	}
	return s.Flush(ctx, out)
}

// checkInline rejects bytes that are no image before they take room in the spool. It is a function of the bytes alone:
// if the decoder runs out of time the bytes are spooled, so that two owners of a lane spool the same images.
func checkInline(encoded []byte) error {
	if _, err := imaging.ReadHeader(encoded); err != nil {
		return fmt.Errorf("%w: %w", encoder.ErrUnusable, err)
	}
	if err := imaging.Check(encoded); errors.Is(err, imaging.ErrNotImage) {
		return fmt.Errorf("%w: %w", encoder.ErrUnusable, err)
	}
	return nil
}

// refusePair sets a pair aside after the records held back before it, and leaves a refusal in its place.
func (s *stage) refusePair(ctx context.Context, rec stream.Record, p *schemas.Pair, word string, why error, out stream.Output) error {
	if err := s.Flush(ctx, out); err != nil {
		return err
	}
	s.instruments.PairsIn(1)
	return s.emitRefusal(held{rec: rec, pair: p, state: s.state()}, word, why, out)
}

func (s *stage) emitRefusal(h held, word string, why error, out stream.Output) error {
	if word != schemas.MaskForgotten { // of which no copy is made
		if err := out.DeadLetter(h.rec, explained(h.rec, why).Error()); err != nil {
			return err
		}
	}
	return s.put(h, &schemas.Refusal{ID: h.pair.ID, ImageID: h.pair.ImageID, Reason: word}, out)
}

func (s *stage) state() []byte {
	if s.spool == nil {
		return nil
	}
	return s.spool.State()
}

// Flush implements [stream.Stage].
func (s *stage) Flush(ctx context.Context, out stream.Output) error {
	if len(s.held) == 0 {
		return nil
	}
	if s.dirty {
		if err := s.spool.Sync(); err != nil {
			return stream.Transient(err)
		}
		s.dirty = false
	}
	results, err := s.encode(ctx)
	if err != nil {
		return stream.Transient(err)
	}
	s.instruments.PairsIn(len(s.held))
	for _, h := range s.held {
		var r encoder.Result
		if h.refusal == nil {
			r, results = results[0], results[1:]
		}
		if err := s.emit(h, r, out); err != nil {
			return err
		}
	}
	clear(s.held)
	s.held, s.wanted = s.held[:0], 0
	return nil
}

// encode embeds the pairs that have no refusal yet.
func (s *stage) encode(ctx context.Context) ([]encoder.Result, error) {
	if s.wanted == 0 {
		return nil, nil
	}
	pairs := make([]*schemas.Pair, 0, s.wanted)
	for _, h := range s.held {
		if h.refusal == nil {
			pairs = append(pairs, h.pair)
		}
	}
	defer s.instruments.Batch()()
	return s.core.Encode(ctx, pairs, s.sieve.judgeSize)
}

// emit writes the record of a pair: its embedding, or a refusal.
func (s *stage) emit(h held, r encoder.Result, out stream.Output) error {
	var verdict filter.Verdict
	var dropped *droppedError
	switch {
	case h.refusal != nil:
		return s.put(h, h.refusal, out)
	case errors.As(r.Unusable, &dropped):
		verdict = dropped.Verdict
	case r.Unusable != nil:
		return s.emitRefusal(h, cmp.Or(shard.MaskReason(r.Unusable), schemas.MaskUnusable), r.Unusable, out)
	default:
		verdict = s.sieve.judge(filter.Match, h.pair, r.Image.Width, r.Image.Height, r.Embedding.Similarity)
	}
	if verdict.Dropped() {
		return s.put(h, s.sieve.refusal(h.pair, verdict), out)
	}
	s.instruments.PairsOut(1)
	return s.put(h, r.Embedding, out)
}

// put writes the record of a pair, with the mark behind it.
func (s *stage) put(h held, r schemas.Record, out stream.Output) error {
	s.spans.count(r)
	return out.Emit(schemas.Embeddings, r, out.After(h.rec, s.spans.state(h.state)))
}

// Close implements [io.Closer].
func (s *stage) Close() error {
	s.spans.close()
	if s.spool == nil {
		return nil
	}
	return s.spool.Close()
}

// Keys of log lines.
const (
	keyLane      = "lane"
	keyBegunWith = "begun_with"
	keyFilter    = "filter"
	keyCount     = "count"
)
