// Package indexing is the indexer as a service: it reads embeddings, lets the core assemble and compute groups, and
// writes their neighbour chunks and manifests. It also answers live searches over HTTP. Groups are computed on the
// processor (internal/faiss) or, by the same binary, on the device (internal/tiled), with the same records; live search is
// the processor's.
//
// A crash takes a lane back to the first embedding of its open group: every chunk carries the mark of that place, and the
// core, given the same embeddings again, makes the same chunks.
package indexing

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/knn"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

type stage struct {
	core  *indexer.Builder
	lane  int
	meter *service.Stage
	fill  fill
	start stream.Mark // of the open group
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

func newFactory(o indexer.Options, engine knn.Engine, nouns indexer.NounFinder, live *indexer.Live,
	meter *service.Stage, full fill,
) stream.Factory {
	return func(lane int, state []byte) (stream.Stage, error) {
		next, err := parseState(state)
		if err != nil {
			return nil, fmt.Errorf("lane %d: %w", lane, err)
		}
		core, err := indexer.NewBuilder(schemas.GroupID{Lane: int32(lane), Seq: next}, o, engine, nouns, live)
		if err != nil {
			return nil, err
		}
		full.set(lane, 0)
		return &stage{core: core, lane: lane, meter: meter, fill: full}, nil
	}
}

// parseState reads the number of the lane's next group, as state writes it; no state is the start of the lane.
func parseState(state []byte) (int64, error) {
	if len(state) == 0 {
		return 0, nil
	}
	next, n := binary.Uvarint(state)
	if n != len(state) {
		return 0, fmt.Errorf("reading the indexer's state %x: want a group number", state)
	}
	return int64(next), nil
}

func (s *stage) state() []byte { return binary.AppendUvarint(nil, uint64(s.core.Next().Seq)) }

// Input implements [stream.Stage].
func (s *stage) Input() schemas.Topic { return schemas.Embeddings }

// Process implements [stream.Stage].
func (s *stage) Process(ctx context.Context, rec stream.Record, out stream.Output) error {
	value, err := schemas.Unmarshal(rec.Schema, rec.Value)
	if err != nil {
		return stream.Poison(err)
	}
	switch r := value.(type) {
	case *schemas.Embedding:
		s.meter.PairsIn(1)
		return s.add(ctx, rec, r, out)
	case *schemas.Seal:
		if err := s.close(ctx, indexer.BySeal, out, func() stream.Mark { return out.Before(rec, s.state()) }); err != nil {
			return err
		}
		return out.Emit(schemas.Groups, r, out.After(rec, s.state()))
	default:
		return stream.Poison(errors.New("foreign record: " + rec.Schema + " does not belong on this topic"))
	}
}

func (s *stage) add(ctx context.Context, rec stream.Record, e *schemas.Embedding, out stream.Output) error {
	if s.core.Pending() == 0 {
		s.start = out.Before(rec, s.state())
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
		return s.close(ctx, indexer.ByCount, out, func() stream.Mark { return out.After(rec, s.state()) })
	case indexer.NewModel:
		// The embedding belongs to the next group, so the closed one is resumed from before it.
		if err := s.close(ctx, indexer.ByModel, out, func() stream.Mark { return out.Before(rec, s.state()) }); err != nil {
			return err
		}
		return s.add(ctx, rec, e, out)
	case indexer.Open:
	}
	return nil
}

// close publishes the open group, if there is one. Chunks lead back to the group's start; the manifest leads to after,
// where the next group begins.
func (s *stage) close(ctx context.Context, why indexer.Reason, out stream.Output, after func() stream.Mark) error {
	end := s.meter.Batch()
	group, err := s.core.Close(ctx, why)
	end()
	if err != nil || group == nil {
		return err
	}
	s.fill.set(s.lane, 0)
	s.meter.PairsOut(int(group.Manifest.Count))
	for _, c := range group.Chunks {
		if err := out.Emit(schemas.Neighbors, c, s.start); err != nil {
			return err
		}
	}
	resume := after()
	resume.Seqs = nil // as they are after the manifest
	return out.Emit(schemas.Groups, group.Manifest, resume)
}

// Flush implements [stream.Stage]. A group is held back until it is full, whoever asks.
func (s *stage) Flush(context.Context, stream.Output) error { return nil }

// Close implements [io.Closer].
func (s *stage) Close() error {
	s.fill.ratio.DeleteLabelValues(strconv.Itoa(s.lane))
	return s.core.Free()
}
