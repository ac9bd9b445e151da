package service

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/pairstream/pairstream/internal/ranks"
)

// Whenever the ranks have met, all of them get to hold the state of rank 0: weights, moments, momentum encoder, queue and
// step. Rank 0 offers it by its step and digest. A rank that holds the same keeps it, and any other takes it. So it does not
// matter who was lost, or who has made a step that others have not.

// offer says which state rank 0 holds.
type offer struct {
	Step   int64
	Digest []byte
}

// answer says whether a rank holds it as well.
type answer struct{ Has bool }

// stateful is what the exchange of states needs of a [trainer.Trainer].
type stateful interface {
	Write(ctx context.Context, w io.Writer) error
	Drop(ctx context.Context) error
	Steps() int64
}

// offerOf describes a state.
func offerOf(ctx context.Context, core stateful) (offer, error) {
	h := sha256.New()
	err := core.Write(ctx, h)
	return offer{core.Steps(), h.Sum(nil)}, err
}

// giveState has all ranks hold the state of rank 0, behind its last whole step. It returns how many took it.
func giveState(ctx context.Context, group *ranks.Leader, core stateful) (taken int, err error) {
	if err := core.Drop(ctx); err != nil {
		return 0, err
	}
	own, err := offerOf(ctx, core)
	if err != nil {
		return 0, err
	}
	raw, err := json.Marshal(own)
	if err == nil {
		err = group.TellAll(raw)
	}
	if err != nil {
		return 0, err
	}
	to := broadcast{group: group}
	for rank := 1; rank < group.World(); rank++ {
		var a answer
		if raw, err = group.Hear(ctx, rank); err == nil {
			err = json.Unmarshal(raw, &a)
		}
		if err != nil {
			return 0, fmt.Errorf("hearing what rank %d holds: %w", rank, err)
		}
		if !a.Has {
			to.ranks = append(to.ranks, rank)
		}
	}
	if len(to.ranks) == 0 {
		return 0, nil
	}
	out := bufio.NewWriterSize(to, stateBytes)
	if err = core.Write(ctx, out); err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = to.tell(nil)
	}
	return len(to.ranks), err
}

// takeState returns the state of rank 0; nil: this rank holds it. core is what the rank holds; nil: nothing.
func takeState(ctx context.Context, link *ranks.Member, core stateful) (state []byte, err error) {
	raw, err := link.Hear(ctx)
	if err != nil {
		return nil, err
	}
	var there offer
	if err := json.Unmarshal(raw, &there); err != nil {
		return nil, fmt.Errorf("reading which state rank 0 holds: %w", err)
	}
	var a answer
	if core != nil && core.Steps() == there.Step {
		if err := core.Drop(ctx); err != nil {
			return nil, err
		}
		own, err := offerOf(ctx, core)
		if err != nil {
			return nil, err
		}
		a.Has = bytes.Equal(own.Digest, there.Digest)
	}
	if raw, err = json.Marshal(a); err == nil {
		err = link.Tell(raw)
	}
	if err != nil || a.Has {
		return nil, err
	}
	if state, err = hearState(ctx, link); err != nil {
		return nil, err
	}
	if digest := sha256.Sum256(state); !bytes.Equal(digest[:], there.Digest) {
		return nil, errors.New("the state that rank 0 has sent is not the one that it has offered: start this rank again")
	}
	return state, nil
}

// stateBytes is the size of the messages in which the state travels. An empty one ends it.
const stateBytes = 4 << 20

// broadcast sends what is written to some ranks.
type broadcast struct {
	group *ranks.Leader
	ranks []int
}

// Write implements io.Writer.
func (b broadcast) Write(data []byte) (int, error) {
	for at := 0; at < len(data); at += stateBytes {
		if err := b.tell(data[at:min(at+stateBytes, len(data))]); err != nil {
			return 0, err
		}
	}
	return len(data), nil
}

func (b broadcast) tell(message []byte) error {
	for _, rank := range b.ranks {
		if err := b.group.Tell(rank, message); err != nil {
			return err
		}
	}
	return nil
}

// hearState returns what a broadcast has sent.
func hearState(ctx context.Context, m *ranks.Member) ([]byte, error) {
	var state []byte
	for {
		part, err := m.Hear(ctx)
		if err != nil {
			return nil, err
		}
		if len(part) == 0 {
			return state, nil
		}
		state = append(state, part...)
	}
}

var _ io.Writer = broadcast{}
