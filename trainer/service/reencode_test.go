package service

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// The steps of an epoch whose features are made anew publish none. Its place is kept until all of them are made.
func TestAnEpochThatIsEncodedAgain(t *testing.T) {
	lane := lanePosition{Scored: stream.Position{Offset: 7, Seq: 5}, Features: 20}
	at := positions{Lanes: []lanePosition{{}, lane}}
	batch := func(n int32) *schemas.ScoredBatch {
		return &schemas.ScoredBatch{Batch: schemas.Batch{Sequence: n, Batches: 3, Again: true}}
	}
	for n := range int32(3) {
		if at.encoding() != noLane {
			t.Errorf("before batch %d features are due", n)
		}
		l := &at.Lanes[1]
		seq, err := l.begin(batch(n), Rotation)
		if err != nil || seq != 20+int64(n) || l.Features != 20 || l.Epoch == nil || *l.Epoch != lane.Scored {
			t.Errorf("batch %d has seq %d, position %+v, %v", n, seq, *l, err)
		}
		l.Scored.Offset++
	}
	if at.encoding() != 1 || at.Lanes[1].Again != 3 {
		t.Errorf("lane %d has features due: %+v", at.encoding(), at.Lanes)
	}
	if _, err := new(lanePosition).begin(batch(1), Rotation); err == nil || !strings.Contains(err.Error(), "want TRAIN_FROM=start or the checkpoint") {
		t.Errorf("within an epoch: %v", err)
	}
	if _, err := new(lanePosition).begin(batch(0), Arrival); err == nil || !strings.Contains(err.Error(), "needs TRAIN_LANE_ORDER=rotation") {
		t.Errorf("in the order of arrival: %v", err)
	}
}
