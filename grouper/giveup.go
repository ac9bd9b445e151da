package grouper

import (
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/schemas"
)

// Due is the first of the features of an epoch that a lane waits for.
type Due struct {
	Group int64 `json:"group"`
	Epoch int   `json:"epoch"`
	Batch int   `json:"batch"`
}

// String names the features, for people.
func (d Due) String() string {
	return fmt.Sprintf("features of group %d, epoch %d, from batch %d on", d.Group, d.Epoch, d.Batch)
}

// Awaits returns which features the lane waits for, and whether it waits for features.
func (l *Lane) Awaits() (Due, bool) {
	if l.stage != readFeatures {
		return Due{}, false
	}
	return Due{l.members.manifest.Group.Seq, l.epoch - 1, l.block}, true
}

// GiveUp makes the lane go on without the features that an operator has skipped, each given by its group, epoch and
// first batch. Their pairs keep the features of the epoch before, like pairs that the trainer leaves out. Call it
// before the lane takes the first record of the group.
func (l *Lane) GiveUp(dues ...Due) { l.givenUp = append(l.givenUp, dues...) }

// passGivenUp moves behind features that were given up, and returns whether those of the epoch are complete.
func (l *Lane) passGivenUp() bool {
	if due, _ := l.Awaits(); slices.Contains(l.givenUp, due) {
		l.block = l.plan.Batches()
	}
	return l.block >= l.plan.Batches()
}

// isBehindEpoch reports whether a block belongs to a batch after the epoch whose features the lane reads. Features come
// in the order of batches, so missing features of that epoch will never come.
func (l *Lane) isBehindEpoch(f *schemas.FeatureBlock) bool {
	at := slices.IndexFunc(l.window, func(g windowGroup) bool { return g.number == f.Group.Seq })
	if f.Group.Lane != l.lane || at < 0 {
		return false
	}
	return int(f.Epoch) == l.epoch-1 && at > l.at || int(f.Epoch) == l.epoch && at < l.at // of the batches that were emitted
}

// passBatches moves to a block's batch, where that is a later one of the same epoch.
func (l *Lane) passBatches(f *schemas.FeatureBlock) {
	if f.Group == l.members.manifest.Group && int(f.Epoch) == l.epoch-1 && int(f.Sequence) < l.plan.Batches() {
		l.block = max(l.block, int(f.Sequence))
	}
}
