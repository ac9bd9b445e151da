package grouper

import (
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
//  3. embeddings: the group's range of offsets, until every pair was seen; then it emits the batches of epoch 0;
//  4. features, for GRIT on training features only: a block for each batch of the epoch before; then it emits the
//     batches of the next epoch, and so on until the last. Other strategies emit all epochs at once.
//
// Records of an earlier group, or features of an earlier epoch, are passed over, so the features of a group's last epoch
// need not be read before the next group. Between groups a Lane holds nothing: started anew at the same positions of its
// topics it emits the same records.
type Lane struct {
	options Options
	lane    int32
	stage   stage
	last    int64 // sequence number of the last group that was begun; -1: none
	members *members

	epoch    int      // the epoch that is planned next, or whose features are being read
	plan     Plan     // of the epoch before
	block    int      // feature blocks read of the epoch before
	features *vectors // the features that the next plan uses
}

type stage int

const (
	readGroup stage = iota
	readChunks
	readEmbeddings
	readFeatures
)

// NewLane checks the options and returns a Lane between groups.
func NewLane(options Options, lane int) (*Lane, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	return &Lane{options: options, lane: int32(lane), last: -1}, nil
}

// Needs is the topic of which the lane must be given the next record.
func (l *Lane) Needs() schemas.Topic {
	switch l.stage {
	case readGroup:
		return schemas.Groups
	case readChunks:
		return schemas.Neighbors
	case readEmbeddings:
		return schemas.Embeddings
	case readFeatures:
		return schemas.Features
	}
	panic(fmt.Sprintf("grouper: lane in stage %d", l.stage))
}

// BetweenGroups says whether the lane holds nothing of any group: a place to start again from.
func (l *Lane) BetweenGroups() bool { return l.stage == readGroup }

// Add takes the next record of the topic that Needs names, and its offset there, and emits what follows from it: nothing,
// a seal, or all batches of one or more epochs. Only one batch at a time is in memory. An error that wraps
// [ErrUnexpected] leaves the lane as it was; after any other (of emit, or of the context) the lane cannot be used again.
func (l *Lane) Add(ctx context.Context, record schemas.Record, offset int64, emit Emit) error {
	switch l.stage {
	case readGroup:
		return l.addGroup(record, emit)
	case readChunks:
		return l.addChunk(record)
	case readEmbeddings:
		return l.addEmbedding(ctx, record, offset, emit)
	case readFeatures:
		return l.addFeatures(ctx, record, emit)
	}
	panic(fmt.Sprintf("grouper: lane in stage %d", l.stage))
}

func (l *Lane) addGroup(record schemas.Record, emit Emit) error {
	switch r := record.(type) {
	case *schemas.Seal:
		return emit(&schemas.Seal{Final: r.Final, Note: r.Note})
	case *schemas.Group:
		if r.Group.Lane != l.lane || r.Group.Seq <= l.last {
			return unexpected("manifest of group %s in lane %d after group %d", r.Group, l.lane, l.last)
		}
		l.last = r.Group.Seq
		l.members = newMembers(r)
		l.stage = readChunks
		return nil
	default:
		return l.misplaced(record)
	}
}

func (l *Lane) addChunk(record schemas.Record) error {
	c, ok := record.(*schemas.NeighborChunk)
	if !ok {
		return l.misplaced(record)
	}
	if open, err := l.isOpen(c.Group); !open {
		return err
	}
	if err := l.members.addChunk(c); err != nil {
		return err
	}
	if len(l.members.ids) == l.members.count() {
		l.members.reserve(l.options.needsVectors())
		l.stage = readEmbeddings
	}
	return nil
}

func (l *Lane) addEmbedding(ctx context.Context, record schemas.Record, offset int64, emit Emit) error {
	switch r := record.(type) {
	case *schemas.Seal:
		return nil // it comes back behind the group's manifest
	case *schemas.Embedding:
		if err := l.members.addEmbedding(r, offset); err != nil {
			return err
		}
		if !l.members.complete() {
			return nil
		}
		l.features = l.members.vectors
		return l.emitEpochs(ctx, emit)
	default:
		return l.misplaced(record)
	}
}

func (l *Lane) addFeatures(ctx context.Context, record schemas.Record, emit Emit) error {
	f, ok := record.(*schemas.FeatureBlock)
	if !ok {
		return l.misplaced(record)
	}
	if open, err := l.isOpen(f.Group); !open {
		return err
	}
	if int(f.Epoch) < l.epoch-1 {
		return nil
	}
	if err := l.checkFeatures(f); err != nil {
		return err
	}
	if l.features == nil {
		l.features = newVectors(l.members.count(), int(f.Dim))
	}
	for i, p := range f.Positions {
		row := 2 * int(f.Dim)
		l.features.write(p, f.V[i*row:(i+1)*row], f.T[i*row:(i+1)*row])
	}
	l.block++
	if l.block < l.plan.Batches() {
		return nil
	}
	return l.emitEpochs(ctx, emit)
}

// checkFeatures makes sure that a block is that of the next batch. A trainer that could not use a sample leaves it out:
// the pair keeps the features of the epoch before, or zeros, which are like nothing else.
func (l *Lane) checkFeatures(f *schemas.FeatureBlock) error {
	if int(f.Epoch) != l.epoch-1 || int(f.Sequence) != l.block {
		return unexpected("features of batch %d of epoch %d of group %s, want batch %d of epoch %d",
			f.Sequence, f.Epoch, f.Group, l.block, l.epoch-1)
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

// emitEpochs emits the epochs for which everything is there, and closes the group after its last.
func (l *Lane) emitEpochs(ctx context.Context, emit Emit) error {
	for {
		if err := l.emitEpoch(ctx, emit); err != nil {
			return fmt.Errorf("grouping epoch %d of group %s: %w", l.epoch, l.members.manifest.Group, err)
		}
		l.epoch++
		if l.epoch == l.options.Epochs {
			*l = Lane{options: l.options, lane: l.lane, last: l.last}
			return nil
		}
		if l.options.needsFeatures(l.epoch) {
			if l.epoch == 1 {
				l.members.vectors, l.features = nil, nil // the encoder's are not used again
			}
			l.block = 0
			l.stage = readFeatures
			return nil
		}
	}
}

func (l *Lane) emitEpoch(ctx context.Context, emit Emit) error {
	key := Key{l.options.Seed, l.members.manifest.Group, l.epoch}
	plan, err := l.makePlan(ctx, key)
	if err != nil {
		return err
	}
	l.plan = plan
	maker := batchMaker{
		options: l.options, key: key, members: l.members, plan: plan,
		alpha: l.options.alpha(l.epoch, l.members.manifest, l.members.similarity),
	}
	if l.options.Candidates > 0 {
		maker.features = l.features
	}
	for i := range plan.Batches() {
		batch, err := maker.batch(ctx, i)
		if err != nil {
			return fmt.Errorf("making batch %d: %w", i, err)
		}
		if err := emit(batch); err != nil {
			return fmt.Errorf("emitting batch %d: %w", i, err)
		}
	}
	return nil
}

func (l *Lane) makePlan(ctx context.Context, key Key) (Plan, error) {
	o, m := l.options, l.members
	switch o.Strategy {
	case StrategyGNS:
		return GNS(m.cluster, m.image, GNSRule{o.BatchSize, o.Clusters, o.PerCluster}, key), nil
	case StrategyGRIT:
		order := l.plan.Order // training order of the epoch before
		if !o.needsFeatures(l.epoch) {
			order = permutation(m.count(), key.generator("collecting order"))
		}
		rule := GRITRule{o.BatchSize, o.QueueSize, o.SearchSpace, o.StartAsReleased, o.Workers}
		return GRIT(ctx, order, l.features, m.image, rule, key.Draws())
	case StrategyRandom:
	}
	return Random(m.image, o.BatchSize, key), nil
}
