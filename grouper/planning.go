package grouper

import "context"

// OnWalk makes the lane call walked after each walk of GRIT with the number of its pairs, from several goroutines. It
// changes no record.
func (l *Lane) OnWalk(walked func(pairs int)) { l.walked = walked }

// makePlan orders the pairs of the present epoch.
func (l *Lane) makePlan(ctx context.Context, key Key) (Plan, error) {
	in := l.planInput(key)
	l.ahead, l.chosen = nil, Chosen{}
	return strategies[l.options.Strategy].plan(ctx, in)
}

// planAhead lets the strategy use the features that have come of the epoch before, beside the training of that epoch.
func (l *Lane) planAhead(ctx context.Context) (err error) {
	s, ok := strategies[l.options.Strategy].(advancing)
	if !ok || l.muted() {
		return nil
	}
	in := l.planInput(Key{l.options.Seed, l.members.manifest.Group, l.epoch})
	arrived := min(l.block*l.options.BatchSize, len(l.plan.Order))
	l.ahead, err = s.advance(ctx, in, arrived)
	return err
}

func (l *Lane) planInput(key Key) planInput {
	in := planInput{
		options: l.options, key: key, image: l.members.image, cluster: l.members.cluster,
		before: l.plan, ahead: l.ahead, walked: l.walked,
		similar: l.members.se, k1: int(l.members.manifest.K1), planner: l.planner, chosen: &l.chosen,
	}
	if l.features != nil {
		in.features = l.features
	}
	if l.members.vectors != nil {
		in.encoder = l.members.vectors
	}
	if l.options.SameImage {
		in.image = ascending(l.members.count())
	}
	return in
}
