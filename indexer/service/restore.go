package service

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/log/accounting"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
)

// restorer gives live search the closed groups of a lane again, from the log, in the background. It restores one group
// at a time, the newest first. Without one (nil) nothing is restored.
type restorer struct {
	log         *stream.Log
	live        *indexer.Live
	instruments *service.Instruments
	turn        chan struct{} // holds one token

	groups, done, failed atomic.Int64
	pairs, read          atomic.Int64 // of the group in hand
}

func newRestorer(log *stream.Log, live *indexer.Live, instruments *service.Instruments) *restorer {
	r := &restorer{log: log, live: live, instruments: instruments, turn: make(chan struct{}, 1)}
	r.turn <- struct{}{}
	return r
}

// state says how far it is; empty: nothing is left to do.
func (r *restorer) state() string {
	groups, done, failed := r.groups.Load(), r.done.Load(), r.failed.Load()
	switch {
	case done+failed < groups:
		return fmt.Sprintf("live search has %d of %d closed groups again, and %d of %d pairs of the next", done, groups, r.read.Load(), r.pairs.Load())
	case failed > 0:
		return fmt.Sprintf("live search lacks %d of %d closed groups, which the log does not give back", failed, groups)
	}
	return ""
}

// begin restores the groups of a lane before group next. The returned function ends that.
func (r *restorer) begin(lane int, next int64) (stop func()) {
	if r == nil || next == 0 || r.live.Keeps() == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	first := max(0, next-int64(r.live.Keeps()))
	r.groups.Add(next - first)
	var work sync.WaitGroup
	work.Go(func() {
		for seq := next - 1; seq >= first; seq-- {
			err := r.group(ctx, schemas.GroupID{Lane: int32(lane), Seq: seq})
			if ctx.Err() != nil {
				r.groups.Add(first - seq - 1) // the lane is another owner's
				return
			}
			if err == nil {
				r.done.Add(1)
				continue
			}
			r.failed.Add(1)
			r.instruments.Log.Warn("live search does not get a closed group back", keyGroup, fmt.Sprintf("%d/%d", lane, seq), keyErr, err)
		}
	})
	return func() {
		cancel()
		work.Wait()
	}
}

// group restores one group.
func (r *restorer) group(ctx context.Context, id schemas.GroupID) error {
	select {
	case <-r.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { r.turn <- struct{}{} }()
	manifest, chunks, err := r.manifest(ctx, id)
	if err != nil {
		return err
	}
	r.read.Store(0)
	r.pairs.Store(int64(manifest.Count))
	ids, err := r.members(ctx, manifest, chunks)
	if err != nil {
		return err
	}
	group, err := r.live.Restore(id, manifest.Model, int(manifest.Dim), ids)
	if err != nil {
		return err
	}
	err = r.each(ctx, schemas.Embeddings, id, manifest.FirstSeq, manifest.EndSeq, func(record schemas.Record) error {
		e, ok := record.(*schemas.Embedding)
		if !ok {
			return nil // a refusal or a seal
		}
		defer func() { r.read.Store(int64(group.Pairs())) }()
		return group.Add(e)
	})
	if err != nil {
		return errors.Join(err, group.Cancel())
	}
	return group.Done()
}

// manifest finds the manifest of a group, and the seq after its last chunk.
func (r *restorer) manifest(ctx context.Context, id schemas.GroupID) (*schemas.Group, int64, error) {
	var found *schemas.Group
	rec, ok, err := r.log.LastWhere(ctx, schemas.Groups, int(id.Lane), func(rec *stream.Record) bool {
		schema, _ := rec.Header(schemas.HeaderSchema)
		record, err := schemas.Unmarshal(string(schema), rec.Value)
		g, isGroup := record.(*schemas.Group)
		if err != nil || !isGroup || g.Group != id {
			return false
		}
		found = g
		return true
	})
	if err != nil || !ok {
		return nil, 0, errors.Join(err, fmt.Errorf("finding the manifest of group %s: retention has removed it", id))
	}
	mark, err := stream.MarkOf(rec)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the mark of group %s: %w", id, err)
	}
	for _, s := range mark.Seqs {
		if s.Topic == schemas.Neighbors {
			return found, s.Seq, nil
		}
	}
	return nil, 0, fmt.Errorf("the mark of group %s does not say where its chunks are", id)
}

// members reads the ids of a group's members from its chunks, of which end is the seq after the last.
func (r *restorer) members(ctx context.Context, g *schemas.Group, end int64) ([]schemas.PairID, error) {
	ids := make([]schemas.PairID, 0, g.Count)
	err := r.each(ctx, schemas.Neighbors, g.Group, end-int64(g.Chunks), end, func(record schemas.Record) error {
		c, ok := record.(*schemas.NeighborChunk)
		if !ok || c.Group != g.Group || int(c.Start) != len(ids) {
			return fmt.Errorf("the chunks of group %s are not where its manifest says", g.Group)
		}
		for at := 0; at < len(c.IDs); at += 16 {
			ids = append(ids, schemas.PairID(c.IDs[at:at+16]))
		}
		return nil
	})
	if err == nil && len(ids) != int(g.Count) {
		err = fmt.Errorf("%d members in the chunks of group %s, want %d", len(ids), g.Group, g.Count)
	}
	return ids, err
}

// each calls do for the records with seqs from..end-1 of a lane. No record has an offset below its seq, so it looks
// from there.
func (r *restorer) each(ctx context.Context, topic schemas.Topic, id schemas.GroupID, from, end int64, do func(schemas.Record) error) error {
	b, err := r.log.Bounds(ctx, topic, int(id.Lane))
	if err != nil {
		return err
	}
	at := stream.Position{Offset: max(from, b.Start), Seq: from}
	for rec, err := range r.log.Records(ctx, topic, int(id.Lane), at, b.End) {
		if err != nil {
			return fmt.Errorf("reading %s of group %s: %w", topic, id, err)
		}
		if rec.Seq >= end {
			return nil
		}
		record, err := schemas.Unmarshal(rec.Schema, rec.Value)
		if err != nil {
			continue // set aside when it was first read
		}
		if err := do(record); err != nil {
			return err
		}
		if rec.Seq == end-1 {
			return nil
		}
	}
	return nil
}

// state is the indexer's state in a mark: the number of the lane's next group, and the rest as JSON, for a new owner
// and for people. Marks of older indexers hold only the number.
type state struct {
	next int64
	more more
}

type more struct {
	From    int64             `json:"from,omitempty"`    // seq of the first embedding of the next group; those before it fill the window
	Final   bool              `json:"final,omitempty"`   // a final seal came before
	Seals   []string          `json:"seals,omitempty"`   // ids of the latest seals
	Tally   *accounting.Tally `json:"tally,omitempty"`   // of the records before From; absent: an older indexer wrote this
	Closed  *closed           `json:"closed,omitempty"`  // the lane's latest groups that have segments; absent: none has
	Options json.RawMessage   `json:"options,omitempty"` // that the open group was begun with; absent between groups
}

// encode writes the state of a mark. Without options it is that of a place between groups.
func (s state) encode(o *indexer.Options) ([]byte, error) {
	if o != nil {
		shaping := *o
		shaping.Threads = 0
		var err error
		if s.more.Options, err = json.Marshal(shaping); err != nil {
			return nil, fmt.Errorf("encoding the options of a group: %w", err)
		}
	}
	rest, err := json.Marshal(s.more)
	if err != nil {
		return nil, fmt.Errorf("encoding the indexer's state: %w", err)
	}
	return append(binary.AppendUvarint(nil, uint64(s.next)), rest...), nil
}

// parseState reads what encode wrote; no state is the start of the lane.
func parseState(raw []byte) (state, error) {
	if len(raw) == 0 {
		return state{}, nil
	}
	next, n := binary.Uvarint(raw)
	if n <= 0 {
		return state{}, fmt.Errorf("reading the indexer's state %x: want a group number", raw)
	}
	s := state{next: int64(next)}
	if len(raw) > n {
		if err := json.Unmarshal(raw[n:], &s.more); err != nil {
			return state{}, fmt.Errorf("reading the indexer's state %.512q: %w", raw, err)
		}
	}
	return s, nil
}

// options reads the options that the open group was begun with; nil between groups.
func (s state) options() (*indexer.Options, error) {
	if s.more.Options == nil {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(s.more.Options))
	decoder.DisallowUnknownFields() // an option of a newer indexer shapes the records in a way that this one does not know
	var o indexer.Options
	if err := decoder.Decode(&o); err != nil {
		return nil, fmt.Errorf("reading the settings %.512q of an open group (a newer indexer may have begun it): %w", s.more.Options, err)
	}
	return &o, nil
}

// tally returns the counts before the mark's place. Those of an older indexer begin there.
func (s state) tally() accounting.Tally {
	if s.more.Tally == nil {
		return accounting.Tally{Since: s.more.From}
	}
	return s.more.Tally.Clone()
}
