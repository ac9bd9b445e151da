package index

import (
	"database/sql"
	"encoding/binary"
	"slices"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// placeKey names the mini-batches of 1,024 neighbouring members in one epoch.
type placeKey struct{ group, epoch, chunk int64 }

type placed struct{ slot, batch int32 }

func (w *writer) scored(rec stream.Record, b *schemas.ScoredBatch) {
	n, _ := w.group(b.Group)
	var c counts
	c.of(b, w.x.o)
	w.exec(`INSERT OR REPLACE INTO batch (grp, epoch, seq, at, features, strategy, samples, candidates, connections, ambiguous, replaced, ruled)
		VALUES (?,?,?,?,-1,?,?,?,?,?,?,?)`, n, b.Epoch, b.Sequence, rec.Offset, b.Strategy, len(b.Samples), c.candidates, c.connections, c.ambiguous, c.replaced, b.RuledOut)
	for _, s := range b.Samples {
		key := placeKey{n, int64(b.Epoch), int64(s.Position / schemas.ChunkMembers)}
		w.places[key] = append(w.places[key], placed{s.Position % schemas.ChunkMembers, b.Sequence})
	}
	if b.Check != nil {
		check := *b.Check     // the group's latest
		check.Confirmed = nil // these are kept as connections
		w.exec("UPDATE grp SET checked = ? WHERE n = ?", string(w.json(check)), n)
	}
	w.connections(n, b)
}

// HighOf returns the threshold of a batch's connections: own, for records of earlier discriminators, which lack it.
func HighOf(b *schemas.ScoredBatch, own float64) float64 {
	switch {
	case b.High > 0:
		return b.High
	case b.Check != nil && b.Check.Precision != nil:
		return b.Check.Precision.Above
	}
	return own
}

// finish writes the places that the transaction has collected.
func (w *writer) finish() {
	for key, list := range w.places {
		var raw []byte
		args := []any{key.group, key.epoch, key.chunk}
		w.one([]any{&raw}, "SELECT batches FROM place WHERE grp = ? AND epoch = ? AND chunk = ?", args...)
		for _, p := range list {
			if end := 4 * (int(p.slot) + 1); len(raw) < end {
				raw = append(raw, make([]byte, end-len(raw))...)
			}
			binary.LittleEndian.PutUint32(raw[4*p.slot:], uint32(p.batch)+1) // 0: not known
		}
		w.exec("INSERT OR REPLACE INTO place (grp, epoch, chunk, batches) VALUES (?,?,?,?)", append(args, raw)...)
	}
}

// counts counts Con-D's verdicts on the candidates of a batch.
type counts struct{ candidates, connections, ambiguous, replaced int }

func (c *counts) of(b *schemas.ScoredBatch, o Options) {
	high := HighOf(b, o.High)
	for _, s := range b.Samples {
		if s.Replaced {
			c.replaced++
		}
	}
	for _, way := range []struct {
		candidates schemas.Int32s
		probs      schemas.Floats32
	}{{b.I2T, b.ProbI2T}, {b.T2I, b.ProbT2I}} {
		for k, candidate := range way.candidates {
			if candidate < 0 {
				continue
			}
			c.candidates++
			switch p := way.probs[k]; {
			case p > float32(high):
				c.connections++
			case float64(p) >= min(o.Low, high):
				c.ambiguous++
			}
		}
	}
}

func (w *writer) features(rec stream.Record, f *schemas.FeatureBlock) {
	n, _ := w.group(f.Group)
	w.exec("UPDATE batch SET features = ? WHERE grp = ? AND epoch = ? AND seq = ?", rec.Offset, n, f.Epoch, f.Sequence)
}

// The index keeps these kinds of connections of a group.
const (
	KindRandom = iota // a random sample of all: it estimates how many are right
	KindMost          // the most certain ones
	KindLeast         // the least certain ones
	kinds
)

// keptConnections of each kind are kept of a group.
const keptConnections = 300

// shortlist holds the ranks of the connections that a group keeps, ascending, as a copy of the table's.
type shortlist [kinds][]int64

func (w *writer) shortlist(group int64) *shortlist {
	if s := w.x.bounds[group]; s != nil {
		return s
	}
	s := new(shortlist)
	if w.err == nil {
		w.err = each(w.ctx, w.tx, func(rows *sql.Rows) error {
			var kind int
			var rank int64
			err := rows.Scan(&kind, &rank)
			s[kind] = append(s[kind], rank)
			return err
		}, "SELECT kind, rank FROM connection WHERE grp = ? ORDER BY kind, rank", group)
	}
	if len(w.x.bounds) > 1000 {
		clear(w.x.bounds)
	}
	w.x.bounds[group] = s
	return s
}

// connections keeps a random sample of the texts that Con-D calls a match, and both ends. A lower rank is kept longer.
func (w *writer) connections(group int64, b *schemas.ScoredBatch) {
	s, high := w.shortlist(group), HighOf(b, w.x.o.High)
	keep := func(image, text int32, p float32) {
		if image >= 0 && text >= 0 && p > float32(high) && !b.Samples[text].Replaced { // Con-D judges obj(v), not the caption
			w.connection(s, group, b, &b.Samples[image], &b.Samples[text], p)
		}
	}
	for k := range b.I2T {
		anchor := int32(k / int(b.M))
		keep(anchor, b.I2T[k], b.ProbI2T[k])
		keep(b.T2I[k], anchor, b.ProbT2I[k])
	}
	if b.Check == nil || b.Check.Confirmed == nil {
		return
	}
	for i, image := range b.Check.Confirmed.Image {
		keep(image, b.Check.Confirmed.Text[i], b.Check.Confirmed.Probability[i])
	}
}

func (w *writer) connection(s *shortlist, group int64, b *schemas.ScoredBatch, image, text *schemas.Sample, p float32) {
	certain := int64(float64(p) * (1 << 40))
	// The ids are hashes, so the order of a hash of both is a random order, and the same in every index.
	mixed := schemas.NewPairID(schemas.ImageID(image.ID), string(text.ID[:]))
	ranks := [kinds]int64{KindRandom: int64(binary.LittleEndian.Uint64(mixed[:8]) >> 1), KindMost: -certain, KindLeast: certain}
	for kind, rank := range ranks {
		kept := s[kind]
		if len(kept) >= keptConnections && rank >= kept[len(kept)-1] {
			continue
		}
		var before int64
		known := w.one([]any{&before}, "SELECT rank FROM connection WHERE grp = ? AND kind = ? AND image = ? AND text = ?", group, kind, image.Position, text.Position)
		if known || w.err != nil { // of an earlier epoch, or the other direction
			continue
		}
		w.exec("INSERT INTO connection (grp, kind, image, text, rank, prob, epoch, batch, model) VALUES (?,?,?,?,?,?,?,?,?)",
			group, kind, image.Position, text.Position, rank, p, b.Epoch, b.Sequence, b.Model)
		at, _ := slices.BinarySearch(kept, rank)
		kept = slices.Insert(kept, at, rank)
		if len(kept) > keptConnections {
			w.exec(`DELETE FROM connection WHERE (grp, kind, image, text) =
				(SELECT grp, kind, image, text FROM connection WHERE grp = ? AND kind = ? AND rank = ? LIMIT 1)`, group, kind, kept[keptConnections])
			kept = kept[:keptConnections]
		}
		s[kind] = kept
	}
}
