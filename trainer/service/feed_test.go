package service

import (
	"context"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// Without connections the negatives come from the whole mini-batch, whatever was scored.
func TestTheWholeBatchWithoutConnections(t *testing.T) {
	metrics := testMetrics(t)
	for want, environ := range map[bool]map[string]string{
		true:  {"ECM_LOSSES": "none"},
		false: {"ECM_LOSSES": "itm"},
	} {
		s, err := parse(environ)
		if err != nil || s.wholeBatch() != want {
			t.Fatalf("%v: the whole batch: %t, %v", environ, s.wholeBatch(), err)
		}
		f := &feed{
			at: startOf([]int{0}), metrics: metrics, order: Rotation, wholeBatch: s.wholeBatch(),
			load: func(_ context.Context, b *schemas.ScoredBatch, _ []schemas.Mask) (trainer.Input, error) {
				return trainer.Input{}, b.Validate()
			},
		}
		f.follow(testLogs(t)("exp"), nil, stream.FollowSpec{})
		b := testBatch(0, 0)
		b.M, b.I2T, b.T2I, b.ProbI2T, b.ProbT2I = 1, schemas.Int32s{-1}, schemas.Int32s{-1}, schemas.Floats32{0}, schemas.Floats32{0}
		w, err := f.take(t.Context(), 0, &arrived{batch: b, rec: stream.Record{}})
		if err == nil {
			err = w.load(t.Context())
		}
		if err != nil || (w.batch.M == 0) != want {
			t.Errorf("%v: %d candidates, %v", environ, w.batch.M, err)
		}
	}
}
