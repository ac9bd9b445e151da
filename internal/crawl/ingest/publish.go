package ingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// logError is a fault of the log. The client may send the request again.
type logError struct{ error }

func (e logError) Unwrap() error { return e.error }

func (s *Server) newPublisher() *stream.Publisher {
	return s.o.Log.NewPublisher(stream.PublisherOptions{Name: Name, Counters: s.o.Instruments.Counters()})
}

// current returns the publisher for a new request. A request keeps its publisher, because another one cannot flush its
// messages.
func (s *Server) current() *stream.Publisher {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.publisher
}

// publish publishes a pair in the background, unless it is on the log already. A fault of the pair is noted; an error
// ends the request. A link is the key of the image's URL.
func (r *request) publish(ctx context.Context, index int, in input, link *linkKey) error {
	p, err := in.pair()
	if err != nil {
		r.refuse(index, err, false)
		return nil
	}
	log := r.s.o.Log
	lane := p.ImageID.Lane(log.Config().Lanes)
	one := taken{Index: index, ID: p.ID.String(), ImageID: p.ImageID.String(), Lane: lane, id: p.ID, image: p.ImageID, link: link}
	if one.repeated, err = r.isOnLog(ctx, p.ID, lane); err != nil {
		return err
	}
	if !one.repeated {
		value, err := schemas.Marshal(p)
		if err == nil {
			err = log.Takes(schemas.Pairs, lane, schemas.SchemaPair, value)
		}
		if err != nil {
			r.refuse(index, err, false)
			return nil
		}
		// If the client disconnects now and repeats the request, it finds its pairs on the log.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.s.o.AckTime)
		defer cancel()
		if err := r.publisher.PublishBytes(ctx, schemas.Pairs, lane, schemas.SchemaPair, value); err != nil {
			return r.s.failed(ctx, r.publisher, err)
		}
		r.published++
	}
	r.answer.Pairs = append(r.answer.Pairs, one)
	return nil
}

// isOnLog reports whether a pair is on the log. Every request asks the log for its current bounds.
func (r *request) isOnLog(ctx context.Context, id schemas.PairID, lane int) (bool, error) {
	then := r.s.known.era(id)
	if then == nil {
		return false, nil
	}
	if r.held == nil {
		var err error
		if r.held, err = r.s.gate.eraOf(ctx, 0); err != nil {
			return false, logError{err}
		}
	}
	return r.held.Holds(lane, then), nil
}

// settle waits until the log has acknowledged the published pairs, and remembers them. After a fault of the log, the
// answer has no pairs.
func (r *request) settle(ctx context.Context, err error) error {
	if !errors.As(err, new(logError)) {
		err = r.confirm(context.WithoutCancel(ctx)) // a client that disconnects now finds them there when it repeats the request
	}
	if err != nil {
		if n := r.published; n > 0 {
			r.answer.Error = fmt.Sprintf("%d pairs were sent to the log, which has not acknowledged them: send them again, a pair that is published twice counts once", n)
		}
		r.answer.Pairs = []taken{}
		return err
	}
	now := r.s.gate.now()
	for _, p := range r.answer.Pairs {
		r.s.known.add(p, r.era, now)
	}
	return nil
}

func (r *request) confirm(ctx context.Context) error {
	if r.published > 0 {
		ctx, cancel := context.WithTimeout(ctx, r.s.o.AckTime)
		defer cancel()
		if err := r.publisher.Flush(ctx); err != nil {
			return r.s.failed(ctx, r.publisher, err)
		}
	}
	if r.held == nil {
		return nil
	}
	last, err := r.s.gate.eraOf(ctx, 0)
	if err != nil {
		return logError{err}
	}
	kept := r.answer.Pairs[:0]
	for _, p := range r.answer.Pairs {
		if p.repeated && !last.Holds(p.Lane, r.held) {
			r.refuse(p.Index, errors.New("the log has lost the pair meanwhile: send it again"), true)
			continue
		}
		kept = append(kept, p)
	}
	r.answer.Pairs = kept
	return nil
}

// failed explains a fault. A publisher that has ended is replaced.
func (s *Server) failed(ctx context.Context, publisher *stream.Publisher, err error) error {
	if ctx.Err() != nil {
		return logError{fmt.Errorf("the log has not acknowledged the pairs within %s", s.o.AckTime)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.publisher == publisher {
		s.publisher = s.newPublisher()
		err = errors.Join(err, publisher.Close(ctx))
	}
	return logError{fmt.Errorf("publishing pairs: %w", err)}
}
