package indexer

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/neighbors/imagerefs"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/schemas"
)

// Verdict is what Add says about the open group.
type Verdict int

// The verdicts of Add.
const (
	Open     Verdict = iota // the embedding was taken, or counted as a duplicate
	Complete                // the embedding was taken as the group's last: Close it before the next Add
	NewModel                // the embedding was not taken, as other weights made it: Close the group, then Add it again
)

// Builder assembles the groups of one lane.
type Builder struct {
	o      Options // of the open group
	later  Options // of the groups after it
	engine knn.Engine
	nouns  NounFinder
	live   *Live
	next   schemas.GroupID // of the open group
	open   *openGroup      // nil between groups
	window window
	left   leftOut // between groups
	images int64   // embeddings that were counted or dropped for their images, some again after a new model
	near   int64   // pairs that were counted or dropped as near-duplicates
}

// leftOut counts the embeddings that repeat a pair of an earlier group.
type leftOut struct {
	count, first int64 // first: the seq of the first of them
	images       int64 // of these: for their images
}

// openGroup is the group that is being assembled.
type openGroup struct {
	*members
	images     idTable[schemas.ImageID]
	owner      []int32 // number of every member's image
	nouns      nounTable
	first, end int64 // seqs: of the first embedding, and after the last one
	duplicates int64
	repeats    int64
	sameImage  int64

	refs imagerefs.Table // of every member's image, where copies are made

	similarities []float32 // of every member
	low, high    float32   // of these
}

// NewBuilder makes the builder of a lane whose next group is first. Live may be nil: then nothing can be searched.
func NewBuilder(first schemas.GroupID, o Options, engine knn.Engine, nouns NounFinder, live *Live) (*Builder, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("checking the indexer's options: %w", err)
	}
	b := &Builder{o: o, later: o, engine: engine, nouns: nouns, live: live, next: first, window: newWindow(o.Window)}
	if o.SameImage != KeepImages {
		b.window.lookAtImages()
	}
	return b, nil
}

// Finish makes the next group with the options of the owner that began it. The groups after it have the builder's own.
func (b *Builder) Finish(begun Options) error {
	begun.Threads, begun.Segments = b.later.Threads, b.later.Segments
	if begun.Window != b.later.Window {
		return fmt.Errorf("pairs count once in %d embeddings here, and in %d where the group was begun", b.later.Window, begun.Window)
	}
	if err := begun.Validate(); err != nil {
		return err
	}
	if begun.SameImage != KeepImages {
		b.window.lookAtImages()
	}
	b.o = begun
	return nil
}

// Options returns those of the open group, or of the next one.
func (b *Builder) Options() Options { return b.o }

// Remember takes the pair and the image of an embedding that came before the first one to Add, from
// [Options.WindowBlocks] on.
func (b *Builder) Remember(pair schemas.PairID, image schemas.ImageID, seq int64) {
	b.window.see(pair, image, seq)
}

// SameImages returns how many embeddings were counted or dropped for their images so far.
func (b *Builder) SameImages() int64 { return b.images }

// NearImages returns how many pairs were counted or dropped as near-duplicates so far.
func (b *Builder) NearImages() int64 { return b.near }

// Repeats returns how many embeddings were left out since the last group, and forgets them: a seal says it.
func (b *Builder) Repeats() int64 {
	count := b.left.count
	b.left = leftOut{}
	return count
}

// Model returns the fingerprint of the open group's model; empty without one.
func (b *Builder) Model() string {
	if b.open == nil {
		return ""
	}
	return b.open.model
}

// Next returns the id of the open group.
func (b *Builder) Next() schemas.GroupID { return b.next }

// Pending returns the number of distinct pairs in the open group.
func (b *Builder) Pending() int {
	if b.open == nil {
		return 0
	}
	return b.open.v.Len()
}

// FirstSeq returns the seq of the open group's first embedding, from where to add again after a crash; an embedding
// that was left out before it counts. Without an open group there is none.
func (b *Builder) FirstSeq() (int64, bool) {
	if b.open == nil {
		return b.left.first, b.left.count > 0
	}
	return b.open.first, true
}

// Add takes the lane's embedding with this seq. An error that wraps [schemas.ErrInvalid] is about the embedding alone:
// it was not taken, and the group goes on.
func (b *Builder) Add(e *schemas.Embedding, seq int64) (Verdict, error) {
	g := b.open
	switch {
	case g == nil:
	case seq < g.end:
		return Open, fmt.Errorf("adding pair %s: seq %d comes after seq %d", e.ID, seq, g.end-1)
	case g.v.Len() == b.o.GroupSize:
		return Open, fmt.Errorf("adding pair %s: group %s is complete and was not closed", e.ID, b.next)
	}
	before := b.window.see(e.ID, e.ImageID, seq)
	if before.pair && (g == nil || g.position(e.ID) < 0) {
		b.leaveOut(seq)
		return Open, nil
	}
	sameImage := before.image && !before.pair && b.o.SameImage != KeepImages
	if sameImage && b.o.SameImage == DropImages {
		b.leaveOut(seq)
		b.countImage()
		return Open, nil
	}
	if g != nil && e.Model != g.model {
		return NewModel, nil
	}
	if err := b.check(e); err != nil {
		return Open, fmt.Errorf("adding pair %s: %w", e.ID, err)
	}
	if g == nil {
		var err error
		if g, err = b.begin(e, seq); err != nil {
			return Open, err
		}
	}
	if sameImage {
		b.countImage()
	}
	g.end = seq + 1
	if g.position(e.ID) >= 0 {
		g.duplicates++
		return Open, nil
	}
	if err := g.take(e, b.nouns.Nouns(e.Caption)); err != nil {
		return Open, err
	}
	if b.o.Repack != "" || b.o.Segments {
		g.refs.Add(e.Image)
	}
	if b.live != nil {
		b.live.grew(g.members)
	}
	if g.v.Len() == b.o.GroupSize {
		return Complete, nil
	}
	return Open, nil
}

// leaveOut counts an embedding whose pair an earlier group has.
func (b *Builder) leaveOut(seq int64) {
	if b.open != nil {
		b.open.end = seq + 1
		b.open.repeats++
		return
	}
	if b.left.count == 0 {
		b.left.first = seq
	}
	b.left.count++
}

// countImage counts an embedding whose image an earlier one had.
func (b *Builder) countImage() {
	b.images++
	if b.open != nil {
		b.open.sameImage++
		return
	}
	b.left.images++
}

// check verifies that the vectors are as wide as the group's, which the codec cannot know. For a first embedding it
// checks their widths against each other, because vectors need not have come through the codec.
func (b *Builder) check(e *schemas.Embedding) error {
	dim := e.V.Len()
	if b.open != nil {
		dim = b.open.dim
	}
	if dim < 1 || dim > schemas.MaxDim || len(e.V) != 2*dim || len(e.T) != 2*dim {
		return fmt.Errorf("%w: vectors of %d and %d bytes, want %d", schemas.ErrInvalid, len(e.V), len(e.T), 2*dim)
	}
	return nil
}

// begin opens a group with its first embedding.
func (b *Builder) begin(e *schemas.Embedding, seq int64) (*openGroup, error) {
	m, err := newMembers(b.next, e.Model, b.o.GroupSize, e.V.Len())
	if err != nil {
		return nil, err
	}
	b.open = &openGroup{members: m, first: seq, low: float32(math.Inf(1)), high: float32(math.Inf(-1))}
	if b.left.count > 0 {
		b.open.first, b.open.repeats, b.open.sameImage, b.left = b.left.first, b.left.count, b.left.images, leftOut{}
	}
	if b.live != nil {
		b.live.open(m)
	}
	return b.open, nil
}

func (g *openGroup) take(e *schemas.Embedding, nouns []string) error {
	if err := g.add(e); err != nil {
		return err
	}
	g.note(e.ImageID, nouns, e.Similarity)
	return nil
}

// note records the image, nouns and similarity of the latest member.
func (g *openGroup) note(image schemas.ImageID, nouns []string, similarity float32) {
	number, _ := g.images.add(image)
	g.owner = append(g.owner, int32(number))
	g.nouns.add(nouns)
	g.similarities = append(g.similarities, similarity)
	g.low, g.high = min(g.low, similarity), max(g.high, similarity)
}

// Close computes the open group and begins the next one. The segments of the groups that it asks stay the caller's.
// Without an open group it returns nil: there is nothing to publish, and the group's number stays. After an error the
// group is still open, and Close may be called again.
func (b *Builder) Close(ctx context.Context, why Reason, asked ...*segment.Segment) (*Group, error) {
	g := b.open
	if g == nil {
		return nil, nil
	}
	group, left, err := b.compute(ctx, g, why, asked)
	if err != nil {
		return nil, fmt.Errorf("closing group %s: %w", b.next, err)
	}
	if b.live != nil {
		if err := b.live.seal(g.members, left.members); err != nil {
			return nil, fmt.Errorf("closing group %s: %w", b.next, err)
		}
	}
	b.near += group.Manifest.Near
	b.open, b.o = nil, b.later
	b.next.Seq++
	err = g.release()
	if left != g {
		err = errors.Join(err, left.release())
	}
	if err != nil {
		return nil, fmt.Errorf("closing group %s: %w", group.Manifest.Group, err)
	}
	return group, nil
}

// Free gives up the open group and what live search holds of this lane, when the lane goes to another owner.
func (b *Builder) Free() error {
	var err error
	if b.live != nil {
		err = b.live.drop(b.next.Lane)
	}
	if b.open != nil {
		err = errors.Join(err, b.open.release())
		b.open = nil
	}
	return err
}
