package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pairstream/pairstream/internal/console/index"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// stop is a place of a pair's journey: when a record with it was written.
type stop struct {
	What  string
	Time  time.Time
	After string // since the stop before
}

// place is where a record with the pair lies. input names the topic whose record it was made of, when that is a stop as
// well.
type place struct {
	what   string
	topic  schemas.Topic
	offset int64
	input  schemas.Topic
	before string // what the input's stop is called
}

// journey tells when the pair came through the stages: up to its group, and in its first and its latest epoch.
func (s *Server) journey(ctx context.Context, v *pairView) ([]stop, error) {
	places := []place{{"embedded", schemas.Embeddings, v.Offset, schemas.Pairs, "published"}}
	if v.Group != nil && v.Group.Offset >= 0 {
		places = append(places, place{what: "its group was closed", topic: schemas.Groups, offset: v.Group.Offset})
	}
	for i, e := range v.Epochs { // the latest one is the first
		if i == 0 || i == len(v.Epochs)-1 {
			places = append(places, ofEpoch(e.Batch)...)
		}
	}
	found := make([][]stop, len(places))
	err := parallel(ctx, len(places), func(ctx context.Context, i int) (err error) {
		found[i], err = s.stops(ctx, v.Lane, places[i])
		return err
	})
	stops := slices.Concat(found...)
	slices.SortStableFunc(stops, func(a, b stop) int { return a.Time.Compare(b.Time) })
	for i := range stops {
		if i > 0 {
			stops[i].After = stops[i].Time.Sub(stops[i-1].Time).Round(time.Millisecond).String()
		}
	}
	return stops, err
}

func ofEpoch(b index.Batch) []place {
	list := []place{{fmt.Sprintf("scored by Con-D, epoch %d", b.Epoch), schemas.Scored, b.Offset, schemas.Batches, fmt.Sprintf("put into a mini-batch, epoch %d", b.Epoch)}}
	if b.Features >= 0 {
		list = append(list, place{what: fmt.Sprintf("trained on, epoch %d", b.Epoch), topic: schemas.Features, offset: b.Features})
	}
	return list
}

// stops reads the time of a record, and that of its input. An input that retention has removed is left out.
func (s *Server) stops(ctx context.Context, lane int, p place) ([]stop, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	rec, err := s.o.Log.RecordAt(ctx, p.topic, lane, p.offset)
	if err != nil {
		return nil, fmt.Errorf("when it was %s: %w", p.what, unanswered(err))
	}
	list := []stop{{What: p.what, Time: rec.Time}}
	if p.input == "" {
		return list, nil
	}
	mark, err := rec.Mark()
	if err != nil {
		return nil, fmt.Errorf("when it was %s: %w", p.before, err)
	}
	// The mark lies after the record's input.
	at := mark.Input(p.input).Offset - 1
	if at < 0 {
		return list, nil
	}
	input, err := s.o.Log.RecordAt(ctx, p.input, lane, at)
	switch {
	case errors.Is(err, stream.ErrGap):
		return list, nil
	case err != nil:
		return nil, fmt.Errorf("when it was %s: %w", p.before, unanswered(err))
	}
	return append(list, stop{What: p.before, Time: input.Time}), nil
}
