package stream

import (
	"fmt"
	"testing"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestResumeDoesNoWorkTwice stops a stage in order, again and again. The stage writes nothing twice. It goes on
// behind the last record that it has processed, or from the start of its open group.
func TestResumeDoesNoWorkTwice(t *testing.T) {
	b := startBroker(t, broker.Options{})
	from := map[string]map[schemas.Topic]int64{
		"batcher": {schemas.Pairs: 12}, "grouper": {schemas.Embeddings: 6}, "joiner": {schemas.Groups: 3, schemas.Features: 6},
		"chainer": {schemas.Pairs: 8},
	}
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			spec := s.spec()
			l := s.open(t, b.Addr(), spec.Name)
			for range 3 {
				r := start(l, spec)
				awaitSeqs(t, l, s.ends, 0)
				r.stop(t)
				ln := &lane{log: l, spec: spec}
				mark, published, _, err := ln.recover(t.Context())
				must.Do(t, err)
				for topic, offset := range from[spec.Name] {
					if got := mark.input(topic).Offset; got != offset {
						t.Errorf("goes on from %s offset %d, want %d", topic, got, offset)
					}
				}
				for topic, seq := range s.ends {
					bounds, err := l.Bounds(t.Context(), topic, 0)
					if err != nil || bounds.End != seq+1 || published[topic] != seq+1 {
						t.Errorf("%s holds %d records (%v), %d of them known, want %d", topic, bounds.End, err, published[topic], seq+1)
					}
				}
			}
		})
	}
}

// TestPoisonIsCheap checks that set-aside records travel in the batches of the others. The stage does not wait for
// them one by one.
func TestPoisonIsCheap(t *testing.T) {
	b := startBroker(t, broker.Options{})
	cfg := testConfig(b.Addr(), "", 1)
	l := openLog(t, cfg)
	var m []message
	const n = 20_000
	for i := range n {
		value := fmt.Sprint("pair ", i)
		if i%100 == 0 {
			value = fmt.Sprint("poison ", i)
		}
		m = append(m, pair(0, value))
	}
	put(t, l, m...)
	writes := make(chan struct{}, n)
	spec := batcherSpec()
	spec.hook = func(p crashPoint, _ int) error {
		if p == afterWrite {
			writes <- struct{}{}
		}
		return nil
	}
	r := start(l, spec)
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: n - n/100 - 1}, 0)
	r.stop(t)
	if got := len(writes); got > n/100 {
		t.Errorf("%d records with %d set aside took %d produce requests", n, n/100, got)
	}
}
