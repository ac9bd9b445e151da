//go:build cgo

package main

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

// TestWhatMayBeDeleted kills every stage at once, deletes all that the rule allows in every lane, and starts them
// again. The weights and the last records are those of a run with nothing deleted.
func TestWhatMayBeDeleted(t *testing.T) {
	if apart(t) {
		return
	}
	const perRound = 24 // pairs
	rounds := soak.Choose(4, 20)
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	t.Setenv("CHECKPOINT_EVERY", "2")
	t.Setenv("STREAM_SESSION_TIMEOUT", "1s")
	in := setUpPipeline(t, rounds*perRound/3+8)
	t.Setenv("NAMESPACE", "whole")
	t.Setenv("CHECKPOINT_DIR", in("whole"))
	mustCommand(t, "produce", in("scenes"), "--final")
	whole := openNamespace(t)
	mustCommand(t, "up")

	t.Setenv("NAMESPACE", "trimmed")
	t.Setenv("CHECKPOINT_DIR", in("trimmed"))
	log := openNamespace(t)
	must.Do(t, log.EnsureTopics(t.Context()))
	feed, r := newFeed(t, whole, log), rand.New(rand.NewPCG(soak.Seed(t, 3), 0))
	deleted := map[schemas.Topic]int64{}
	for range rounds {
		feed.publish(t, perRound)
		var running []*fleetMember
		for _, name := range stageNames {
			running = append(running, startMember(t, name))
		}
		for _, m := range running {
			m.awaitReady(t)
		}
		time.Sleep(time.Duration(2000+r.IntN(2000)) * time.Millisecond)
		for _, m := range running {
			m.kill(t)
		}
		need := must.Get(inspect.CollectRetention(t.Context(), log, time.Now()))(t)
		for _, n := range need.Lanes {
			if n.TooLate {
				t.Errorf("%s, lane %d: %s needs what was deleted (%s)", n.Topic, n.Lane, n.By, n.Why)
			}
			deleted[n.Topic] += n.Free
			must.Do(t, kafka.DeleteRecords(t.Context(), log.Config().Brokers, n.Topic.Name(need.Namespace), n.Lane, n.First))
		}
	}
	feed.publish(t, -1)
	mustCommand(t, "up")
	// The indexer's window is larger than this crawl: its embeddings are needed.
	for _, topic := range []schemas.Topic{schemas.Pairs, schemas.Neighbors, schemas.Groups, schemas.Batches, schemas.Scored, schemas.Features} {
		if deleted[topic] == 0 {
			t.Errorf("nothing of %s was deleted", topic)
		}
	}
	t.Logf("deleted %v", deleted)
	for _, topic := range []schemas.Topic{schemas.Embeddings, schemas.Neighbors, schemas.Groups, schemas.Batches, schemas.Scored, schemas.Features} {
		for lane := range log.Config().Lanes {
			want, _ := must.Get2(whole.LastRecord(t.Context(), topic, lane))(t)
			got, found, err := log.LastRecord(t.Context(), topic, lane)
			if err != nil || !found || got.Seq != want.Seq || !bytes.Equal(got.Value, want.Value) {
				t.Errorf("%s, lane %d ends with seq %d (%v), want %d", topic, lane, got.Seq, err, want.Seq)
			}
		}
	}
	last := func(folder string) string {
		files := checkpoints(t, in(folder))
		return checkpointDigest(t, files[len(files)-1])
	}
	if got, want := last("trimmed"), last("whole"); got != want {
		t.Errorf("the weights are others: %s, want %s", got, want)
	}
}

// TestRetentionCommand looks at what users see.
func TestRetentionCommand(t *testing.T) {
	testLog(t)
	out := mustCommand(t, "status", "--retention")
	for _, want := range []string{"encoder embeds the pairs from there on", "trainer no checkpoint was reported", "no topic deletes what is needed"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out := mustCommand(t, "status", "--retention", "--json"); !strings.Contains(out, `"free_records": 0`) {
		t.Error(out)
	}
}
