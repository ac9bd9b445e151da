// Package onlog keeps a producer's ledger on the log: pairs on the topic "pairs", notes of their sources on "sources".
package onlog

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Ledger implements [dataset.Ledger] on the log.
type Ledger struct {
	log       *stream.Log
	publisher *stream.Publisher
}

var _ dataset.Ledger = Ledger{}

// New returns the ledger of a log. A read-only ledger needs no publisher.
func New(log *stream.Log, publisher *stream.Publisher) Ledger { return Ledger{log, publisher} }

// Sources implements [dataset.Ledger].
func (l Ledger) Sources(ctx context.Context) (map[string]dataset.SourceNote, error) {
	notes := make(map[string]dataset.SourceNote)
	err := l.log.Notes(ctx, schemas.Sources, "", func(key string, value []byte) error {
		var n dataset.SourceNote
		err := json.Unmarshal(value, &n)
		notes[key] = n
		return err
	})
	return notes, err
}

// Note implements [dataset.Ledger].
func (l Ledger) Note(ctx context.Context, notes []dataset.SourceNote) error {
	if err := l.publisher.Flush(ctx); err != nil {
		return err
	}
	for _, n := range notes {
		if err := l.publisher.Note(ctx, schemas.Sources, n.URI, n); err != nil {
			return err
		}
	}
	return l.publisher.Flush(ctx)
}

// Publish implements [dataset.Ledger].
func (l Ledger) Publish(ctx context.Context, m dataset.Message) error {
	return l.publisher.PublishBytes(ctx, schemas.Pairs, m.Lane, m.Schema, m.Value)
}

// Ends implements [dataset.Ledger].
func (l Ledger) Ends(ctx context.Context) ([]int64, error) { return l.log.Ends(ctx, schemas.Pairs) }

// Era identifies the content of the topic of pairs: the topic's id, and the first offset that each lane still holds.
type Era struct {
	Topic  string // "" if the brokers give topics no ids
	Starts []int64
}

// Holds reports whether a lane still has the records that it had in another era.
func (e *Era) Holds(lane int, then *Era) bool {
	return e != nil && then != nil && e.Topic == then.Topic && e.Starts[lane] == then.Starts[lane]
}

// Era asks the brokers. It asks for the id last, so that no era combines a topic's id with records of a later topic.
func (l Ledger) Era(ctx context.Context) (*Era, error) {
	starts, err := l.log.Starts(ctx, schemas.Pairs)
	if err != nil {
		return nil, err
	}
	id, err := l.log.TopicID(ctx, schemas.Pairs)
	return &Era{id, starts}, err
}

// Topic implements [dataset.Ledger].
func (l Ledger) Topic(ctx context.Context) (string, error) { return l.log.TopicID(ctx, schemas.Pairs) }

// lanesAtOnce is the number of lanes to read at once.
const lanesAtOnce = 8

// Behind implements [dataset.Ledger].
func (l Ledger) Behind(ctx context.Context, from []int64, each func(value []byte)) error {
	if len(from) != l.log.Config().Lanes {
		return fmt.Errorf("a source was published to %d lanes: LANES=%d wants %d", len(from), l.log.Config().Lanes, len(from))
	}
	var mu sync.Mutex
	return l.eachLane(ctx, func(ctx context.Context, lane int) error {
		for rec, err := range l.log.Records(ctx, schemas.Pairs, lane, stream.Position{Offset: from[lane]}, -1) {
			if err != nil {
				return err
			}
			mu.Lock()
			each(rec.Value)
			mu.Unlock()
		}
		return nil
	})
}

func (l Ledger) eachLane(ctx context.Context, do func(ctx context.Context, lane int) error) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(lanesAtOnce)
	for lane := range l.log.Config().Lanes {
		all.Go(func() error { return do(ctx, lane) })
	}
	return all.Wait()
}

// Ended implements [dataset.Ledger].
func (l Ledger) Ended(ctx context.Context) (map[int]*schemas.Seal, error) {
	ended := make(map[int]*schemas.Seal)
	var mu sync.Mutex
	return ended, l.eachLane(ctx, func(ctx context.Context, lane int) error {
		last, found, err := l.log.LastRecord(ctx, schemas.Pairs, lane)
		if err != nil || !found {
			return err
		}
		if seal, ok := stream.As[*schemas.Seal](last); ok && seal.Final { // other programs may write there too
			mu.Lock()
			ended[lane] = seal
			mu.Unlock()
		}
		return nil
	})
}

// EncoderLag returns the number of pairs that the encoder has not processed.
func EncoderLag(ctx context.Context, log *stream.Log) (lag int64, err error) {
	lanes, err := log.Lag(ctx, "encoder", schemas.Pairs)
	for _, l := range lanes {
		lag += l.End - max(l.Committed, 0)
	}
	return lag, err
}
