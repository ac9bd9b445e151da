//go:build cgo

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

// TestFilterKilled kills an encoder that filters at random moments. It decides every pair as an undisturbed one does.
func TestFilterKilled(t *testing.T) {
	if apart(t) {
		return
	}
	filterKilled(t, "embedded", startBroker(t))
}

func filterKilled(t *testing.T, kind, brokers string) {
	const perKill = 12 // pairs
	kills := soak.Choose(20, 100)
	t.Setenv("KAFKA_BROKERS", brokers)
	t.Setenv("STREAM_SESSION_TIMEOUT", "1s")
	in := setUpPipeline(t, kills*perKill/2)
	killed, feed := setUpFeed(t, in)
	t.Setenv("NAMESPACE", "source")
	source := openNamespace(t)
	awaitEncoder(t, source, start(t, "encoder"))
	t.Setenv("FILTER", fmt.Sprintf(`colour: !caption.contains("red"); words: words > 3; match: similarity > %g`, medianSimilarity(t, source)))
	t.Setenv("NAMESPACE", "calm")
	mustCommand(t, "produce", in("scenes"), "--final")
	calm := openNamespace(t)
	awaitEncoder(t, calm, start(t, "encoder"))
	want := decisionsOf(t, calm)

	t.Setenv("NAMESPACE", "killed")
	r := rand.New(rand.NewPCG(soak.Seed(t, 11), 1))
	encoder := start(t, "encoder")
	for range kills {
		at := decided(t, killed) + r.Int64N(perKill+1)
		feed.publish(t, perKill)
		if !encoder.killWhen(t, func() bool { return decided(t, killed) >= at }) {
			t.Fatalf("the encoder has ended by itself\n%s", encoder.log)
		}
		encoder = start(t, "encoder")
	}
	feed.publish(t, -1)
	awaitEncoder(t, killed, encoder)
	if got := decisionsOf(t, killed); !slices.Equal(got, want) {
		t.Errorf("after %d kills the decisions are %v, want %v", kills, got, want)
	}
	for _, what := range []string{"kept", "colour", "words", "match"} {
		if !strings.Contains(strings.Join(want, " "), what+":") {
			t.Errorf("no pair is of kind %q: %v", what, want)
		}
	}
	figures.Record(t, figures.Figures{Scenario: "kill -9 of an encoder with FILTER", Broker: kind, Faults: kills, Records: int(inLog(t, killed))})
}

// decided counts the records of pairs that are decided.
func decided(t *testing.T, log *stream.Log) (n int64) {
	t.Helper()
	for lane := range log.Config().Lanes {
		seq := must.Get(log.LastSeq(t.Context(), schemas.Embeddings, lane))(t)
		n += seq + 1
	}
	return n
}

// awaitEncoder lets an encoder come to the end of pairs.
func awaitEncoder(t *testing.T, log *stream.Log, encoder *process) {
	t.Helper()
	waitFor(t, []*process{encoder}, func() bool { return decided(t, log) >= inLog(t, log) })
	encoder.stop(t)
}

// medianSimilarity returns a threshold that half of the embedded pairs exceed.
func medianSimilarity(t *testing.T, log *stream.Log) float64 {
	t.Helper()
	var all []float64
	for lane := range log.Config().Lanes {
		for rec, err := range log.Records(t.Context(), schemas.Embeddings, lane, stream.Position{}, -1) {
			must.Do(t, err)
			if e, ok := stream.As[*schemas.Embedding](rec); ok {
				all = append(all, float64(e.Similarity))
			}
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// decisionsOf returns what every lane of embeddings holds: a digest, and how many pairs were kept or dropped by each
// rule.
func decisionsOf(t *testing.T, log *stream.Log) (lanes []string) {
	t.Helper()
	for lane := range log.Config().Lanes {
		d := must.Get(log.Digest(t.Context(), schemas.Embeddings, lane, stream.Position{}, -1))(t)
		counts := map[string]int{}
		for rec, err := range log.Records(t.Context(), schemas.Embeddings, lane, stream.Position{}, -1) {
			must.Do(t, err)
			r := must.Get(schemas.Unmarshal(rec.Schema, rec.Value))(t)
			switch v := r.(type) {
			case *schemas.Embedding:
				counts["kept"]++
			case *schemas.Refusal:
				counts[v.Rule]++
			}
		}
		lanes = append(lanes, fmt.Sprintf("%d records %s %v", d.Records, d.Sum(), counts))
	}
	return lanes
}
