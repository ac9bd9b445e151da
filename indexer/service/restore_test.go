package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// indexing runs the indexer on a log until the groups of lane 0 have some records.
func indexing(t *testing.T, log *stream.Log, records int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx, spec(t, testOptions())) }()
	reader := log.OpenReader(schemas.Groups, 0, stream.Position{}, stream.ReaderOptions{})
	for range records {
		if _, err := reader.Next(ctx); err != nil {
			t.Error(err)
		}
	}
	reader.Close()
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestLiveSearchIsRestored finds after a restart what it found before: closed groups, with duplicates and repeats left
// out.
func TestLiveSearchIsRestored(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "test", 1)
	w := log.NewPublisher(stream.PublisherOptions{})
	seq := int64(0)
	write := func(r schemas.Record) {
		t.Helper()
		for range 2 { // a repetition moves the offsets of all that follows
			must.Do(t, w.PublishSeq(t.Context(), schemas.Embeddings, 0, seq, stream.Mark{}, r))
		}
		seq++
	}
	for _, i := range []int{0, 1, 2, 2, 3, 4, 5, 6, 3, 7, 8, 7, 9, 10, 11} {
		write(embedding(i, "m"))
	}
	write(&schemas.Refusal{ID: embedding(40, "m").ID, ImageID: embedding(40, "m").ImageID, Reason: schemas.MaskMissing})
	for _, i := range []int{12, 13, 14, 15} {
		write(embedding(i, "m"))
	}
	must.Do(t, w.Close(t.Context()))
	indexing(t, log, 2) // 0..6 and 7..13; 14 and 15 are open
	o := indexer.DefaultLiveOptions()
	o.KeepGroups = 2
	live, r := newLiveRestorer(t, log, o)
	for _, number := range []int64{1, 0} {
		must.Do(t, r.group(t.Context(), schemas.GroupID{Seq: number}))
	}
	for i := range 14 {
		e := embedding(i, "m")
		self, answer, err := live.Neighbors(e.ID, indexer.Query{K: 20, Modality: indexer.Text})
		if err != nil {
			t.Fatalf("pair %d: %v", i, err)
		}
		if want := (schemas.GroupID{Seq: int64(i / 7)}); self.Group != want || self.Position != i%7 || answer.Searched != 14 || len(answer.Neighbors) != 14 {
			t.Errorf("pair %d is %+v, with %d neighbours of %d", i, self, len(answer.Neighbors), answer.Searched)
		}
	}
	if s := live.Status(); len(s) != 2 || !s[0].Closed || s[0].Group.Seq != 0 || s[1].Group.Seq != 1 {
		t.Errorf("status %+v, want both groups, the oldest first", s)
	}
	if err := r.group(t.Context(), schemas.GroupID{Seq: 7}); err == nil || !strings.Contains(err.Error(), "0/7") {
		t.Errorf("a group that was never there gives %v", err)
	}
	if err := r.group(t.Context(), schemas.GroupID{Seq: 0}); err != nil || len(live.Status()) != 2 {
		t.Errorf("a group for which there is no room: %v, %d groups", err, len(live.Status()))
	}
}

// The indexer begins to restore when it takes a lane up, says how far it is, and stops when it gives the lane up.
func TestRestoringGoesOnBehindTheStage(t *testing.T) {
	var none *restorer
	none.begin(0, 5)()
	log := logtest.Open(t, logtest.Broker(t), "test", 1)
	must.Do(t, log.EnsureTopics(t.Context()))
	_, r := newLiveRestorer(t, log, indexer.DefaultLiveOptions())
	r.begin(0, 0)() // a lane without closed groups
	if got := r.state(); got != "" {
		t.Errorf("with nothing to do it says %q", got)
	}
	<-r.turn // as if it were at work on another lane
	stop := r.begin(0, 3)
	if got, want := r.state(), "live search has 0 of 1 closed groups again, and 0 of 0 pairs of the next"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	stop()
	if got := r.state(); got != "" {
		t.Errorf("after the lane was given up it says %q", got)
	}
	r.turn <- struct{}{}
}

// newLiveRestorer returns an empty live search, and what restores it.
func newLiveRestorer(t *testing.T, log *stream.Log, o indexer.LiveOptions) (*indexer.Live, *restorer) {
	t.Helper()
	live := must.Get(indexer.NewLive(o, cpu.Engine{}))(t)
	t.Cleanup(func() { must.Check(t, live.Close()) })
	instruments := must.Get(service.NewRuntime(slog.New(slog.DiscardHandler)).NewInstruments(Name, nil))(t)
	return live, newRestorer(log, live, instruments)
}
