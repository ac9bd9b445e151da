package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/schemas"
)

// Limits of a block in the order of the tars.
const (
	blockMessages = 1 << 14
	blockBytes    = 8 << 20
)

// valueID is a hash of a message's value.
type valueID [16]byte

// entry is a message of the open block.
type entry struct {
	Message
	count *int // counter of the summary to increase once it is published
}

// book cuts the messages into blocks. Before it publishes a block, it notes for each source in it how far the earlier
// blocks have come, and where the lanes ended.
type book struct {
	o      ProduceOptions
	ledger Ledger
	sum    *Summary
	known  map[string]SourceNote // from earlier runs
	from   []int64               // lowest Ends of the block's sources
	there  map[valueID]int       // messages after from
	ended  map[int]*schemas.Seal // final seals, by lane
	topic  string                // id of the topic
	ends   []int64               // of the lanes at the start of the run

	block   []entry
	bytes   int
	index   int64          // number of the next message over all sources, published or not
	touched []*sourceState // sources of the block
	done    []SourceNote   // to write once everything before the block is acknowledged
	final   map[string]SourceNote
}

// open reads the ledger's state.
func (b *book) open(ctx context.Context) (err error) {
	b.final, b.there = make(map[string]SourceNote), make(map[valueID]int)
	if b.known, err = b.ledger.Sources(ctx); err != nil {
		return err
	}
	if b.topic, err = b.ledger.Topic(ctx); err != nil {
		return err
	}
	if b.o.Anew {
		b.known = nil
	}
	if len(b.known) > 0 {
		if b.ends, err = b.ledger.Ends(ctx); err != nil {
			return err
		}
	}
	b.ended, err = b.ledger.Ended(ctx)
	return err
}

// recognise looks up how much of the source is published.
func (b *book) recognise(s *sourceState) error {
	was, found := b.known[s.URI]
	if !found {
		return nil
	}
	if err := b.holds(was); err != nil {
		return err
	}
	if was.HeldOut != s.HeldOut {
		return fmt.Errorf("%s: %d images were held out when it was published, and %d now: with others held out, a model would be measured on pairs "+
			"that it was trained on (--resume=false publishes everything again)", s.URI, was.HeldOut, s.HeldOut)
	}
	if b.published(s) {
		b.final[s.URI], s.final, s.whole = was, was, true
		return nil
	}
	s.skip, s.want = was.Messages, was.Digest
	s.Messages, s.Digest = was.Messages, was.Digest
	return nil
}

// holds returns an error if the log cannot hold the messages that a note claims.
func (b *book) holds(was SourceNote) error {
	const remedy = "publish it again with --resume=false, which publishes everything"
	if was.Topic != "" && b.topic != "" && was.Topic != b.topic {
		return fmt.Errorf("%s was published to the topic pairs with id %s, and now the topic has id %s: it was recreated, and the pairs are gone: %s", was.URI, was.Topic, b.topic, remedy)
	}
	for _, reached := range [][]int64{was.Ends, was.Before} {
		for lane, end := range b.ends[:min(len(b.ends), len(reached))] {
			if end < reached[lane] {
				return fmt.Errorf("%s was published when lane %d of the topic pairs had %d records, and now it has %d: the topic was recreated or has lost records: %s",
					was.URI, lane, reached[lane], end, remedy)
			}
		}
	}
	return nil
}

// note writes notes. For fully published sources it adds the ends of the lanes.
func (b *book) note(ctx context.Context, notes []SourceNote) error {
	if slices.ContainsFunc(notes, func(n SourceNote) bool { return n.Done }) {
		if err := b.ledger.Note(ctx, nil); err != nil { // all is acknowledged
			return err
		}
		before, err := b.ledger.Ends(ctx)
		if err != nil {
			return err
		}
		for i := range notes {
			if notes[i].Done {
				notes[i].Before = before
			}
		}
	}
	for i := range notes {
		notes[i].Topic = b.topic
	}
	return b.ledger.Note(ctx, notes)
}

// published reports whether all of the source is published, and has not changed since.
func (b *book) published(s *sourceState) bool {
	was := b.known[s.URI]
	return was.Done && was.Version != "" && was.Version == s.Version && was.Size == s.Size
}

// resume reads the messages of the sources published after their notes.
func (b *book) resume(ctx context.Context, todo []*sourceState) error {
	for _, s := range todo {
		b.from = lowest(b.from, b.known[s.URI].Ends)
	}
	if b.from == nil {
		return nil
	}
	return b.ledger.Behind(ctx, b.from, func(value []byte) { b.there[hashOf(value)]++ })
}

// lowest returns the lower offset of each lane; nil is higher than any offset.
func lowest(a, b []int64) []int64 {
	if a == nil {
		return slices.Clone(b)
	}
	for i := range min(len(a), len(b)) {
		a[i] = min(a[i], b[i])
	}
	return a
}

func hashOf(value []byte) valueID {
	h := sha256.Sum256(value)
	return valueID(h[:16])
}

// add adds a message of a source to the open block.
func (b *book) add(s *sourceState, e entry) {
	if !s.inBlock {
		s.inBlock = true
		b.touched = append(b.touched, s)
	}
	b.block = append(b.block, e)
	b.bytes += len(e.Value)
}

// step counts a message of a source, and publishes the block if it ends there. A shuffled block holds the same messages
// in every run, wherever the run begins.
func (b *book) step(ctx context.Context, s *sourceState) error {
	b.index++
	full := len(b.block) >= blockMessages || b.bytes >= blockBytes
	if b.o.Buffer > 0 {
		full = b.index%int64(b.o.Buffer) == 0
	}
	if !full || len(b.block) == 0 {
		return nil
	}
	if err := b.commit(ctx); err != nil {
		return err
	}
	s.Messages, s.Digest = s.read, s.sum()
	return nil
}

// finish records that a source was read to its end. Its note is written when its last messages are acknowledged.
func (b *book) finish(s *sourceState) {
	s.final = s.SourceNote
	s.final.Messages, s.final.Digest, s.final.Done = s.read, s.sum(), true
	b.final[s.URI] = s.final
	if !s.inBlock {
		b.done = append(b.done, s.final)
	}
}

// commit publishes the open block.
func (b *book) commit(ctx context.Context) error {
	block := b.missing()
	notes := b.done
	if len(block) > 0 {
		for lane := range b.o.Lanes {
			if seal := b.ended[lane]; seal != nil {
				return endedError(lane, seal)
			}
		}
		ends := b.from
		if len(block) == len(b.block) { // otherwise some of it may lie after from
			var err error
			if ends, err = b.ledger.Ends(ctx); err != nil {
				return err
			}
		}
		for _, s := range b.touched {
			note := s.SourceNote
			note.Ends = ends
			notes = append(notes, note)
		}
	}
	if err := b.note(ctx, notes); err != nil {
		return err
	}
	for _, e := range block {
		*e.count++
		if err := b.publish(ctx, e.Message); err != nil {
			return err
		}
	}
	b.block, b.bytes, b.done = b.block[:0], 0, nil
	for _, s := range b.touched {
		s.inBlock = false
		if s.final.Done {
			b.done = append(b.done, s.final)
		}
	}
	b.touched = nil
	return nil
}

// missing returns the messages of the block that are not in the log yet, in the order of publication.
func (b *book) missing() []entry {
	if b.o.Buffer > 0 {
		r := rng.New(b.o.Seed, "order of pairs", (b.index-1)/int64(b.o.Buffer))
		r.Shuffle(len(b.block), func(i, j int) { b.block[i], b.block[j] = b.block[j], b.block[i] })
	}
	if len(b.there) == 0 {
		return b.block
	}
	var missing []entry
	for _, e := range b.block {
		id := hashOf(e.Value)
		if b.there[id] == 0 {
			missing = append(missing, e)
			continue
		}
		if b.there[id]--; b.there[id] == 0 {
			delete(b.there, id)
		}
		b.sum.Before++
	}
	return missing
}

func (b *book) publish(ctx context.Context, m Message) error {
	b.sum.Messages++
	b.sum.PerLane[m.Lane]++
	return b.ledger.Publish(ctx, m)
}

// close publishes the last block, and waits until everything is noted.
func (b *book) close(ctx context.Context) error {
	if len(b.block) > 0 {
		if err := b.commit(ctx); err != nil {
			return err
		}
	}
	err := b.note(ctx, b.done)
	b.done = nil
	return err
}

// seal ends every lane permanently.
func (b *book) seal(ctx context.Context) error {
	id := b.sealID()
	for lane := range b.o.Lanes {
		if seal := b.ended[lane]; seal != nil && seal.ID != id {
			return endedError(lane, seal)
		}
	}
	value, err := schemas.Marshal(&schemas.Seal{Final: true, ID: id})
	if err != nil {
		return err
	}
	for lane := range b.o.Lanes {
		if b.ended[lane] != nil {
			continue // an earlier run of the same sources was cut short here
		}
		b.sum.Seals++
		if err := b.publish(ctx, Message{Lane: lane, Schema: schemas.SchemaSeal, Value: value}); err != nil {
			return err
		}
	}
	return b.ledger.Note(ctx, nil)
}

// sealID identifies the end of a crawl of these sources. A repeated run gives the same id.
func (b *book) sealID() string {
	h := sha256.New()
	for _, uri := range slices.Sorted(maps.Keys(b.final)) {
		s := b.final[uri]
		fmt.Fprintf(h, "%q %d %s %d\n", uri, s.Messages, s.Digest, s.HeldOut)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func endedError(lane int, seal *schemas.Seal) error {
	return fmt.Errorf("lane %d has ended with a final seal (id %q, note %q), and takes nothing more: publish to another NAMESPACE", lane, seal.ID, seal.Note)
}
