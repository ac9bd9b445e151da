package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/schemas"
)

// TestTopicMadeAnew deletes pairs and fills it again with more than before. The stage's position lies in the middle
// of the new pairs. The stage does not use it until an operator says so.
func TestTopicMadeAnew(t *testing.T) {
	b := startBroker(t, BrokerOptions{})
	cfg := testConfig(b.Addr(), "", 1)
	l := openLog(t, cfg)
	l.clockSkew = 0
	put(t, l, pair(0, "old 0"), pair(0, "old 1"))
	r := start(l, batcherSpec())
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 1}, 0)
	r.stop(t)

	r = start(l, batcherSpec()) // an ordinary restart
	put(t, l, pair(0, "old 2"))
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 2}, 0)
	r.stop(t)

	topic := kmsg.NewDeleteTopicsRequestTopic()
	name := l.name(schemas.Pairs)
	topic.Topic = &name
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Topics, req.TopicNames = append(req.Topics, topic), []string{name}
	if _, err := req.RequestWith(t.Context(), kgoClient(t, l)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Millisecond) // stamps are in milliseconds
	l = openLog(t, cfg)
	l.clockSkew, l.parkedPause = 0, 20*time.Millisecond
	for i := range 5 {
		put(t, l, pair(0, fmt.Sprint("new ", i)))
	}
	if got := parked(t, l, batcherSpec()); !strings.Contains(got, "was the topic made anew?") || !strings.Contains(got, "--record 2") {
		t.Errorf("the lane says %q", got)
	}
	if err := l.Skip(t.Context(), Skip{Topic: schemas.Pairs, From: Position{Offset: 2}, To: Position{Offset: 3}, Reason: "known"}); err != nil {
		t.Fatal(err)
	}
	r = start(l, batcherSpec())
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 4}, 0)
	r.stop(t)
	want := []string{"embedding of old 0", "embedding of old 1", "embedding of old 2", "embedding of new 3", "embedding of new 4"}
	if got := lines(t, l, schemas.Embeddings, 0); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
