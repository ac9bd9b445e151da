package forget

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Remains lists where the log still holds forgotten data.
type Remains struct {
	Tombstones  int                `json:"tombstones"`
	Records     []Remaining        `json:"records"`
	Newer       []Remaining        `json:"newer"`       // records of a newer version, which this program cannot read
	Copies      []schemas.ImageRef `json:"copies"`      // smaller images (REPACK_ROOT) that records of the log lead to
	FirstStep   int64              `json:"first_step"`  // first training step on forgotten data; -1: none known to the log
	Checkpoints []string           `json:"checkpoints"` // written after that step
}

// Remaining counts records of one lane of a topic.
type Remaining struct {
	Topic  schemas.Topic `json:"topic"`
	Lane   int           `json:"lane"`
	Count  int           `json:"count"`
	Oldest time.Time     `json:"oldest"`
	Newest time.Time     `json:"newest"` // the topic's retention counts from this time
	Last   int64         `json:"last"`   // offset
}

// Report reads the whole log.
func (s *Set) Report(ctx context.Context) (*Remains, error) {
	r := &report{set: s, trained: make(map[batchID]bool), copies: make(map[schemas.ImageRef]bool), out: &Remains{Tombstones: len(s.Keys()), FirstStep: -1}}
	for lane := range s.log.Config().Lanes {
		for _, topic := range []schemas.Topic{schemas.Pairs, schemas.Embeddings, schemas.Neighbors, schemas.Batches, schemas.Scored, schemas.Features} {
			if err := r.lane(ctx, topic, lane); err != nil {
				return nil, err
			}
		}
	}
	if err := r.lane(ctx, schemas.DeadLetters, 0); err != nil {
		return nil, err
	}
	r.out.Copies = slices.SortedFunc(maps.Keys(r.copies), func(a, b schemas.ImageRef) int {
		return cmp.Or(cmp.Compare(a.URI, b.URI), cmp.Compare(a.Offset, b.Offset))
	})
	return r.out, r.checkpoints(ctx)
}

// batchID names a mini-batch.
type batchID struct {
	group           schemas.GroupID
	epoch, sequence int32
}

type report struct {
	set     *Set
	trained map[batchID]bool // mini-batches with a forgotten image that is not masked
	copies  map[schemas.ImageRef]bool
	out     *Remains
}

func (r *report) lane(ctx context.Context, topic schemas.Topic, lane int) error {
	found, newer := Remaining{Topic: topic, Lane: lane}, Remaining{Topic: topic, Lane: lane}
	for rec, err := range r.set.log.Everything(ctx, topic, lane) {
		if err != nil {
			return fmt.Errorf("looking for forgotten data in %s, lane %d: %w", topic, lane, err)
		}
		record, err := schemas.Unmarshal(rec.Schema, rec.Value)
		switch {
		case errors.Is(stream.NewerVersion(&rec, err), stream.ErrDamaged):
			newer.add(&rec)
		case err == nil && r.holds(record): // other bytes are no record of the pipeline
			found.add(&rec)
		}
	}
	if found.Count > 0 {
		r.out.Records = append(r.out.Records, found)
	}
	if newer.Count > 0 {
		r.out.Newer = append(r.out.Newer, newer)
	}
	return nil
}

func (r *Remaining) add(rec *stream.Record) {
	if r.Count == 0 {
		r.Oldest = rec.Time
	}
	r.Count, r.Newest, r.Last = r.Count+1, rec.Time, rec.Offset
}

// holds reports whether a record has the image, its caption or its vectors.
func (r *report) holds(record schemas.Record) bool {
	switch v := record.(type) {
	case *schemas.Pair:
		return r.set.Crawled(v)
	case *schemas.Embedding:
		return r.set.Image(v.ImageID)
	case *schemas.NeighborChunk:
		return r.chunk(v)
	case *schemas.Batch:
		return r.batch(v, nil, false)
	case *schemas.ScoredBatch:
		return r.batch(&v.Batch, v.Masked, true)
	case *schemas.FeatureBlock:
		if !r.trained[batchID{v.Group, v.Epoch, v.Sequence}] {
			return false
		}
		if r.out.FirstStep < 0 || v.Step < r.out.FirstStep {
			r.out.FirstStep = v.Step
		}
		return true
	}
	return false
}

// chunk records the copies of forgotten pairs' images. It may name images of other groups.
func (r *report) chunk(c *schemas.NeighborChunk) bool {
	held := false
	for i := range c.Members() {
		if r.set.Pair(c.ID(i)) {
			held = true
			if ref, copied := c.Copy(i); copied {
				r.note(ref)
			}
		}
	}
	for _, ids := range [][]byte{c.OutImages, c.OutNearTo} {
		for i := 0; i < len(ids); i += 16 {
			held = held || r.set.Image(schemas.ImageID(ids[i:i+16]))
		}
	}
	return held
}

// note records the position of a copy.
func (r *report) note(ref schemas.ImageRef) {
	if !ref.Copy.IsZero() {
		r.copies[ref] = true
	}
}

// batch records a scored mini-batch if a step may have learned from a forgotten image.
func (r *report) batch(b *schemas.Batch, masks []schemas.Mask, scored bool) bool {
	held := false
	for i := range b.Samples {
		positive := b.Samples[i].Positive
		image, other := r.set.Image(b.Samples[i].ImageID), positive != nil && r.set.Image(positive.ImageID)
		masked := slices.ContainsFunc(masks, func(m schemas.Mask) bool {
			return int(m.Sample) == i && m.Reason == schemas.MaskForgotten && (m.Positive || !other)
		})
		held = held || image || other
		if image {
			r.note(b.Samples[i].Image)
		}
		if other {
			r.note(positive.Image)
		}
		if (image || other) && scored && !masked {
			r.trained[batchID{b.Group, b.Epoch, b.Sequence}] = true
		}
	}
	return held
}

// checkpoints lists the checkpoints written after a step on forgotten data.
func (r *report) checkpoints(ctx context.Context) error {
	if r.out.FirstStep < 0 {
		return nil
	}
	for rec, err := range r.set.log.Records(ctx, schemas.ProgressLog, 0, stream.Position{}, -1) {
		if err != nil {
			return fmt.Errorf("looking for checkpoints: %w", err)
		}
		p, ok := stream.As[*schemas.Progress](rec)
		if ok && p.Kind == schemas.ProgressCheckpoint && p.Step >= r.out.FirstStep && !slices.Contains(r.out.Checkpoints, p.Checkpoint) {
			r.out.Checkpoints = append(r.out.Checkpoints, p.Checkpoint)
		}
	}
	return nil
}
