package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/internal/neighbors/segment/store"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestSearchersNeedNoLane has two processes answer over the segments of two lanes. A pair that is taken back is not found.
func TestSearchersNeedNoLane(t *testing.T) {
	folder := t.TempDir()
	log := logtest.Open(t, logtest.Broker(t), "", 2)
	o := scoped(schemas.ScopeLane)
	s := newSegments(t, folder, log)
	for _, l := range lanes(t) {
		l.Run(asking(t, o, s), -1)
	}
	must.Do(t, log.EnsureTopics(t.Context(), schemas.Forgotten))
	taken := embedding(2, "m")
	must.Get(forget.Publish(t.Context(), log, []forget.Key{{Kind: forget.Pair, ID: taken.ID}}, time.Unix(1, 0)))(t)
	ctx, stop := context.WithCancel(t.Context())
	done, addrs := make(chan error, 2), make(chan string, 2)
	for range cap(done) {
		go func() {
			settings := Settings{LiveAddr: "127.0.0.1:0", Segments: Segments{Root: folder}}
			done <- RunSearch(ctx, log, settings, slog.New(slog.DiscardHandler), func(addr net.Addr, a *indexer.Archive) {
				if a.Pairs() != 80 {
					t.Errorf("%d pairs, want 80", a.Pairs())
				}
				addrs <- addr.String()
			})
		}()
	}
	for range cap(done) {
		addr := <-addrs
		for pair, want := range map[*schemas.Embedding]int{embedding(0, "m"): http.StatusOK, embedding(77, "m"): http.StatusOK, taken: http.StatusNotFound} {
			if status, _ := get(t, addr, pair.ID); status != want {
				t.Errorf("pair %s is answered with %d, want %d", pair.Caption, status, want)
			}
		}
		if _, body := get(t, addr, embedding(0, "m").ID); strings.Contains(body, taken.ID.String()) {
			t.Error("what is taken back is found")
		}
	}
	stop()
	for range cap(done) {
		must.Check(t, <-done)
	}
}

// get asks for the neighbours of a pair.
func get(t *testing.T, addr string, pair schemas.PairID) (status int, body string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/neighbors?k=50&pair=%s", addr, pair), http.NoBody))(t)
	response := must.Get(http.DefaultClient.Do(r))(t)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil || !json.Valid(raw) {
		t.Fatalf("%s, %v", bytes.TrimSpace(raw), err)
	}
	return response.StatusCode, string(raw)
}

// TestSegmentsComeAndGo looks again after segments have come, after those of a lane were deleted, and after they are back.
// Searches go on meanwhile.
func TestSegmentsComeAndGo(t *testing.T) {
	folder := t.TempDir()
	place := must.Get(store.Open(t.Context(), folder, ""))(t)
	nothing := func(schemas.PairID) bool { return false }
	l := library{store: place, archive: indexer.NewArchive(cpu.Engine{}, nothing), logger: slog.New(slog.DiscardHandler), seen: make(map[string]*segment.Segment)}
	look := func(want int) {
		t.Helper()
		for range 2 {
			if err := l.look(t.Context()); err != nil || l.archive.Pairs() != want {
				t.Errorf("%d pairs, want %d (%v)", l.archive.Pairs(), want, err)
			}
		}
	}
	both := lanes(t)
	for lane, want := range []int{40, 80} {
		both[lane].Run(asking(t, scoped(schemas.ScopeLane), &segments{store: place}), -1)
		look(want)
	}
	ctx, stop := context.WithCancel(t.Context())
	var searching sync.WaitGroup
	for range 2 {
		searching.Go(func() {
			for ctx.Err() == nil {
				if _, answer, err := l.archive.Neighbors(embedding(1, "m").ID, indexer.Query{K: 50, Modality: indexer.Image}); err != nil || len(answer.Neighbors) < 39 {
					t.Errorf("%d neighbours, %v", len(answer.Neighbors), err)
				}
			}
		})
	}
	files, err := filepath.Glob(filepath.Join(folder, "*", "*", "0-*.segment"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		must.Do(t, os.Rename(file, file+".away"))
	}
	look(40)
	if _, _, err := l.archive.Neighbors(embedding(0, "m").ID, indexer.Query{K: 50, Modality: indexer.Image}); !errors.Is(err, indexer.ErrNoPairs) {
		t.Errorf("a pair of a segment that is gone: %v", err)
	}
	for _, file := range files {
		must.Do(t, os.Rename(file+".away", file))
	}
	look(80)
	stop()
	searching.Wait()
	must.Check(t, l.archive.Close())
}

func TestSearchNamesWhatItLacks(t *testing.T) {
	for want, s := range map[string]Settings{"SEGMENTS_ROOT is empty": {LiveAddr: "127.0.0.1:0"}, "LIVE_ADDR is empty": {Segments: Segments{Root: "x"}}} {
		if err := RunSearch(t.Context(), nil, s, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
