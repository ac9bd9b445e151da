package grouper

import (
	"bytes"
	"context"
	"fmt"

	"github.com/pairstream/pairstream/schemas"
)

// Emit publishes a record: the batches of a group in training order, and seals.
type Emit func(schemas.Record) error

// Lane turns the records of one lane into mini-batches. For every group it reads
//
//  1. groups: the manifest (a seal is passed on);
//  2. neighbors: the group's chunks;
//  3. embeddings: the group's range of seqs, until every pair was seen; then it emits the batches of epoch 0;
//  4. features, for GRIT on training features only: a block for each batch of the epoch before; then it emits the
//     batches of the next epoch, and so on until the last. Other strategies emit all epochs at once.
//
// With [OrderLane] it does the first three for every group of a window, then the last for epoch 1 of every group, for
// epoch 2 of every group, and so on. The guarantees below then hold for a window instead of a group.
//
// A Lane skips records of an earlier group and features of an earlier epoch, so it need not read the features of a
// group's last epoch before the next group. Between groups a Lane holds nothing: started anew at the same positions of
// its topics it emits the same records.
//
// A group whose chunks are not those of its manifest, or of which a chunk or an embedding is missing, is set aside: Add
// returns a [SetAsideError], and the lane goes on with the next group.
type Lane struct {
	options Options // of the open group
	next    Options // of the groups after it
	lane    int32
	stage   stage
	last    int64 // sequence number of the last group that was begun; -1: none

	groupState     // in memory
	epoch      int // the epoch that is planned next, or whose features are being read
	begun      int // the last epoch that has begun in the window's first group
	block      int // feature blocks read of the epoch before

	window []windowGroup
	at     int           // the group of the window that is in memory
	final  bool          // no group follows the window's last
	seal   *schemas.Seal // that has ended the window
	store  Store         // nil: the window is in memory

	givenUp []Due // features that will never come
	ahead   any   // of the epoch whose features come: the result of the strategy so far
	walked  func(pairs int)
	planner Planner // of [StrategyOwn]
	chosen  Chosen  // by it
	behind  *recall // position to resume from; nil: the start of a window

	// The first records of a later group, which came where the open one lacks some.
	heldChunk, heldEmbedding *Input
}

// Input is a record as it was read.
type Input struct {
	Record schemas.Record
	Value  []byte // the record's bytes: the manifest has a digest of the chunks'
	Seq    int64
}

type stage int

const (
	readGroup stage = iota
	readChunks
	readEmbeddings
	readOwn
	readFeatures
)

// NewLane checks the options and returns a Lane between groups.
func NewLane(options Options, lane int) (*Lane, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	options = options.Normal()
	return &Lane{options: options, next: options, lane: int32(lane), last: -1}, nil
}

// Finish makes the next group with the options of the owner that began it. The groups after it have the lane's own.
func (l *Lane) Finish(begun Options) error {
	begun.Workers = l.next.Workers
	if err := begun.Validate(); err != nil {
		return err
	}
	l.options = begun
	return nil
}

// Options returns those of the open group, or of the next one.
func (l *Lane) Options() Options { return l.options }

// Needs returns the topic of which the lane must be given the next record.
func (l *Lane) Needs() schemas.Topic {
	switch l.stage {
	case readGroup:
		return schemas.Groups
	case readChunks:
		return schemas.Neighbors
	case readEmbeddings:
		return schemas.Embeddings
	case readOwn:
		return schemas.Batches
	case readFeatures:
		return schemas.Features
	}
	panic(fmt.Sprintf("grouper: lane in stage %d", l.stage))
}

// BetweenGroups says whether the lane holds nothing of any group: a place to start again from.
func (l *Lane) BetweenGroups() bool {
	return l.stage == readGroup && len(l.window) == 0 && l.heldChunk == nil && l.heldEmbedding == nil
}

// WaitsFor describes the next record that the lane needs, for people who wonder why it stands still.
func (l *Lane) WaitsFor() string {
	switch l.stage {
	case readChunks:
		return fmt.Sprintf("chunk %d of %d of group %s", l.members.chunks, l.members.manifest.Chunks, l.members.manifest.Group)
	case readEmbeddings:
		return fmt.Sprintf("the embedding of pair %d of %d of group %s", len(l.members.image), l.members.count(), l.members.manifest.Group)
	case readOwn:
		group, epoch := l.recalling()
		return fmt.Sprintf("batches of epoch %d of group %d, to know their order again", epoch, group)
	case readFeatures:
		return fmt.Sprintf("features of epoch %d, batch %d of %d, group %s", l.epoch-1, l.block, l.plan.Batches(), l.members.manifest.Group)
	case readGroup:
	}
	return fmt.Sprintf("a group after group %d", l.last)
}

// Add takes the next record of the topic that Needs names and emits what follows from it: nothing, a seal, or all
// batches of one or more epochs. Only one batch at a time is in memory. An error that wraps [ErrUnexpected] leaves the
// lane as it was, and after a [SetAsideError] it goes on. After any other (of emit, or of the context) it cannot be
// used again.
func (l *Lane) Add(ctx context.Context, in Input, emit Emit) error {
	publish := emit
	emit = func(r schemas.Record) error {
		if l.muted() {
			return nil
		}
		return publish(r)
	}
	switch l.stage {
	case readGroup:
		return l.addGroup(ctx, in.Record, emit)
	case readChunks:
		return l.addChunk(ctx, in, emit)
	case readEmbeddings:
		return l.addEmbedding(ctx, in, emit)
	case readOwn:
		return l.addOwn(ctx, in.Record, emit)
	case readFeatures:
		return l.addFeatures(ctx, in.Record, emit)
	}
	panic(fmt.Sprintf("grouper: lane in stage %d", l.stage))
}

func (l *Lane) addGroup(ctx context.Context, record schemas.Record, emit Emit) error {
	switch r := record.(type) {
	case *schemas.Seal:
		if len(l.window) > 0 {
			return l.close(ctx, r, emit)
		}
		return emit(&schemas.Seal{Final: r.Final, Note: r.Note})
	case *schemas.Group:
		if r.Group.Lane != l.lane || r.Group.Seq <= l.last {
			return unexpected("manifest of group %s in lane %d after group %d", r.Group, l.lane, l.last)
		}
		l.last = r.Group.Seq
		l.members, l.epoch = newMembers(r), 0
		l.stage = readChunks
		return l.addHeld(ctx, &l.heldChunk, l.addChunk, emit)
	default:
		return l.misplaced(record)
	}
}

// end forgets the open window.
func (l *Lane) end(options Options) {
	*l = Lane{
		options: options, next: l.next, lane: l.lane, last: l.last, store: l.store, givenUp: l.givenUp, behind: l.behind, walked: l.walked, planner: l.planner,
		heldChunk: l.heldChunk, heldEmbedding: l.heldEmbedding,
	}
}

func (l *Lane) addChunk(ctx context.Context, in Input, emit Emit) error {
	c, ok := in.Record.(*schemas.NeighborChunk)
	if !ok {
		return l.misplaced(in.Record)
	}
	m := l.members
	if c.Group.Lane == l.lane && c.Group.Seq > l.last {
		l.heldChunk = &in
		return l.setAside(fmt.Sprintf("chunk %d of %d is missing", m.chunks, m.manifest.Chunks))
	}
	if open, err := l.isOpen(c.Group); !open {
		return err
	}
	if err := m.addChunk(c, in.Value); err != nil {
		return err
	}
	if len(m.ids) < m.count() {
		return nil
	}
	if got := m.digest.Sum(nil); !bytes.Equal(got, m.manifest.Digest) {
		return l.setAside(fmt.Sprintf("its chunks have the digest %x, its manifest says %x", got, m.manifest.Digest))
	}
	m.reserve(l.options.keepsVectors() || l.options.needsVectors() && (l.behind == nil || !l.options.needsFeatures(1)))
	l.stage = readEmbeddings
	return l.addHeld(ctx, &l.heldEmbedding, l.addEmbedding, emit)
}

func (l *Lane) addEmbedding(ctx context.Context, in Input, emit Emit) error {
	m := l.members
	behind := in.Seq >= m.manifest.EndSeq
	lacks := fmt.Sprintf("pair %d of %d has no embedding before seq %d", len(m.image), m.count(), m.manifest.EndSeq)
	switch r := in.Record.(type) {
	case *schemas.Seal, *schemas.Refusal: // a seal comes back behind the group's manifest, and a refused pair is in no group
		if behind {
			return l.setAside(lacks)
		}
		return nil
	case *schemas.Embedding:
		if behind {
			l.heldEmbedding = &in
			return l.setAside(lacks)
		}
		if err := l.members.addEmbedding(r, in.Seq); err != nil {
			return err
		}
		if !l.members.complete() {
			return nil
		}
		l.features = l.members.vectors
		l.join()
		return l.emitEpochs(ctx, emit)
	default:
		return l.misplaced(in.Record)
	}
}

func (l *Lane) addFeatures(ctx context.Context, record schemas.Record, emit Emit) error {
	f, ok := record.(*schemas.FeatureBlock)
	if !ok {
		return l.misplaced(record)
	}
	if f.Group.Lane == l.lane && f.Group.Seq < l.window[0].number {
		return nil
	}
	if _, err := l.isOpen(f.Group); err != nil {
		return err
	}
	if int(f.Epoch) < l.epoch-1 {
		return nil
	}
	if l.isBehindEpoch(f) {
		if err := l.emitEpochs(ctx, emit); err != nil || l.stage != readFeatures {
			return err
		}
		return l.addFeatures(ctx, record, emit)
	}
	before := l.block
	l.passBatches(f)
	if err := l.checkFeatures(f); err != nil {
		l.block = before
		return err
	}
	if l.features == nil {
		l.features = newVectors(l.members.count(), int(f.Dim))
	}
	for i, p := range f.Positions {
		row := 2 * int(f.Dim)
		l.features.write(p, f.V[i*row:(i+1)*row], f.T[i*row:(i+1)*row])
	}
	l.setMade(f.Positions, f.Epoch)
	l.block++
	if !l.passGivenUp() {
		return l.planAhead(ctx)
	}
	return l.emitEpochs(ctx, emit)
}

// checkFeatures makes sure that a block is that of the next batch. A trainer that could not use a sample leaves it out:
// the pair keeps the features of the epoch before, or zeros, which are like nothing else.
func (l *Lane) checkFeatures(f *schemas.FeatureBlock) error {
	if want := l.members.manifest.Group; f.Group != want || int(f.Epoch) != l.epoch-1 || int(f.Sequence) != l.block {
		return unexpected("features of batch %d of epoch %d of group %s, want batch %d of epoch %d of group %s",
			f.Sequence, f.Epoch, f.Group, l.block, l.epoch-1, want)
	}
	if l.features != nil && int(f.Dim) != l.features.dim {
		return unexpected("features of batch %d of epoch %d of group %s have %d values, those before them %d",
			f.Sequence, f.Epoch, f.Group, f.Dim, l.features.dim)
	}
	open := make(map[int32]bool, l.plan.BatchSize)
	for _, p := range l.plan.Batch(l.block) {
		open[p] = true
	}
	for _, p := range f.Positions {
		if !open[p] {
			return unexpected("features of batch %d of epoch %d of group %s hold pair %d twice, or it is not in the batch",
				f.Sequence, f.Epoch, f.Group, p)
		}
		open[p] = false
	}
	return nil
}

// isOpen says whether a record is of the open group; of an earlier group it is passed over.
func (l *Lane) isOpen(group schemas.GroupID) (bool, error) {
	if group.Lane != l.lane || group.Seq > l.last {
		return false, unexpected("record of group %s in lane %d while group %d is open", group, l.lane, l.last)
	}
	return group.Seq == l.last, nil
}

func (l *Lane) misplaced(record schemas.Record) error {
	return unexpected("%s where the lane reads %s", record.Schema(), l.Needs())
}

func (l *Lane) emitEpoch(ctx context.Context, emit Emit) error {
	l.begin()
	if l.muted() {
		return nil
	}
	key := Key{l.options.Seed, l.members.manifest.Group, l.epoch}
	if l.features == nil && l.options.needsFeatures(l.epoch) { // all were given up
		l.features = newVectors(l.members.count(), int(l.members.manifest.Dim))
		defer func() { l.features = nil }()
	}
	plan, err := l.makePlan(ctx, key)
	if err != nil {
		return fmt.Errorf("grouping epoch %d of group %s: %w", l.epoch, key.Group, err)
	}
	l.plan = plan
	maker := batchMaker{
		options: l.options, key: key, members: l.members, plan: plan,
		alpha: l.options.alpha(l.progress(), l.members.manifest, l.members.similarity), left: l.left(),
		again: l.options.remakesFeatures() && l.epoch+1 < l.options.Epochs && l.options.needsFeatures(l.epoch+1),
	}
	if maker.chosen = l.chosen; l.options.Candidates > 0 {
		maker.features = l.features
	}
	for i := range plan.Batches() {
		batch, err := maker.batch(ctx, i)
		if err != nil {
			return fmt.Errorf("making batch %d of epoch %d of group %s: %w", i, l.epoch, key.Group, err)
		}
		if err := emit(batch); err != nil {
			return fmt.Errorf("emitting batch %d of epoch %d of group %s: %w", i, l.epoch, key.Group, err)
		}
	}
	return nil
}
