package stream

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestOneRecordIsKept lets retention remove the only record that a stage has written. The stage goes on behind it.
func TestOneRecordIsKept(t *testing.T) {
	l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 1))
	put(t, l, pair(0, "a"))
	r := start(l, batcherSpec())
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 0}, 0)
	r.stop(t)
	deleteRecords(t, l, schemas.Embeddings, 1)
	put(t, l, pair(0, "b"))
	spec := batcherSpec()
	spec.Counters = new(Counters)
	r = start(l, spec)
	await(t, "the stage goes on", func() bool { return spec.Counters.Out.Load() > 0 || len(spec.Counters.States()) > 0 })
	r.stop(t)
	if seq, err := l.LastSeq(t.Context(), schemas.Embeddings, 0); err != nil || seq != 1 {
		t.Errorf("the last seq is %d, error %v, states %q, want 1", seq, err, spec.Counters.States())
	}
}

// TestQuietLaneOutlivesRetention lets retention remove all that a quiet lane has written, and what it was made of.
// The stage goes on where it has stopped. It notes its place when it is stopped in order, and now and then before.
func TestQuietLaneOutlivesRetention(t *testing.T) {
	b := startBroker(t, broker.Options{})
	for name, running := range map[string]bool{"stopped": false, "running": true} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(b.Addr(), name, 1)
			l := openLog(t, cfg)
			l.keepEvery = time.Millisecond
			put(t, l, pair(0, "a"), pair(0, "b"), pair(0, "c"))
			r := start(l, batcherSpec())
			awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 2}, 0)
			if running {
				await(t, "its place is kept", func() bool {
					found := false
					err := l.recall(t.Context(), "mark/", func(_ string, value []byte) error {
						found = found || len(value) > 0
						return nil
					})
					return err == nil && found
				})
			}
			r.stop(t)
			deleteRecords(t, l, schemas.Pairs, 3)
			deleteRecords(t, l, schemas.Embeddings, 3)
			put(t, l, pair(0, "d"))
			spec := batcherSpec()
			spec.Counters = new(Counters)
			r = start(l, spec)
			await(t, "the stage goes on", func() bool { return spec.Counters.Out.Load() > 0 })
			r.stop(t)
			var got []string
			for rec, err := range l.Records(t.Context(), schemas.Embeddings, 0, Position{Offset: 3, Seq: 3}, -1) {
				must.Do(t, err)
				got = append(got, fmt.Sprint(rec.Seq, " ", string(rec.Value)))
			}
			if want := []string{"3 embedding of d"}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
