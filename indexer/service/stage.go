// Package service is the indexer as a service: it reads embeddings, lets the core assemble and compute groups, and
// writes their neighbour chunks and manifests. It also answers live searches over HTTP. Groups are computed on the
// processor (internal/neighbors/knn/cpu) or, by the same binary, on the device (internal/neighbors/knn/device), with
// the same records. Live search always runs on the processor.
//
// A crash takes a lane back to the first embedding of its open group. Every chunk carries the mark of that embedding,
// and the core makes the same chunks of the same embeddings. The mark also holds the options of the open group. If
// anything of the group is published, a new owner with other options finishes it with the old ones, and uses its own
// for the next. A mark lies one window before the group; those embeddings only fill the window.
//
// Records after a final seal are set aside.
package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/log/accounting"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
)

type stage struct {
	core        *indexer.Builder
	lane        int
	instruments *service.Instruments
	fill        fill
	repeated    *prometheus.CounterVec // images
	copies      *copier
	segments    *segments
	closed      *closed     // the lane's latest groups that have segments
	start       stream.Mark // of the open group
	from        int64       // seq of the first embedding for the core; those before it fill its window
	final       bool        // a final seal came
	seals       []string    // ids of the latest seals
	tally       accounting.Tally
	stop        func()        // ends the restoring of the lane's closed groups
	places      []windowStart // of the first records of the blocks that a new owner has to read
}

// The kinds of repeated images.
const (
	kindSame = "same"
	kindNear = "near"
)

func newRepeated() *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pairstream_indexer_repeated_images_total",
		Help: "Pairs of closed groups whose image came before with another caption (same), or resembles another (near), whatever became of them; again after a restart.",
	}, []string{"kind"})
	v.WithLabelValues(kindSame)
	v.WithLabelValues(kindNear)
	return v
}

// windowStart is where a block of the core's window begins.
type windowStart struct {
	block int64
	stream.Position
}

// fill reports how full the open groups are.
type fill struct {
	ratio *prometheus.GaugeVec
	size  float64
}

func newFill(groupSize int) fill {
	return fill{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "pairstream_indexer_group_fill_ratio", Help: "Pairs of the lane's open group, as a share of GROUP_SIZE.",
	}, []string{"lane"}), float64(groupSize)}
}

func (f fill) set(lane, pending int) {
	f.ratio.WithLabelValues(strconv.Itoa(lane)).Set(float64(pending) / f.size)
}

func newFactory(o indexer.Options, engine knn.Engine, nouns indexer.NounFinder, live *indexer.Live, again *restorer,
	copies *copier, asked *segments, instruments *service.Instruments, full fill, repeated *prometheus.CounterVec,
) stream.Factory {
	return func(lane int, raw []byte) (stream.Stage, error) {
		from, err := parseState(raw)
		if err != nil {
			return nil, fmt.Errorf("lane %d: %w", lane, err)
		}
		core, err := indexer.NewBuilder(schemas.GroupID{Lane: int32(lane), Seq: from.next}, o, engine, nouns, live)
		if err != nil {
			return nil, err
		}
		if err := finish(core, from); err != nil {
			return nil, fmt.Errorf("lane %d: %w", lane, err)
		}
		if core.Options() != o {
			instruments.Log.Warn("an open group keeps the settings that it was begun with", keyLane, lane, keyBegunWith, string(from.more.Options))
		}
		full.set(lane, 0)
		return &stage{
			core: core, lane: lane, instruments: instruments, fill: full, repeated: repeated, copies: copies, from: from.more.From, final: from.more.Final, seals: from.more.Seals,
			stop: again.begin(lane, from.next), tally: from.tally(), segments: asked, closed: from.more.Closed,
		}, nil
	}
}

// finish has the core make the next group with the options of its mark.
func finish(core *indexer.Builder, from state) error {
	begun, err := from.options()
	if err != nil || begun == nil {
		return err
	}
	if err := core.Finish(*begun); err != nil {
		return fmt.Errorf("finishing a group with the settings %s that it was begun with: %w", from.more.Options, err)
	}
	return nil
}

// Input implements [stream.Stage].
func (s *stage) Input() schemas.Topic { return schemas.Embeddings }

// Waiting describes the next record that the lane needs.
func (s *stage) Waiting() string {
	return fmt.Sprintf("embedding %d of %d of group %s, or a seal", s.core.Pending(), s.core.Options().GroupSize, s.core.Next())
}

// errBehindFinal is why a record is set aside that comes when the crawl of its lane has ended.
var errBehindFinal = errors.New("behind a final seal: a lane takes nothing more when its crawl has ended; publish to another namespace")

// Process implements [stream.Stage].
func (s *stage) Process(ctx context.Context, rec stream.Record, out stream.Output) error {
	s.pass(rec)
	value, err := schemas.Unmarshal(rec.Schema, rec.Value)
	if rec.Seq < s.from {
		if e, ok := value.(*schemas.Embedding); ok && err == nil {
			s.core.Remember(e.ID, e.ImageID, rec.Seq)
		}
		return nil
	}
	err = s.take(ctx, rec, value, err, out)
	if errors.Is(err, stream.ErrPoison) {
		s.tally.Others++
	}
	return err
}

// take processes a record that the core has not seen yet.
func (s *stage) take(ctx context.Context, rec stream.Record, value schemas.Record, err error, out stream.Output) error {
	if err != nil {
		return stream.Poison(err)
	}
	if s.final {
		return stream.Poison(errBehindFinal)
	}
	switch r := value.(type) {
	case *schemas.Embedding:
		s.instruments.PairsIn(1)
		return s.add(ctx, rec, r, out)
	case *schemas.Refusal:
		s.tally.Refuse(r)
		return nil // there is nothing to embed
	case *schemas.Seal:
		return s.seal(ctx, rec, r, out)
	default:
		return stream.Poison(errors.New("foreign record: " + rec.Schema + " does not belong on this topic"))
	}
}

// pass notes where the blocks begin that a new owner has to read to go on at this record.
func (s *stage) pass(rec stream.Record) {
	first, own := s.core.Options().WindowBlocks(rec.Seq)
	if n := len(s.places); n == 0 || s.places[n-1].block < own {
		s.places = append(s.places, windowStart{own, rec.Position()})
	}
	for s.places[0].block < first {
		s.places = s.places[1:]
	}
}

// mark returns a place from which a new owner goes on with the record of a seq. Its seqs are those after the record
// that carries it. Options are those of a group that is open there.
func (s *stage) mark(from int64, o *indexer.Options) (stream.Mark, error) {
	tally := s.tally.Clone()
	raw, err := state{s.core.Next().Seq, more{From: from, Final: s.final, Seals: s.seals, Tally: &tally, Closed: s.closed}}.encode(o)
	if err != nil {
		return stream.Mark{}, err
	}
	return stream.Mark{
		Inputs: []stream.TopicPosition{{Topic: schemas.Embeddings, Position: s.places[0].Position}}, State: raw,
	}, nil
}

func (s *stage) add(ctx context.Context, rec stream.Record, e *schemas.Embedding, out stream.Output) error {
	if _, open := s.core.FirstSeq(); !open {
		o := s.core.Options()
		start, err := s.mark(rec.Seq, &o)
		if err != nil {
			return err
		}
		start.Seqs = out.Before(rec, nil).Seqs
		s.start = start
	}
	verdict, err := s.core.Add(e, rec.Seq) // not its offset, which a repetition before it would move
	switch {
	case errors.Is(err, schemas.ErrInvalid):
		return stream.Poison(err)
	case err != nil:
		return err
	}
	s.fill.set(s.lane, s.core.Pending())
	switch verdict {
	case indexer.Complete:
		return s.close(ctx, indexer.ByCount, false, out, rec.Seq+1)
	case indexer.NewModel:
		// The embedding belongs to the next group, so the closed one is resumed from before it.
		if err := s.close(ctx, indexer.ByModel, false, out, rec.Seq); err != nil {
			return err
		}
		return s.add(ctx, rec, e, out)
	case indexer.Open:
	}
	return nil
}

// errRepeatedSeal is why a seal is set aside that comes once more. A producer whose ack was lost may send it again,
// behind pairs of the next group.
var errRepeatedSeal = errors.New("repeated seal: the lane had a seal of the same id before")

// sealsKept is the number of seals whose ids are known.
const sealsKept = 8

// seal closes the open group and passes the seal on.
func (s *stage) seal(ctx context.Context, rec stream.Record, r *schemas.Seal, out stream.Output) error {
	if r.ID != "" && slices.Contains(s.seals, r.ID) {
		return stream.Poison(errRepeatedSeal)
	}
	if err := s.close(ctx, indexer.BySeal, r.Final, out, rec.Seq); err != nil {
		return err
	}
	s.final = r.Final
	repeats := s.core.Repeats()
	s.tally.Repeats += repeats
	s.tally.Seals++
	if r.ID != "" {
		s.seals = append(slices.Clone(s.seals[max(0, len(s.seals)-sealsKept+1):]), r.ID)
	}
	resume, err := s.mark(rec.Seq+1, nil)
	if err != nil {
		return err
	}
	return out.Emit(schemas.Groups, &schemas.Seal{Final: r.Final, Note: r.Note, ID: r.ID, Repeats: repeats}, resume)
}

// close publishes the open group, if there is one. Chunks lead back to the group's start; the manifest leads to the
// record with the seq next, where the next group begins. A final group is the lane's last.
func (s *stage) close(ctx context.Context, why indexer.Reason, final bool, out stream.Output, next int64) error {
	end, options := s.instruments.Batch(), s.core.Options()
	group, err := s.compute(ctx, why, options)
	end()
	if err != nil || group == nil {
		return err
	}
	group.Manifest.Final = final
	s.tally.Members += int64(group.Manifest.Count)
	s.tally.Duplicates += group.Manifest.Duplicates
	s.tally.Repeats += group.Manifest.Repeats
	s.tally.SameImage += group.Manifest.SameImage
	s.tally.Near += group.Manifest.Near
	s.tally.LeftOut += group.Manifest.LeftOut
	s.repeated.WithLabelValues(kindSame).Add(float64(group.Manifest.SameImage))
	s.repeated.WithLabelValues(kindNear).Add(float64(group.Manifest.Near))
	s.fill.set(s.lane, 0)
	s.instruments.PairsOut(int(group.Manifest.Count))
	for _, c := range group.Chunks {
		if err := out.Emit(schemas.Neighbors, c, s.start); err != nil {
			return err
		}
	}
	resume, err := s.mark(next, nil)
	if err != nil {
		return err
	}
	return out.Emit(schemas.Groups, group.Manifest, resume)
}

// compute closes the core's group. When it returns, copies and the segment are where they belong.
func (s *stage) compute(ctx context.Context, why indexer.Reason, o indexer.Options) (group *indexer.Group, err error) {
	if s.core.Pending() == 0 {
		return nil, nil
	}
	asked, err := s.segments.ask(ctx, s.core.Next(), s.core.Model(), o, s.closed)
	if err != nil {
		return nil, err
	}
	if group, err = s.core.Close(ctx, why, asked...); errors.Is(err, segment.ErrInvalid) { // one of those that it asked
		err = stream.Transient(err)
	}
	if err = errors.Join(err, closeAll(asked)); err != nil {
		return nil, err
	}
	if made := group.Segment; made != nil {
		defer func() { err = errors.Join(err, made.Close()) }()
	}
	if group.Image != nil {
		if err := s.copies.copy(ctx, o, group); err != nil {
			return nil, err
		}
	}
	closed, err := s.segments.put(ctx, group, o, s.closed)
	if err != nil {
		return nil, err
	}
	s.closed = closed
	return group, nil
}

// Flush implements [stream.Stage]. It does nothing, because only a full group is published.
func (s *stage) Flush(context.Context, stream.Output) error { return nil }

// Close implements [io.Closer].
func (s *stage) Close() error {
	s.fill.ratio.DeleteLabelValues(strconv.Itoa(s.lane))
	s.stop()
	return s.core.Free()
}

// Keys of log lines.
const (
	keyLane      = "lane"
	keyBegunWith = "begun_with"
	keyGroup     = "group_id"
	keyErr       = "err"
	keyCount     = "count"
	keyPairs     = "pairs"
	keyOutcomes  = "outcomes"
	keyDuration  = "dur"
)
