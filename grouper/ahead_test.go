package grouper

import (
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestAnEpochIsPlannedWhileTheOneBeforeIsTrainedOn counts the pairs that are walked between an epoch's last features
// and the first batch of the next: those of the last queue. All others were walked when their features came.
func TestAnEpochIsPlannedWhileTheOneBeforeIsTrainedOn(t *testing.T) {
	const pairs = 3*64 + 20
	for name, change := range map[string]func(*Options){
		"by group": func(*Options) {},
		"by lane":  func(o *Options) { o.EpochOrder, o.EpochGroups = OrderLane, 2 },
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(StrategyGRIT)
			change(&o)
			l := newLog()
			l.addGroup(0, pairs, 2)
			l.addGroup(1, pairs, 2).Final = true
			lane, walked, before := newTestLane(t, o), 0, 0
			lane.OnWalk(func(n int) { walked += n })
			for epochs := 0; ; {
				topic := lane.Needs()
				if l.next[topic] == len(l.records[topic]) {
					if epochs != 2*(o.Epochs-1) || walked != 2*o.Epochs*pairs {
						t.Errorf("%d epochs after the first and %d pairs walked", epochs, walked)
					}
					return
				}
				before = walked
				l.next[topic]++
				must.Do(t, lane.Add(t.Context(), l.input(topic, l.next[topic]-1), func(r schemas.Record) error {
					b := r.(*schemas.Batch)
					if b.Epoch > 0 && b.Sequence == 0 {
						epochs++
						if n := walked - before; n != pairs%64 {
							t.Errorf("epoch %d of group %s waits for %d pairs to be walked, want %d", b.Epoch, b.Group, n, pairs%64)
						}
					}
					l.add(schemas.Features, train(b))
					return nil
				}))
			}
		})
	}
}
