package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// rejoin looks after a generation that gave this process no lane. It returns, which ends the generation, when some lanes
// have no owner at all: whoever shared them out did not see their topic, as it was being made. Spare processes stay.
func (r *run) rejoin(generation context.Context) {
	tick := time.NewTicker(r.log.topicsEvery)
	defer tick.Stop()
	for {
		select {
		case <-generation.Done():
			return
		case <-tick.C:
		}
		if r.ctx.Err() != nil { // the group is being left
			<-generation.Done()
			return
		}
		left, err := r.log.unowned(r.ctx, r.spec.Name, r.spec.Inputs[0])
		switch {
		case err != nil:
			r.log.logger.Warn("asking for lanes without an owner", keyStage, r.spec.Name, keyErr, err)
		case left > 0:
			r.log.logger.Warn("some lanes have no owner; sharing them out anew", keyStage, r.spec.Name, keyLanes, left)
			return
		}
	}
}

// unowned returns how many lanes of a stage's input no member of its group has. It is 0 while members join.
func (l *Log) unowned(ctx context.Context, stage string, input schemas.Topic) (int, error) {
	ctx, cancel := l.request(ctx)
	defer cancel()
	found, err := l.client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{l.cfg.GroupID(stage)}})
	if err != nil {
		return 0, err
	}
	owned := 0
	for _, g := range found.Groups {
		if g.Error != nil {
			return 0, fmt.Errorf("looking at group %s: %w", g.GroupID, g.Error)
		}
		if g.GroupState != "Stable" {
			return 0, nil
		}
		for _, m := range g.Members {
			for _, t := range m.MemberAssignments.Topics {
				if t.Topic == l.name(input) {
					owned += len(t.Partitions)
				}
			}
		}
	}
	return l.cfg.Lanes - owned, nil
}
