package grouper

import (
	"context"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/schemas"
)

// Resume is a place from which a new [Lane] goes on: the start of an epoch of a window. It reads the window's members
// anew. Then it reads the lane's own batches of the epochs From to Epoch-1, and the features of these epochs. Nothing
// else of earlier epochs is needed.
type Resume struct {
	Group int64 // the window's first
	Epoch int   // the first whose batches are emitted
	From  int   // the first whose batches and features are read; Epoch: none
	Dims  []int // values of the features of each group of the window that epochs before From have set; 0: none yet
}

// validate refuses a place that no lane with these options gives.
func (r Resume) validate(o Options) error {
	if r.Epoch < 1 || r.Epoch >= o.Epochs || r.From < 0 || r.From > r.Epoch || r.From < r.Epoch && !o.needsFeatures(r.Epoch) {
		return fmt.Errorf("going on with epoch %d of %d from epoch %d on cannot be", r.Epoch, o.Epochs, r.From)
	}
	return nil
}

// recall holds the earlier epochs' plans, read back from the lane's own batches before it resumes.
type recall struct {
	Resume
	plans map[[2]int64]Plan // by group and epoch
	open  Plan              // of the batches that are being read
}

// GoOn has the lane go on from a place that [Lane.Resume] has given. It is told before it takes its first record, after
// Finish.
func (l *Lane) GoOn(at Resume) error {
	if err := at.validate(l.options); err != nil {
		return err
	}
	l.behind = &recall{Resume: at, plans: make(map[[2]int64]Plan)}
	return nil
}

// Resume returns the place at the start of the present epoch. It holds from the epoch's first batch on. In epoch 0
// there is no such place: a lane starts from the window's beginning.
func (l *Lane) Resume() (at Resume, ok bool) {
	if len(l.window) == 0 || l.epoch == 0 || l.muted() {
		return Resume{}, false
	}
	at = Resume{Group: l.window[0].number, Epoch: l.epoch, From: l.epoch}
	if !l.options.needsFeatures(l.epoch) {
		return at, true
	}
	at.From--
	for _, g := range l.window {
		if g.oldest >= 0 {
			at.From = min(at.From, g.oldest)
		}
		at.Dims = append(at.Dims, g.dim)
	}
	return at, true
}

// muted reports whether the lane's output was already emitted before the position that it resumes from.
func (l *Lane) muted() bool {
	return l.behind != nil && (len(l.window) == 0 || l.window[0].number < l.behind.Group || l.epoch < l.behind.Epoch)
}

// skipTo returns the epoch that follows epoch 0 of the window: 1, or where the lane goes on.
func (l *Lane) skipTo() (epoch int, err error) {
	switch first := l.window[0].number; {
	case l.behind == nil || l.epoch > 0:
		return l.epoch + 1, nil
	case first < l.behind.Group: // all of it was emitted
		return l.options.Epochs, nil
	case first > l.behind.Group:
		return 0, fmt.Errorf("the lane goes on amid group %d, but group %d was read in its place", l.behind.Group, first)
	case l.behind.From < l.behind.Epoch && len(l.behind.Dims) != len(l.window):
		return 0, fmt.Errorf("the lane goes on amid a window of %d groups, but %d were read", len(l.behind.Dims), len(l.window))
	case l.behind.From == l.behind.Epoch:
		return l.behind.Epoch, nil
	}
	return l.behind.From + 1, nil
}

// recalls says whether the lane has to read its own batches before it goes on behind epoch 0.
func (l *Lane) recalls() bool {
	r := l.behind
	return r != nil && l.epoch == 0 && l.window[0].number == r.Group && r.From < r.Epoch && len(r.plans) < len(l.window)*(r.Epoch-r.From)
}

// recalling returns the group and the epoch whose batches are read next.
func (l *Lane) recalling() (group int64, epoch int) {
	n := len(l.behind.plans)
	return l.window[n%len(l.window)].number, l.behind.From + n/len(l.window)
}

// addOwn takes the next of the batches that the lane has emitted before. The last of them lets it go on.
func (l *Lane) addOwn(ctx context.Context, record schemas.Record, emit Emit) error {
	r := l.behind
	group, epoch := l.recalling()
	got := 0
	if r.open.BatchSize > 0 {
		got = r.open.Batches()
	}
	b, ok := record.(*schemas.Batch)
	if !ok || b.Group.Seq != group || int(b.Epoch) != epoch || int(b.Sequence) != got {
		return fmt.Errorf("reading batch %d of epoch %d of group %d of lane %d again: %s is in its place", got, epoch, group, l.lane, name(record))
	}
	r.open.BatchSize = l.options.BatchSize
	for _, s := range b.Samples {
		r.open.Order = append(r.open.Order, s.Position)
	}
	if b.Sequence < b.Batches-1 {
		return nil
	}
	r.plans[[2]int64{group, int64(epoch)}], r.open = r.open, Plan{}
	if l.recalls() {
		return nil
	}
	if ready, err := l.turn(emit); !ready || err != nil {
		return err
	}
	return l.emitEpochs(ctx, emit)
}

// name describes a record for error texts.
func name(record schemas.Record) string {
	if b, ok := record.(*schemas.Batch); ok {
		return fmt.Sprintf("batch %d of epoch %d of group %s", b.Sequence, b.Epoch, b.Group)
	}
	return "a record of " + record.Schema()
}

// recallPlan restores the plan that the features of the previous epoch belong to, if the lane has read it back.
func (l *Lane) recallPlan() error {
	if l.behind == nil {
		return nil
	}
	key := [2]int64{l.window[l.at].number, int64(l.epoch - 1)}
	plan, ok := l.behind.plans[key]
	if !ok {
		return nil
	}
	delete(l.behind.plans, key)
	n := l.members.count()
	if want := l.options.kept(l.epoch-1, n); len(plan.Order) != want || int(slices.Max(plan.Order)) >= n {
		return fmt.Errorf("the batches of epoch %d of group %d, read again, hold %d pairs up to position %d; want %d pairs of the group's %d",
			l.epoch-1, key[0], len(plan.Order), slices.Max(plan.Order), want, n)
	}
	l.plan = plan
	if dim := l.behind.Dims[l.at]; l.epoch-1 == l.behind.From && dim > 0 {
		l.features = newVectors(l.members.count(), dim)
	}
	return nil
}

// begin notes that an epoch of the group in memory begins: all that its plan needs was read.
func (l *Lane) begin() {
	if l.at == 0 {
		l.begun = l.epoch
	}
	if l.options.needsFeatures(l.epoch) {
		l.noteFeatures()
	}
	if l.behind != nil && len(l.behind.plans) == 0 && !l.muted() {
		l.behind = nil
	}
}

// Begun returns the first group of the open window, and the last epoch that has begun there. Without a window ok is
// false.
func (l *Lane) Begun() (group int64, epoch int, ok bool) {
	if len(l.window) == 0 {
		return 0, 0, false
	}
	return l.window[0].number, l.begun, true
}

// noteFeatures keeps how far back the features of the group in memory reach, after those of an epoch were read.
func (l *Lane) noteFeatures() {
	g := &l.window[l.at]
	g.oldest = -1
	for _, epoch := range l.made {
		if epoch >= 0 && (g.oldest < 0 || int(epoch) < g.oldest) {
			g.oldest = int(epoch)
		}
	}
	if l.features != nil {
		g.dim = l.features.dim
	}
}

// setMade notes the epoch of the features of pairs.
func (l *Lane) setMade(positions []int32, epoch int32) {
	if l.made == nil {
		l.made = slices.Repeat([]int32{-1}, l.members.count())
	}
	for _, p := range positions {
		l.made[p] = epoch
	}
}
