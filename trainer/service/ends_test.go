package service

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// putLast writes batches of a lane's last group, and its end.
func putLast(t *testing.T, log *stream.Log, lane, batches int) {
	t.Helper()
	p := log.NewPublisher(stream.PublisherOptions{})
	for n := range batches + 1 {
		var rec schemas.Record = &schemas.Seal{Final: true}
		if n < batches {
			b := testBatch(lane, n)
			b.Left = int64(batches - n)
			rec = b
		}
		must.Do(t, p.PublishSeq(t.Context(), schemas.Scored, lane, int64(n), stream.Mark{}, rec))
	}
	must.Do(t, p.Close(t.Context()))
}

// A lane that never had a pair is sealed while the others are in their last groups. The decay of the learning rate
// begins then, and ends with the last batch. It is the same when steps are repeated after crashes, and in a replay.
func TestDecayWithAnEmptyLane(t *testing.T) {
	open := testLogs(t)
	const steps = 2 * testBatches
	decayed := make(map[LaneOrder]int)
	for _, order := range []LaneOrder{Rotation, Arrival} {
		for dieAt, died := 0, true; died; dieAt += 3 {
			name := fmt.Sprintf("%s, point %d", order, dieAt)
			log, dir, d := open(fmt.Sprint(order, dieAt)), t.TempDir(), new(disk)
			putLast(t, log, 0, testBatches)
			putLast(t, log, 2, testBatches)
			seal := sync.OnceFunc(func() { putLast(t, log, 1, 0) })
			if order == Rotation { // which waits for the lane
				seal()
			}
			decays := make(map[int64]trainer.Decay)
			note := func(step int64, now trainer.Decay) {
				if was, ok := decays[step]; ok && was != now {
					t.Errorf("%s: at step %d the decay was %v, and is %v when it is repeated", name, step, was, now)
				}
				decays[step] = now
			}
			_, err := live(t, log, d, dir, life{order: order, dieAt: dieAt, decay: note, seen: func(n int) {
				if n == 2 {
					seal()
				}
			}})
			seal()
			died = errors.Is(err, errCrash)
			for _, next := range []int{dieAt, -1} {
				if errors.Is(err, errCrash) {
					_, err = live(t, log, d, dir, life{order: order, dieAt: next, decay: note})
				}
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			noted := must.Get(readEnds(t.Context(), log))(t)
			from, ok := noted[1]
			if ok || order == Rotation {
				decayed[order]++
				if last := decays[steps-1]; last.Of > steps-from || last.Of == 0 || last.Batch != last.Of { // lane 2 may come later
					t.Errorf("%s: the decay ends with %v, want its last batch, of those from step %d on at most", name, last, from)
				}
			} else if last := decays[steps-1]; last.Of != 0 { // the seal was read when nothing was left
				t.Errorf("%s: the decay ends with %v, and noLane knows of an end", name, last)
			}

			again, dir, e := open(fmt.Sprint("again", order, dieAt)), t.TempDir(), new(disk)
			putLast(t, again, 0, testBatches)
			putLast(t, again, 1, 0)
			putLast(t, again, 2, testBatches)
			if order == Arrival {
				must.Get(CopyOrder(t.Context(), log, again, dir))(t)
			}
			name += ", replayed"
			must.Get(live(t, again, e, dir, life{order: order, dieAt: -1, decay: note}))(t)
			if e.state != d.state {
				t.Errorf("%s: other weights", name)
			}
		}
	}
	if decayed[Rotation] == 0 || decayed[Arrival] == 0 {
		t.Errorf("decays by order: %v, want some of each", decayed)
	}
}
