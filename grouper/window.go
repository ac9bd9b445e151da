package grouper

import (
	"context"
	"io"

	"github.com/pairstream/pairstream/schemas"
)

// EpochOrder is the order in which the epochs of a lane's groups are trained on.
type EpochOrder string

// The orders. The empty text stands for the first one.
const (
	OrderGroup EpochOrder = "group" // all epochs of a group, then the next group
	// OrderLane goes through windows of [Options.EpochGroups] groups, fewer where a seal ends one: epoch 0 of every group
	// in it, then epoch 1 of every group, and so on. It is the papers' order for a data set that is a window.
	OrderLane EpochOrder = "lane"
)

// Store keeps the groups of a window that are not worked on. So one group is in memory at a time.
type Store interface {
	// Put stores the data that write produces for a group, in place of the group's earlier data.
	Put(group int64, write func(io.Writer) error) error
	// Get passes the stored data of a group to read.
	Get(group int64, read func(io.Reader) error) error
	// Clear forgets all groups.
	Clear() error
}

// groupState is the group in memory.
type groupState struct {
	members  *members
	plan     Plan     // of the epoch before
	features *vectors // the features that the next plan uses
	made     []int32  // the epoch whose features a pair has, -1: of none; nil: all have none
}

// windowGroup is a group of the open window.
type windowGroup struct {
	number int64
	pairs  int
	oldest int        // the first epoch whose features some pair has still; -1: none
	dim    int        // values of its features; 0: none yet
	state  groupState // empty while the group is the one in memory, or in the store
}

// KeepIn keeps the groups of a window in a store. Without one all are in memory.
func (l *Lane) KeepIn(s Store) { l.store = s }

// Ends says whether nothing of the window remains to be emitted after a batch that is just being emitted.
func (l *Lane) Ends(b *schemas.Batch) bool {
	last := int(b.Epoch) == l.options.Epochs-1 && b.Sequence == b.Batches-1 && l.at == len(l.window)-1
	return last && l.seal == nil && l.heldChunk == nil && l.heldEmbedding == nil
}

// full says whether the open window takes no further group.
func (l *Lane) full() bool {
	o := l.options
	return o.EpochOrder != OrderLane || o.Epochs == 1 || len(l.window) == o.EpochGroups || l.members.manifest.Final
}

// progress returns how many epochs of the lane the present one has before it. It follows from the number of the
// window's first group, so that a lane that starts anew counts as before, and grows from window to window.
func (l *Lane) progress() int64 { return l.window[0].number*int64(l.options.Epochs) + int64(l.epoch) }

// left returns the number of batches from the start of the present epoch to the end of the lane; 0: unknown.
func (l *Lane) left() int64 {
	if !l.final {
		return 0
	}
	var left int64
	for i, g := range l.window {
		for epoch := l.epoch; epoch < l.options.Epochs; epoch++ {
			if epoch > l.epoch || i >= l.at {
				left += int64(l.options.batches(epoch, g.pairs))
			}
		}
	}
	return left
}

// join takes the group in memory, which is complete, into the window.
func (l *Lane) join() {
	manifest := l.members.manifest
	l.window = append(l.window, windowGroup{number: manifest.Group.Seq, pairs: int(manifest.Count), oldest: -1})
	l.at, l.final = len(l.window)-1, manifest.Final
}

// emitEpochs emits epochs, from the present one of the group in memory on, until it needs more input. It closes the
// window after the last epoch.
func (l *Lane) emitEpochs(ctx context.Context, emit Emit) error {
	for {
		if err := l.emitEpoch(ctx, emit); err != nil {
			return err
		}
		if l.epoch == 0 && !l.full() {
			l.stage = readGroup
			return l.park()
		}
		if ready, err := l.turn(emit); !ready || err != nil {
			return err
		}
	}
}

// close goes on with the groups of a window that a seal has ended, and passes the seal on behind them.
func (l *Lane) close(ctx context.Context, seal *schemas.Seal, emit Emit) error {
	l.seal = seal
	if ready, err := l.turn(emit); !ready || err != nil {
		return err
	}
	return l.emitEpochs(ctx, emit)
}

// turn goes to the next group of the epoch, or to the first of the next epoch. It returns whether that can be emitted;
// else its features are still to be read, or the window has ended.
func (l *Lane) turn(emit Emit) (ready bool, err error) {
	to, epoch := l.at+1, l.epoch
	if to == len(l.window) {
		if l.recalls() {
			l.stage = readOwn
			return false, nil
		}
		to = 0
		if epoch, err = l.skipTo(); err != nil {
			return false, err
		}
	}
	if epoch == l.options.Epochs {
		return false, l.finish(emit)
	}
	if to != l.at || l.members == nil {
		if err := l.park(); err != nil {
			return false, err
		}
		if err := l.fetch(to); err != nil {
			return false, err
		}
	}
	l.at, l.epoch = to, epoch
	if !l.options.needsFeatures(epoch) {
		return true, nil
	}
	if epoch == 1 {
		l.forgetVectors()
	}
	if err := l.recallPlan(); err != nil {
		return false, err
	}
	l.block = 0
	l.stage = readFeatures
	return l.passGivenUp(), nil
}

// finish forgets the window, and passes on the seal that has ended it.
func (l *Lane) finish(emit Emit) error {
	seal, options := l.seal, l.next
	if l.heldChunk != nil || l.heldEmbedding != nil {
		options = l.options // held records lead back to before the window
	}
	if l.store != nil && len(l.window) > 1 {
		if err := l.store.Clear(); err != nil {
			return err
		}
	}
	l.end(options)
	if seal == nil {
		return nil
	}
	return emit(&schemas.Seal{Final: seal.Final, Note: seal.Note})
}

// park puts the group in memory aside. Without the encoder's vectors, where training features will take their place.
func (l *Lane) park() error {
	if l.members == nil {
		return nil
	}
	if l.epoch == 0 && l.options.needsFeatures(1) {
		l.forgetVectors()
	}
	g := &l.window[l.at]
	state := l.groupState
	l.groupState = groupState{}
	if l.store == nil {
		g.state = state
		return nil
	}
	return l.store.Put(g.number, state.encode)
}

// forgetVectors lets the features of the epoch before take the place of the encoder's vectors, which the lane forgets
// where its strategy does not use them beside these.
func (l *Lane) forgetVectors() {
	l.features = nil
	if !l.options.keepsVectors() {
		l.members.vectors = nil
	}
}

// fetch takes a group of the window back into memory.
func (l *Lane) fetch(i int) error {
	g := &l.window[i]
	if l.store == nil {
		l.groupState, g.state = g.state, groupState{}
		return nil
	}
	return l.store.Get(g.number, l.decode)
}
