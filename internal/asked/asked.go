// Package asked records which closed groups a group asks for neighbours, where it may ask those of all lanes.
//
// Which groups of other lanes are closed when a group closes is chance. So its lane notes in the log which ones it asks,
// before it asks them, as the discriminator does with people's judgements (package internal/judged):
//
//  1. A place is a group. The first note of a place counts. Whoever wants to ask writes a note, waits for its ack, reads the
//     notes again and asks what counts. So all owners of a lane go on alike, also one that was paused and is not the owner
//     any more.
//  2. Notes are never replaced: each has a key of its own, and compaction keeps them all.
//  3. A note names segments with their digests. A replay begins with the notes of the original, and waits for the same
//     segments. A group asks only what was complete when it was noted, so no two groups wait for one another.
package asked

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/segment/store"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Place is a group that asks others.
type Place struct {
	Lane  int   `json:"lane"`
	Group int64 `json:"group"`
}

// Choice says which segments a group asks, in their order.
type Choice struct {
	Place
	Segments []store.Name `json:"segments"`
}

// Equal reports whether two choices are the same.
func (c Choice) Equal(d Choice) bool {
	return c.Place == d.Place && slices.Equal(c.Segments, d.Segments)
}

// prefix begins the keys of the notes. Something that nobody else has follows.
const prefix = "segments/asked/"

// Notes are the notes of a log, as they were when it was read.
type Notes struct{ choices map[Place]Choice }

// Read reads the notes of a log.
func Read(ctx context.Context, log *stream.Log) (*Notes, error) {
	n := &Notes{choices: make(map[Place]Choice)}
	for rec, err := range log.Records(ctx, schemas.Control, 0, stream.Position{}, -1) {
		if err == nil && strings.HasPrefix(rec.Key(), prefix) {
			var c Choice
			if err = json.Unmarshal(rec.Value, &c); err == nil {
				if _, there := n.choices[c.Place]; !there {
					n.choices[c.Place] = c
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("reading the notes about groups that ask others: %w", err)
		}
	}
	return n, nil
}

// At returns what the group at a place asks.
func (n *Notes) At(p Place) (Choice, bool) {
	c, ok := n.choices[p]
	return c, ok
}

// All returns what every group asks, by place.
func (n *Notes) All() []Choice {
	var all []Choice
	for _, c := range n.choices {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Choice) int { return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Group, b.Group)) })
	return all
}

// Take returns what the group at a place asks. Where that is not noted yet, it notes what choose returns.
func Take(ctx context.Context, log *stream.Log, p Place, choose func(context.Context) ([]store.Name, error)) ([]store.Name, error) {
	for {
		n, err := Read(ctx, log)
		if err != nil {
			return nil, err
		}
		if c, ok := n.At(p); ok {
			return c.Segments, nil
		}
		names, err := choose(ctx)
		if err != nil {
			return nil, err
		}
		if err := Note(ctx, log, Choice{p, names}); err != nil {
			return nil, err
		}
	}
}

// Note notes choices. Those of places that have one already change nothing.
func Note(ctx context.Context, log *stream.Log, choices ...Choice) (err error) {
	p := log.NewPublisher(stream.PublisherOptions{Name: "control"})
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	for _, c := range choices {
		if err := p.Note(ctx, schemas.Control, prefix+rand.Text(), c); err != nil {
			return fmt.Errorf("noting which groups are asked: %w", err)
		}
	}
	return nil
}
