package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/model/ranks"
)

// Overlap is a step of some ranks whose gradient leaves behind the backward pass, or run by run beside it.
type Overlap struct {
	Ranks     int     `json:"ranks"`
	Backward  float64 `json:"backward"` // seconds of the backward pass
	Beside    bool    `json:"beside"`
	Predicted float64 `json:"predicted"` // seconds of backward pass and exchange
	Seconds   float64 `json:"seconds"`   // measured, as [Exchange] is
}

// passRuns is the number of runs in which a gradient leaves, as with a trainer.
const passRuns = 16

// overlap measures steps in which ranks sleep in place of a backward pass, of half, of all and of twice the time of
// their exchange.
func overlap(ctx context.Context, s sizes) (any, error) {
	if err := newNetwork(1).try(ctx); err != nil {
		return nil, fmt.Errorf("%w: it makes network namespaces, which needs root and iproute2: %w", errNotHere, err)
	}
	const world = 4
	var out []Overlap
	for _, share := range []float64{0.5, 1, 2} {
		for _, beside := range []bool{false, true} {
			o, err := overlapOf(ctx, pass{world, share * predicted(world, 0).Predicted, beside})
			if err != nil {
				return nil, fmt.Errorf("%+v: %w", o, err)
			}
			s.say("overlap: %d ranks, a backward pass of %.3f s, runs beside it: %t: %.3f s (%.3f s predicted)", o.Ranks, o.Backward, o.Beside, o.Seconds, o.Predicted)
			out = append(out, o)
		}
	}
	return out, nil
}

func overlapOf(ctx context.Context, p pass) (Overlap, error) {
	reports, err := inNetwork(ctx, p.World, 0, p)
	o := Overlap{Ranks: p.World, Backward: p.Backward, Beside: p.Beside, Predicted: p.predicted()}
	for _, r := range reports {
		o.Seconds = max(o.Seconds, r.median())
	}
	return o, err
}

// pass says how a rank makes its steps. The zero value has no backward pass.
type pass struct {
	World    int
	Backward float64 // seconds
	Beside   bool    // runs leave beside it
}

// predicted returns the seconds of backward pass and exchange: a run leaves when it is there and the one before has
// come back.
func (p pass) predicted() float64 {
	exchange := predicted(p.World, 0).Predicted
	if !p.Beside {
		return p.Backward + exchange
	}
	at := 0.0
	for run := range passRuns {
		at = max(at, p.Backward*float64(run+1)/passRuns) + exchange/passRuns
	}
	return at
}

// step makes a step.
func (p pass) step(ctx context.Context, own []float32, sum func(ranks.Part) (ranks.Part, error)) error {
	if !p.Beside {
		if err := pause(ctx, p.Backward); err != nil {
			return err
		}
		_, err := sum(ranks.Part{Vectors: [][]float32{own}})
		return err
	}
	given := make(chan []float32, passRuns)
	var adding errgroup.Group
	adding.Go(func() error {
		for run := range given {
			if _, err := sum(ranks.Part{Vectors: [][]float32{run}}); err != nil {
				return err
			}
		}
		return nil
	})
	for run := range passRuns {
		if err := pause(ctx, p.Backward/passRuns); err != nil {
			close(given)
			return errors.Join(err, adding.Wait())
		}
		given <- own[len(own)*run/passRuns : len(own)*(run+1)/passRuns]
	}
	close(given)
	return adding.Wait()
}

// pause takes the time of a backward pass.
func pause(ctx context.Context, seconds float64) error {
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beRank makes the steps of a rank, and reports them.
func beRank(ctx context.Context, which string, out io.Writer) (err error) {
	var seat struct {
		Rank int
		Pass pass
	}
	if err := json.Unmarshal([]byte(which), &seat); err != nil {
		return err
	}
	sum, end, leave, err := join(ctx, seat.Rank, seat.Pass.World)
	if err != nil {
		return err
	}
	defer func() { leave(err) }()
	r, err := stepsOf(ctx, seat.Pass, sum)
	if err == nil {
		err = end()
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}
