package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
)

// noModel stands in scored batches for the fingerprint of Con-D where none was asked.
const noModel = "none"

// without is the stage where CANDIDATES is 0: batches have no candidates, and no Con-D is loaded. It keeps the state of
// the lane, so that a Con-D that comes later goes on where the last one stopped.
type without struct {
	state       []byte
	instruments *service.Instruments
}

// Input implements [stream.Stage].
func (s *without) Input() schemas.Topic { return schemas.Batches }

// Process implements [stream.Stage].
func (s *without) Process(_ context.Context, rec stream.Record, out stream.Output) error {
	value, err := schemas.Unmarshal(rec.Schema, rec.Value)
	if err != nil {
		return stream.Poison(err)
	}
	switch r := value.(type) {
	case *schemas.Batch:
		if r.M > 0 {
			return fmt.Errorf("batch %d of epoch %d, group %s, has %d candidates for each pair and no Con-D is loaded, as CANDIDATES is 0: give the discriminator the grouper's CANDIDATES, and COND_CHECKPOINT",
				r.Sequence, r.Epoch, r.Group, r.M)
		}
		s.instruments.PairsIn(len(r.Samples))
		s.instruments.PairsOut(len(r.Samples))
		return out.Emit(schemas.Scored, &schemas.ScoredBatch{Batch: *r, Model: noModel}, out.After(rec, s.state))
	case *schemas.Seal:
		return out.Emit(schemas.Scored, r, out.After(rec, s.state))
	}
	return stream.Poison(errors.New("foreign record: " + rec.Schema + " does not belong on this topic"))
}

// Flush implements [stream.Stage]; nothing is held back.
func (s *without) Flush(context.Context, stream.Output) error { return nil }
