//go:build cgo

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

// startIngestProcess starts a front door as a process of its own, and returns where it listens.
func startIngestProcess(t *testing.T, addr string) (*process, string) {
	t.Helper()
	p, line := startLine(t, "produce", "PRODUCE_ARGS=ingest", "INGEST_ADDR="+addr, "INGEST_MAX_LAG=0")
	url, ok := strings.CutPrefix(line, "ingest: ")
	if !ok {
		t.Fatalf("the front door says %q\n%s", line, p.log)
	}
	return p, url
}

// drawn returns a small image that no other number gives.
func drawn(n int) []byte {
	m := image.NewGray(image.Rect(0, 0, 8, 8))
	m.Pix[0], m.Pix[1], m.Pix[2] = byte(n), byte(n>>8), byte(n>>16)
	var buf bytes.Buffer
	if err := png.Encode(&buf, m); err != nil {
		panic(err)
	}
	return buf.Bytes()
}

// sent posts lines, and returns the ids of the pairs that the answer says are on the log; nil without an answer.
func sent(ctx context.Context, url, lines string) []string {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/pairs", strings.NewReader(lines))
	if err != nil {
		return nil
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	var answer struct{ Pairs []struct{ ID string } }
	if response.StatusCode != http.StatusOK || json.NewDecoder(response.Body).Decode(&answer) != nil {
		return nil
	}
	ids := make([]string, len(answer.Pairs))
	for i, p := range answer.Pairs {
		ids[i] = p.ID
	}
	return ids
}

// TestIngestKilled kills the front door at random moments under load. Every pair whose id it has answered is on the
// log. Clients send again what got no answer, and in the end the log has all pairs.
func TestIngestKilled(t *testing.T) {
	if apart(t) {
		return
	}
	ingestKilled(t, "embedded", startBroker(t))
}

func ingestKilled(t *testing.T, kind, brokers string) {
	const clients, requests, perRequest = 4, 40, 5
	t.Setenv("KAFKA_BROKERS", brokers)
	t.Setenv("LANES", "3")
	t.Setenv("NAMESPACE", "ingest-killed")
	r := rand.New(rand.NewPCG(soak.Seed(t, 3), 0))
	door, url := startIngestProcess(t, "127.0.0.1:0")
	var answered atomic.Int64
	acknowledged := make([][]string, clients)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range requests {
				var lines strings.Builder
				for k := range perRequest {
					n := (c*requests+i)*perRequest + k
					fmt.Fprintf(&lines, "{\"image\":%q,\"caption\":\"number %d\"}\n", base64.StdEncoding.EncodeToString(drawn(n)), n)
				}
				var ids []string
				for ids = sent(t.Context(), url, lines.String()); ids == nil && t.Context().Err() == nil; ids = sent(t.Context(), url, lines.String()) {
					time.Sleep(20 * time.Millisecond) // the next door is on its way
				}
				acknowledged[c] = append(acknowledged[c], ids...)
				answered.Add(1)
			}
		})
	}
	kills := soak.Choose(3, 30)
	for k := range kills {
		due := int64(k*clients*requests/(kills+1)) + r.Int64N(int64(clients*requests/(kills+1)))
		if !door.killWhen(t, func() bool { return answered.Load() >= due }) {
			t.Fatal("the front door has ended by itself")
		}
		door, _ = startIngestProcess(t, strings.TrimPrefix(url, "http://"))
	}
	all.Wait()
	door.stop(t)
	log := openNamespace(t)
	found, records := map[string]bool{}, 0
	for lane := range 3 {
		for pair, err := range stream.Values[*schemas.Pair](t.Context(), log, schemas.Pairs, lane) {
			must.Do(t, err)
			found[pair.ID.String()] = true
			records++
		}
	}
	for c, ids := range acknowledged {
		if len(ids) != requests*perRequest {
			t.Errorf("client %d: %d pairs were acknowledged, want %d", c, len(ids), requests*perRequest)
		}
		for _, id := range ids {
			if !found[id] {
				t.Errorf("pair %s was acknowledged, and is not on the log", id)
			}
		}
	}
	t.Logf("%d kills left %d repeats", kills, records-len(found))
	figures.Record(t, figures.Figures{Scenario: "kill -9 of the front door", Broker: kind, Faults: kills, Records: clients * requests * perRequest})
}
