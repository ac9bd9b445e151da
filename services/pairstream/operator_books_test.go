//go:build cgo

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/kafkatest"
	"github.com/pairstream/pairstream/schemas"
)

// laneOf is a lane of a topic.
type laneOf struct {
	topic schemas.Topic
	lane  int
}

// entryOf is a record as it lies in the log.
type entryOf struct {
	offset int64
	seq    int64 // -1: none
	schema string
	value  []byte
	rec    schemas.Record // nil: it cannot be read

	skipped bool // operators have given it up: who read it before has it, and others have not
}

// space is a namespace and what is known of it.
type space struct {
	name   string
	folder int // number of its folder of checkpoints
	final  bool
	raw    map[laneOf][]entryOf // all that was ever in the log
	next   map[laneOf]int64
	old    map[laneOf][]entryOf // of topics that were deleted
	cut    map[laneOf]int64     // offset before which records were deleted

	produced map[string]string // what tars held when they were published

	doomed string // why the books need not balance, if somebody says so
	tries  map[string]int

	gone   map[schemas.ImageID]bool                        // images that are forgotten
	knows  map[string]map[schemas.ImageID]map[laneOf]int64 // by stage: from which record on it knows of them
	models []modelFrom                                     // of Con-D
}

func newSpace(name string) *space {
	return &space{
		name: name, raw: make(map[laneOf][]entryOf), next: make(map[laneOf]int64),
		old: make(map[laneOf][]entryOf), cut: make(map[laneOf]int64), produced: make(map[string]string), tries: make(map[string]int),
		gone: make(map[schemas.ImageID]bool), knows: make(map[string]map[schemas.ImageID]map[laneOf]int64),
	}
}

// read takes down what the log of a space holds and was not taken down before. It reads with another client than the
// stages, and drops nothing.
func (w *world) read(s *space) {
	log := w.connect(s)
	defer log.Close()
	var spans []kafkatest.Span
	named := make(map[string]schemas.Topic)
	for _, info := range schemas.Catalogue() {
		if !info.Lane {
			continue
		}
		for lane := range worldLanes {
			at := laneOf{info.Topic, lane}
			b, err := log.Bounds(w.t.Context(), info.Topic, lane)
			w.check(err)
			s.next[at] = max(s.next[at], b.Start)
			name := info.Topic.Name(s.name)
			named[name] = info.Topic
			spans = append(spans, kafkatest.Span{Topic: name, Partition: lane, From: s.next[at], End: b.End})
		}
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	w.check(kafkatest.ReadSpans(ctx, w.brokers(), spans, func(m kafkatest.Message) {
		at := laneOf{named[m.Topic], m.Partition}
		s.raw[at] = append(s.raw[at], entryFrom(m))
		s.next[at] = m.Offset + 1
	}))
}

func entryFrom(r kafkatest.Message) entryOf {
	e, ours := entryOf{offset: r.Offset, seq: -1, value: r.Value}, false
	for _, h := range r.Headers {
		switch h.Key {
		case schemas.HeaderSchema:
			e.schema = string(h.Value)
		case schemas.HeaderSeq:
			if n, err := strconv.ParseInt(string(h.Value), 10, 64); err == nil {
				e.seq = n
			}
		case schemas.HeaderSource:
			ours = true
		}
	}
	if !ours {
		e.seq = -1 // no stage wrote it
	}
	if rec, err := schemas.Unmarshal(e.schema, e.value); err == nil {
		e.rec = rec
	}
	return e
}

// books compare what was published with what became of it.
type books struct {
	w        *world
	s        *space
	lane     int
	letters  map[laneOf]map[int64]string // reasons by offset
	skips    []stream.Skip
	problems []string
}

func (b *books) problem(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf("lane %d: ", b.lane)+fmt.Sprintf(format, args...))
}

// balance returns what does not add up in a space.
func (w *world) balance(s *space) (problems []string, sum tally) {
	w.read(s)
	log := w.connect(s)
	defer log.Close()
	letters := make(map[laneOf]map[int64]string)
	for d, err := range log.DeadLetters(w.t.Context()) {
		w.check(err)
		at := laneOf{d.Topic, d.Lane}
		if letters[at] == nil {
			letters[at] = make(map[int64]string)
		}
		letters[at][d.Offset] = d.Reason
	}
	skips, err := log.Skips(w.t.Context())
	w.check(err)
	for lane := range worldLanes {
		b := &books{w: w, s: s, lane: lane, letters: letters, skips: skips}
		b.pairs(&sum)
		problems = append(problems, b.problems...)
	}
	return problems, sum
}

// sequence returns the records of a lane in the order of their seqs, each once, and without those that are foreign.
func (b *books) sequence(topic schemas.Topic) []entryOf {
	all := b.s.raw[laneOf{topic, b.lane}]
	if !stream.Sequenced(topic) {
		return b.unsequenced(topic, all)
	}
	bySeq := make(map[int64]entryOf)
	next := int64(0)
	for _, e := range all {
		e.skipped = b.skipped(topic, e)
		if e.seq < 0 || b.foreign(topic, e) {
			continue
		}
		before, known := bySeq[e.seq]
		switch {
		case !known && e.seq != next && !b.gap(topic, next, e.seq):
			b.problem("%s: seq %d comes at offset %d where %d is due", topic, e.seq, e.offset, next)
		case known && (before.schema != e.schema || !bytes.Equal(before.value, e.value)):
			b.problem("%s: seq %d is another record at offset %d than at %d", topic, e.seq, e.offset, before.offset)
		}
		if !known {
			bySeq[e.seq], next = e, e.seq+1
		}
	}
	return slices.SortedFunc(maps.Values(bySeq), func(x, y entryOf) int { return cmp.Compare(x.seq, y.seq) })
}

// unsequenced marks the records that operators have given up. Who goes on behind a record of a topic that was made anew
// gives up all before it.
func (b *books) unsequenced(topic schemas.Topic, all []entryOf) []entryOf {
	out := slices.Clone(all)
	anew := len(b.s.old[laneOf{topic, b.lane}]) > 0
	for i := range out {
		out[i].skipped = b.skipped(topic, out[i]) || anew && slices.ContainsFunc(b.skips, func(s stream.Skip) bool {
			return s.Topic == topic && s.Lane == b.lane && out[i].offset < s.To.Offset
		})
	}
	return out
}

// skipped reports whether operators have given a record up.
func (b *books) skipped(topic schemas.Topic, e entryOf) bool {
	return slices.ContainsFunc(b.skips, func(s stream.Skip) bool {
		if s.Topic != topic || s.Lane != b.lane {
			return false
		}
		if e.seq < 0 {
			return s.From.Offset <= e.offset && e.offset < s.To.Offset
		}
		return s.From.Seq <= e.seq && e.seq < s.To.Seq
	})
}

// lost returns the number of records that operators have given up, and that nobody can read: those of a newer version,
// and those of a gap.
func (b *books) lost(topic schemas.Topic) (n int) {
	next := int64(0)
	for _, e := range b.sequence(topic) {
		if e.seq > next {
			n += int(e.seq - next)
		}
		if next = e.seq + 1; e.skipped && e.rec == nil {
			n++
		}
	}
	return n
}

// foreign reports whether operators have declared a record foreign.
func (b *books) foreign(topic schemas.Topic, e entryOf) bool {
	return slices.ContainsFunc(b.skips, func(s stream.Skip) bool {
		return s.Topic == topic && s.Lane == b.lane && s.From.Seq == s.To.Seq && s.From.Offset <= e.offset && e.offset < s.To.Offset
	})
}

// gap reports whether operators have given up the seqs of a gap.
func (b *books) gap(topic schemas.Topic, from, to int64) bool {
	return slices.ContainsFunc(b.skips, func(s stream.Skip) bool {
		return s.Topic == topic && s.Lane == b.lane && s.From.Seq <= from && to <= s.To.Seq
	})
}

// letter returns why a record was set aside.
func (b *books) letter(topic schemas.Topic, e entryOf) string {
	return b.letters[laneOf{topic, b.lane}][e.offset]
}

// pairs follows the pairs of the lane through all topics.
func (b *books) pairs(sum *tally) {
	published, lost := make(map[schemas.PairID]int), make(map[schemas.PairID]int)
	for _, e := range b.s.old[laneOf{schemas.Pairs, b.lane}] { // read or not, before the topic was deleted
		if r, ok := e.rec.(*schemas.Pair); ok {
			published[r.ID], lost[r.ID] = published[r.ID]+1, lost[r.ID]+1
		}
	}
	for _, e := range b.sequence(schemas.Pairs) {
		sum.records++
		switch r := e.rec.(type) {
		case *schemas.Pair:
			sum.pairs++
			published[r.ID]++
			if e.skipped || b.trimmed(e) {
				lost[r.ID]++
			}
		case *schemas.Seal:
		default:
			sum.aside++
			if b.letter(schemas.Pairs, e) == "" && !e.skipped && !b.trimmed(e) {
				b.problem("the record at offset %d of pairs cannot be read, and is not among the dead letters", e.offset)
			}
		}
	}
	alive, excused := b.embeddings(published, lost, sum)
	groups := b.groups(alive, excused, sum)
	b.training(groups, sum)
	b.forgottenImages()
	b.weights()
	b.scores()
}

// trimmed reports whether retention removed a pair, and the encoder has said so.
func (b *books) trimmed(e entryOf) bool {
	if e.offset >= b.s.cut[laneOf{schemas.Pairs, b.lane}] {
		return false
	}
	return slices.ContainsFunc(b.w.past, func(m *member) bool {
		return m.namespace == b.s.name && m.stage == "encoder" && strings.Contains(m.log.String(), fmt.Sprintf("retention removed records before they were read\" topic=pairs lane=%d", b.lane))
	})
}

// embeddings wants a record for each pair, and returns the pairs that groups must hold.
func (b *books) embeddings(published, lost map[schemas.PairID]int, sum *tally) (alive, excused map[schemas.PairID]bool) {
	alive, excused = make(map[schemas.PairID]bool), make(map[schemas.PairID]bool)
	for _, e := range b.sequence(schemas.Embeddings) {
		sum.records++
		switch r := e.rec.(type) {
		case *schemas.Embedding:
			published[r.ID]--
			switch {
			case e.skipped:
				excused[r.ID] = true
			case b.letter(schemas.Embeddings, e) == "":
				alive[r.ID] = true
			default:
				sum.aside++
			}
		case *schemas.Refusal:
			published[r.ID]--
			sum.aside++
		}
	}
	free := b.lost(schemas.Embeddings)
	for id, n := range published {
		if n > lost[id] && n-lost[id] <= free {
			free, n = free-(n-lost[id]), lost[id]
		}
		if n < 0 || n > lost[id] {
			b.problem("pair %s was published %d times more than it is among the embeddings", id, n)
		}
	}
	return alive, excused
}

// key names a batch.
type key struct {
	group           int64
	epoch, sequence int32
}

// follows reports whether a stage made one of everything, in order, but for as many as operators have given up.
func (b *books) follows(made, of []key, lost int) bool {
	for i := 0; i < len(of) && lost > 0; {
		if i < len(made) && made[i] == of[i] {
			i++
			continue
		}
		of = slices.Delete(slices.Clone(of), i, i+1)
		lost--
	}
	return slices.Equal(made, of)
}

func total(made map[int32]int) (n int) {
	for _, k := range made {
		n += k
	}
	return n
}

// groupOf is a group that must be trained on.
type groupOf struct {
	count int32
	ids   []schemas.PairID
}

// groups wants each pair in one group, and returns the groups that batches must cover.
func (b *books) groups(alive, excused map[schemas.PairID]bool, sum *tally) map[int64]groupOf {
	chunks := make(map[int64][]schemas.PairID)
	for _, e := range b.sequence(schemas.Neighbors) {
		sum.records++
		if c, ok := e.rec.(*schemas.NeighborChunk); ok {
			for i := range c.Members() {
				chunks[c.Group.Seq] = append(chunks[c.Group.Seq], c.ID(i))
			}
		}
	}
	groups, in, manifests := make(map[int64]groupOf), make(map[schemas.PairID]int), make(map[int64]bool)
	for _, e := range b.sequence(schemas.Groups) {
		sum.records++
		g, ok := e.rec.(*schemas.Group)
		if !ok {
			continue
		}
		ids := chunks[g.Group.Seq]
		manifests[g.Group.Seq] = true
		if len(ids) != int(g.Count) && !e.skipped {
			b.problem("group %d has %d pairs, its chunks %d", g.Group.Seq, g.Count, len(ids))
		}
		for _, id := range ids {
			in[id]++
			if !alive[id] && !excused[id] {
				b.problem("pair %s is in group %d and has no embedding", id, g.Group.Seq)
			}
		}
		if e.skipped || b.letter(schemas.Groups, e) != "" {
			sum.aside += len(ids)
			continue
		}
		groups[g.Group.Seq] = groupOf{g.Count, ids}
	}
	free := b.lost(schemas.Groups)
	for number, ids := range chunks {
		if _, known := manifests[number]; !known && free > 0 {
			free--
			for _, id := range ids {
				excused[id] = true
			}
		}
	}
	for id := range alive {
		if in[id] != 1 && !(excused[id] && in[id] == 0) {
			b.problem("pair %s is in %d groups", id, in[id])
		}
	}
	return groups
}

// training wants every pair of a group once in each epoch, and every batch scored and trained on.
func (b *books) training(groups map[int64]groupOf, sum *tally) {
	seen := make(map[int64]map[int32]map[int32]int) // group, epoch, position
	made, wanted := make(map[int64]map[int32]int), make(map[int64]int32)
	var batches, scored, trained []key
	givenUp := make(map[key]bool)
	for _, e := range b.sequence(schemas.Batches) {
		sum.records++
		r, ok := e.rec.(*schemas.Batch)
		if !ok {
			continue
		}
		g := r.Group.Seq
		batches = append(batches, key{g, r.Epoch, r.Sequence})
		if e.skipped {
			givenUp[key{g, r.Epoch, r.Sequence}] = true
		}
		if seen[g] == nil {
			seen[g] = make(map[int32]map[int32]int)
		}
		if seen[g][r.Epoch] == nil {
			seen[g][r.Epoch] = make(map[int32]int)
		}
		if made[g] == nil {
			made[g] = make(map[int32]int)
		}
		made[g][r.Epoch]++
		wanted[g] = r.Batches
		for i := range r.Samples {
			seen[g][r.Epoch][r.Samples[i].Position]++
		}
	}
	free := b.lost(schemas.Batches)
	for number, g := range groups {
		epochs := seen[number]
		if lacks := len(made[number])*int(wanted[number]) - total(made[number]); lacks > 0 && lacks <= free {
			free -= lacks // an operator has given them up
			continue
		}
		if !b.w.epochs[len(epochs)] {
			b.problem("group %d was made into %d epochs, EPOCHS was one of %v", number, len(epochs), slices.Sorted(maps.Keys(b.w.epochs)))
		}
		for epoch, positions := range epochs {
			for p := range g.count {
				if positions[p] != 1 || len(positions) != int(g.count) {
					b.problem("pair %d of group %d is %d times in epoch %d of %d pairs", p, number, positions[p], epoch, len(positions))
				}
			}
			sum.trained += int(g.count)
		}
	}
	masked := make(map[key]int)
	for _, e := range b.sequence(schemas.Scored) {
		sum.records++
		if r, ok := e.rec.(*schemas.ScoredBatch); ok {
			k := key{r.Group.Seq, r.Epoch, r.Sequence}
			scored = append(scored, k)
			if e.skipped {
				givenUp[k] = true
			}
			masked[k] = len(r.Masked)
		}
	}
	for _, e := range b.sequence(schemas.Features) {
		sum.records++
		if r, ok := e.rec.(*schemas.FeatureBlock); ok {
			k := key{r.Group.Seq, r.Epoch, r.Sequence}
			trained = append(trained, k)
			sum.aside += len(r.Masked)
			if len(r.Masked) < masked[k] {
				b.problem("batch %v has %d masks in scored, %d in features", k, masked[k], len(r.Masked))
			}
		}
	}
	for _, made := range []*[]key{&batches, &scored, &trained} {
		*made = slices.DeleteFunc(*made, func(k key) bool { return givenUp[k] })
	}
	if !b.follows(scored, batches, b.lost(schemas.Scored)) {
		b.problem("scored has %v, batches %v", scored, batches)
	}
	if !b.follows(trained, scored, b.lost(schemas.Features)) {
		b.problem("features have %v, scored %v", trained, scored)
	}
}
