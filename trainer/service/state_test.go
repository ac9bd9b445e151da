package service

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/trainer"
)

// After the ranks have met, a rank holds what rank 0 holds behind its last whole step. It takes what it lacks alone.
func TestRanksHoldTheStateOfRank0(t *testing.T) {
	o := ofFour()
	weights := firstWeights(t)
	first := stateOf(t, newCore(t, weights, nil, o))
	core := func(batches int) *trainer.Trainer {
		c := newCore(t, weights, first, o)
		for n := range batches {
			must.Get(c.Step(t.Context(), threeSamples(n), drawn(threeSamples(n))))(t)
		}
		return c
	}
	other := func() *trainer.Trainer { // as many steps, of other batches
		c := newCore(t, weights, first, o)
		for n := range 4 {
			must.Get(c.Step(t.Context(), threeSamples(n+3), drawn(threeSamples(n+3))))(t)
		}
		return c
	}
	for name, c := range map[string]struct {
		rank0, rank1 *trainer.Trainer
		takes        bool
	}{
		"it is new":                          {core(4), nil, true},
		"both have made the step":            {core(4), core(4), false},
		"it has not made the step":           {core(4), core(0), true},
		"rank 0 has not made the step":       {core(0), core(4), true},
		"it holds another state of the step": {core(4), other(), true},
		"it is within the next step":         {core(4), core(6), true}, // its momentum encoder has moved
		"both are within the next step":      {core(6), core(5), false},
	} {
		t.Run(name, func(t *testing.T) {
			group, link := joinTwo(t)
			defer group.Close(nil)
			defer link.Close(nil)
			live := torch.Live()
			taken := make(chan []byte, 1)
			go func() {
				var held stateful
				if c.rank1 != nil {
					held = c.rank1
				}
				state, err := takeState(context.Background(), link, held)
				must.Check(t, err)
				taken <- state
			}()
			n := must.Get(giveState(t.Context(), group, c.rank0))(t)
			state := <-taken
			if took := state != nil; took != c.takes || (n == 1) != c.takes {
				t.Fatalf("rank 1 takes the state: %t, by rank 0 %d ranks; want %t", took, n, c.takes)
			}
			if torch.Live() > live {
				t.Errorf("%d more tensors than before", torch.Live()-live)
			}
			if state == nil {
				state = stateOf(t, c.rank1)
			}
			if !bytes.Equal(state, stateOf(t, c.rank0)) {
				t.Error("rank 1 holds another state than rank 0")
			}
			next := newCore(t, weights, state, o)
			for _, step := range []*trainer.Trainer{next, c.rank0} { // the batches of an open step come again
				for n := range 4 {
					must.Get(step.Step(t.Context(), threeSamples(n), drawn(threeSamples(n))))(t)
				}
			}
			if !bytes.Equal(stateOf(t, next), stateOf(t, c.rank0)) {
				t.Error("the next step differs")
			}
		})
	}
}

// A state that is not the one that was offered is refused.
func TestAnotherStateThanOffered(t *testing.T) {
	group, link := joinTwo(t)
	defer group.Close(nil)
	defer link.Close(nil)
	digest := sha256.Sum256([]byte("a state"))
	raw := must.Get(json.Marshal(offer{Step: 3, Digest: digest[:]}))(t)
	for _, message := range [][]byte{raw, []byte("another state"), nil} {
		must.Do(t, group.TellAll(message))
	}
	if _, err := takeState(t.Context(), link, nil); err == nil || !strings.Contains(err.Error(), "is not the one that it has offered") {
		t.Errorf("%v", err)
	}
}
