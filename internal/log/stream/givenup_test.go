package stream

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// hopeful copies features to batches, and says once what it was told to go on without.
type hopeful struct {
	copier
	seen    int
	without []string
}

// wish is what a hopeful waits for.
type wish string

func (w wish) String() string { return string(w) }

func (h *hopeful) Forgoes() (fmt.Stringer, []Maker) {
	if h.without != nil {
		return nil, nil
	}
	return wish(fmt.Sprint("features from ", h.seen, " on")), []Maker{{"maker", schemas.Scored}}
}

func (h *hopeful) Process(ctx context.Context, rec Record, out Output) error {
	h.seen++
	return h.copier.Process(ctx, rec, out)
}

// TestNobodyMakesWhatWasSkipped has a stage wait for what another would make of a record that an operator skips. It
// goes on when the other stage is through with all that is left, and not before; its successor knows without waiting.
func TestNobodyMakesWhatWasSkipped(t *testing.T) {
	l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 1))
	l.saidAfter, l.parkedPause = 10*time.Millisecond, 10*time.Millisecond
	makers := []Maker{{"maker", schemas.Scored}}
	nobody := func() string {
		t.Helper()
		why := must.Get(l.whyNoMore(t.Context(), schemas.Features, 0, makers))(t)
		return why
	}
	put(t, l, numbered(schemas.Scored, 0, 0, "0"), numbered(schemas.Scored, 0, 1, "1"), numbered(schemas.Scored, 0, 2, "2"))
	if why := nobody(); why != "" {
		t.Errorf("nothing was skipped, and nobody makes more: %s", why)
	}
	must.Do(t, l.Skip(t.Context(), Skip{Topic: schemas.Scored, From: Position{Offset: 2, Seq: 2}, To: Position{Offset: 3, Seq: 3}, Reason: "broken"}))
	if why := nobody(); why != "" {
		t.Errorf("the maker has read nothing yet, and nobody makes more: %s", why)
	}
	told := make(chan []string, 100)
	spec := StageSpec{
		Name: "waiting", Inputs: []schemas.Topic{schemas.Features}, Outputs: []schemas.Topic{schemas.Batches},
		New: func(lane int, _ []byte) (Stage, error) {
			h := &hopeful{copier: copier{schemas.Features, schemas.Batches}}
			err := l.Forgone(context.Background(), "waiting", lane, func(what []byte) error {
				h.without = append(h.without, string(what))
				return nil
			})
			told <- h.without
			return h, err
		},
	}
	waiting := start(l, spec)
	if first := <-told; first != nil {
		t.Errorf("goes on without %q from the start", first)
	}
	maker := start(l, StageSpec{
		Name: "maker", Inputs: []schemas.Topic{schemas.Scored}, Outputs: []schemas.Topic{schemas.Features},
		New: func(int, []byte) (Stage, error) { return copier{schemas.Scored, schemas.Features}, nil },
	})
	for range 2 { // whoever takes the lane over knows as well
		if got, want := <-told, []string{`"features from 2 on"`}; !slices.Equal(got, want) {
			t.Fatalf("goes on without %q, want %q", got, want)
		}
		waiting.stop(t)
		waiting = start(l, spec)
	}
	waiting.stop(t)
	maker.stop(t)
}
