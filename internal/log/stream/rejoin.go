package stream

import (
	"context"
	"time"
)

// rejoin watches during a generation that gave this process no lane. It returns, which ends the generation, when some
// lanes have no owner at all. This happens when the member that assigned the lanes did not see a topic that was being
// created. Otherwise spare processes stay.
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
		left, err := r.log.Unowned(r.ctx, r.spec.Name, r.spec.Inputs[0])
		switch {
		case err != nil:
			r.log.logger.Warn("asking for lanes without an owner", keyStage, r.spec.Name, keyErr, err)
		case left > 0:
			r.log.logger.Warn("some lanes have no owner; rebalancing", keyStage, r.spec.Name, keyLanes, left)
			return
		}
	}
}
