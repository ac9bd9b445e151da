package service

import (
	"testing"

	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// The decay begins when every lane has come to its last group, and takes the batches that are left then.
func TestDecayBeginsWithTheLastGroups(t *testing.T) {
	at := startOf([]int{0, 1, 2})
	for k, c := range []struct {
		lane int
		left int64
		want trainer.Decay
	}{
		{0, 0, trainer.Decay{}},
		{1, 3, trainer.Decay{}}, // lane 1 has three batches in all
		{2, 0, trainer.Decay{}}, // lane 2 ends here, without a last group
		{0, 2, trainer.Decay{}},
		{1, 2, trainer.Decay{}}, // noLane knows of lane 2 before its turn
		{0, 1, trainer.Decay{Batch: 1, Of: 2}},
		{1, 1, trainer.Decay{Batch: 2, Of: 2}},
	} {
		at.passOver(c.lane)
		if got := at.pass(c.lane, &schemas.ScoredBatch{Batch: schemas.Batch{Left: c.left}}); got != c.want {
			t.Errorf("batch %d: decay %v, want %v", k, got, c.want)
		}
		at.Turn = (c.lane + 1) % len(at.Lanes)
	}
}
