package grouper

import "context"

// OnWalk has a function called with the number of pairs after each walk, by several goroutines. It changes no record.
func (l *Lane) OnWalk(walked func(pairs int)) { l.walked = walked }

// planGRIT plans the present epoch, and keeps the queues that were planned ahead.
func (l *Lane) planGRIT(ctx context.Context, key Key) (Plan, error) {
	g := l.ahead
	l.ahead = nil
	if g == nil {
		g = l.newGRIT(key)
	}
	if err := g.group(ctx, l.collecting(key)[len(g.grouped):], l.features, l.apart()); err != nil {
		return Plan{}, err
	}
	return g.plan(), nil
}

func (l *Lane) newGRIT(key Key) *gritPlan {
	o := l.options
	rule := GRITRule{o.BatchSize, o.QueueSize, o.SearchSpace, o.StartAsReleased, o.Workers}
	draws := key.Draws()
	if o.Features == SourceUnshuffled {
		draws = unshuffled{draws}
	}
	g := newGRITPlan(l.members.count(), rule, draws)
	g.walked = l.walked
	return g
}

// collecting returns the order in which pairs come into queues: the training order of the epoch before, or a random
// one.
func (l *Lane) collecting(key Key) []int32 {
	if l.epoch == 0 || !l.options.CollectsInTraining() {
		return permutation(l.members.count(), key.generator("collecting order"))
	}
	return l.plan.Order
}

// planAhead groups the queues of the present epoch whose features have all come. Queues fill in training order, so this
// goes on beside the training of the epoch before. Only the last queue is left when that has ended.
func (l *Lane) planAhead(ctx context.Context) error {
	o := l.options
	if !o.CollectsInTraining() || o.QueueSize == 0 || l.muted() {
		return nil
	}
	key := Key{o.Seed, l.members.manifest.Group, l.epoch}
	if l.ahead == nil {
		l.ahead = l.newGRIT(key)
	}
	from, full := len(l.ahead.grouped), l.block*o.BatchSize/o.QueueSize*o.QueueSize
	if full == from {
		return nil
	}
	return l.ahead.group(ctx, l.plan.Order[from:full], l.features, l.apart())
}
