package ingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// logError is a fault of the log. A client sends the request again.
type logError struct{ error }

func (e logError) Unwrap() error { return e.error }

// refusal is the reason why one pair cannot be published.
type refusal struct{ error }

func (s *Server) newPublisher() *stream.Publisher {
	return s.o.Log.NewPublisher(stream.PublisherOptions{Name: Name, Counters: s.o.Instruments.Counters()})
}

// current returns the publisher for a new request. A request stays with it: what one publisher has queued, another one cannot
// flush.
func (s *Server) current() *stream.Publisher {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.publisher
}

// queue publishes a pair in the background, unless it is on the log already.
func (r *request) queue(ctx context.Context, p *schemas.Pair) (lane int, repeated bool, err error) {
	log := r.s.o.Log
	lane = p.ImageID.Lane(log.Config().Lanes)
	if r.s.isKnown(p.ID) {
		return lane, true, nil
	}
	value, err := schemas.Marshal(p)
	if err == nil {
		err = log.Takes(schemas.Pairs, lane, schemas.SchemaPair, value)
	}
	if err != nil {
		return 0, false, refusal{err}
	}
	ctx, cancel := context.WithTimeout(ctx, r.s.o.AckTime)
	defer cancel()
	if err := r.publisher.PublishBytes(ctx, schemas.Pairs, lane, schemas.SchemaPair, value); err != nil {
		return 0, false, r.s.failed(ctx, r.publisher, err)
	}
	return lane, false, nil
}

// flush waits until all that was published is acknowledged.
func (r *request) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.s.o.AckTime)
	defer cancel()
	if err := r.publisher.Flush(ctx); err != nil {
		return r.s.failed(ctx, r.publisher, err)
	}
	return nil
}

// failed explains a fault. A publisher that has ended gets a successor.
func (s *Server) failed(ctx context.Context, publisher *stream.Publisher, err error) error {
	if ctx.Err() != nil {
		return logError{fmt.Errorf("the log has not acknowledged the pairs within %s: send them again, a pair that is published twice counts once", s.o.AckTime)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.publisher == publisher {
		s.publisher = s.newPublisher()
		err = errors.Join(err, publisher.Close(ctx))
	}
	return logError{fmt.Errorf("publishing pairs: %w", err)}
}

// newKnown makes the memory of the pairs that were acknowledged last.
func newKnown() (*simplelru.LRU[schemas.PairID, struct{}], error) {
	return simplelru.NewLRU[schemas.PairID, struct{}](mostKnown, nil)
}

func (s *Server) isKnown(id schemas.PairID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.Contains(id)
}

// acknowledged remembers pairs that are on the log.
func (s *Server) acknowledged(pairs []taken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range pairs {
		s.known.Add(p.id, struct{}{})
	}
}
