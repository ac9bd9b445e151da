// Package decision lets all owners of a lane continue in the same way where something is chance, such as the judgements
// that people have made so far. The lane notes the decision in the topic "control" before it uses it:
//
//  1. The first note of a key counts. An owner that needs a decision writes a note, waits for its ack, reads the
//     notes again and takes the one that counts. So all owners of a lane agree, even one that was paused and has lost
//     the lane.
//  2. Notes are never replaced: each has a unique key, and compaction keeps them all.
//  3. A note is complete. So a replay starts with the original's notes, and makes the same records.
package decision

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Kind is a kind of notes: each is an N, encoded as JSON, and decides for one P.
type Kind[P comparable, N any] struct {
	Prefix  string           // begins their keys; a unique suffix follows
	About   string           // names them in errors, such as "notes about judgements"
	Place   func(N) P        // the subject of a note
	Compare func(a, b P) int // orders subjects
}

// Read returns the deciding note of every subject in a log.
func (k Kind[P, N]) Read(ctx context.Context, log *stream.Log) (map[P]N, error) {
	counts := make(map[P]N)
	for rec, err := range log.Records(ctx, schemas.Control, 0, stream.Position{}, -1) {
		if err == nil && strings.HasPrefix(string(rec.Key), k.Prefix) {
			var n N
			if err = json.Unmarshal(rec.Value, &n); err == nil {
				if _, there := counts[k.Place(n)]; !there {
					counts[k.Place(n)] = n
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("reading the %s: %w", k.About, err)
		}
	}
	return counts, nil
}

// List returns the deciding notes, ordered by subject.
func (k Kind[P, N]) List(counts map[P]N) []N {
	return slices.SortedFunc(maps.Values(counts), func(a, b N) int { return k.Compare(k.Place(a), k.Place(b)) })
}

// Take returns the deciding note of a subject. If there is none, it notes the result of propose, which must be for that
// subject.
func (k Kind[P, N]) Take(ctx context.Context, log *stream.Log, place P, propose func(context.Context) (N, error)) (none N, err error) {
	for {
		counts, err := k.Read(ctx, log)
		if err != nil {
			return none, err
		}
		if n, ok := counts[place]; ok {
			return n, nil
		}
		n, err := propose(ctx)
		if err != nil {
			return none, err
		}
		if err := k.Note(ctx, log, n); err != nil {
			return none, err
		}
	}
}

// Note writes notes, and returns when the log has them. Notes of decided subjects change nothing.
func (k Kind[P, N]) Note(ctx context.Context, log *stream.Log, notes ...N) error {
	if err := Write(ctx, log, k.Prefix, notes...); err != nil {
		return fmt.Errorf("writing the %s: %w", k.About, err)
	}
	return nil
}

// Write writes notes whose keys begin with a prefix, and returns when the log has them.
func Write[N any](ctx context.Context, log *stream.Log, prefix string, notes ...N) (err error) {
	p := log.NewPublisher(stream.PublisherOptions{Name: "control"})
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	for _, n := range notes {
		if err := p.Note(ctx, schemas.Control, prefix+rand.Text(), n); err != nil {
			return err
		}
	}
	return nil
}

// Repeat notes the decisions of another log, ordered by subject. It calls differs for subjects that are already decided
// in another way.
func (k Kind[P, N]) Repeat(ctx context.Context, log *stream.Log, counted []N, differs func(got, want N) error) error {
	if len(counted) == 0 {
		return nil
	}
	noted, err := k.Read(ctx, log)
	if err != nil {
		return err
	}
	var missing []N
	for _, n := range counted {
		if got, there := noted[k.Place(n)]; !there {
			missing = append(missing, n)
		} else if err := differs(got, n); err != nil {
			return err
		}
	}
	return k.Note(ctx, log, missing...)
}
