// Package decision lets all owners of a lane go on alike where something is chance, such as what people have said until
// now. Its lane notes it in the topic "control" before it uses it:
//
//  1. The first note of a place counts. Whoever needs it writes a note, waits for its ack, reads the notes again and takes
//     what counts. So all owners of a lane go on alike, also one that was paused and is not the owner any more.
//  2. Notes are never replaced: each has a key of its own, and compaction keeps them all.
//  3. A note has all that is needed. So a replay begins with the notes of the original, and comes to the same records.
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

// Kind is a kind of notes: each is an N, encoded as JSON, about a place.
type Kind[P comparable, N any] struct {
	Prefix  string           // begins their keys; something that nobody else has follows
	About   string           // names them in errors, such as "notes about judgements"
	Place   func(N) P        // what a note is about
	Compare func(a, b P) int // orders places
}

// Read returns what counts at every place of a log.
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

// List returns what counts, in the order of places.
func (k Kind[P, N]) List(counts map[P]N) []N {
	return slices.SortedFunc(maps.Values(counts), func(a, b N) int { return k.Compare(k.Place(a), k.Place(b)) })
}

// Take returns what counts at a place. Where nothing does, it notes what propose returns, which must be of that place.
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

// Note writes notes, and returns when the log has them. Those of places that have one already change nothing.
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

// Repeat notes what counted in another log, in the order of places. It calls differs where something else counts
// already.
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
