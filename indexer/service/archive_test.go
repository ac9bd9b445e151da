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
	"syscall"
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

// TestSearchersNeedNoLane has two processes answer over the segments of two lanes. A pair that is forgotten is not
// found.
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
			t.Error("what is forgotten is found")
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

// TestSegmentsComeAndGo looks again after segments have come, after those of a lane were deleted, and after they are
// back. Searches go on meanwhile.
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

// TestSegmentsOfStrangers has a pipe and segments under the names of others beside those of the run, and then cuts
// files that are mapped. Searches go on in what is whole.
func TestSegmentsOfStrangers(t *testing.T) {
	folder := t.TempDir()
	place := must.Get(store.Open(t.Context(), folder, ""))(t)
	l := library{
		store: place, archive: indexer.NewArchive(cpu.Engine{}, func(schemas.PairID) bool { return false }),
		logger: slog.New(slog.DiscardHandler), seen: make(map[string]*segment.Segment),
	}
	for _, lane := range lanes(t) {
		lane.Run(asking(t, scoped(schemas.ScopeLane), &segments{store: place}), -1)
	}
	files := must.Get(filepath.Glob(filepath.Join(folder, "*", "*", "0-*.segment")))(t)
	raw := must.Get(os.ReadFile(files[0]))(t)
	model := filepath.Dir(files[0])
	other := filepath.Join(filepath.Dir(model), "0011223344556677")
	must.Do(t, os.Mkdir(other, 0o700))
	digest := strings.SplitN(filepath.Base(files[0]), "-", 3)[2]
	for _, name := range []string{filepath.Join(model, "1-999999-"+digest), filepath.Join(model, "9-0-"+digest), filepath.Join(other, filepath.Base(files[0]))} {
		must.Do(t, os.WriteFile(name, raw, 0o600))
	}
	must.Do(t, syscall.Mkfifo(filepath.Join(model, "1-999998-"+digest), 0o600))
	must.Do(t, l.look(t.Context()))
	if l.archive.Pairs() != 80 {
		t.Errorf("%d pairs, want the 80 of the run", l.archive.Pairs())
	}

	for _, file := range files {
		must.Do(t, os.Truncate(file, 0))
	}
	near := func(pair int) error {
		_, answer, err := l.archive.Neighbors(embedding(pair, "m").ID, indexer.Query{K: 50, Modality: indexer.Image})
		if err == nil && len(answer.Neighbors) != 39 {
			t.Errorf("%d neighbours in a lane of 40", len(answer.Neighbors))
		}
		return err
	}
	if err := near(0); !errors.Is(err, indexer.ErrNoPairs) {
		t.Errorf("a pair of a segment that was cut: %v", err)
	}
	must.Check(t, near(1))
	for range 2 {
		must.Do(t, l.look(t.Context()))
		if l.archive.Pairs() != 40 {
			t.Errorf("%d pairs, want 40", l.archive.Pairs())
		}
	}
	must.Check(t, near(1))
	must.Check(t, l.archive.Close())
}

// TestASearchMeetsACutSegment cuts a segment that is mapped, and searches it in C. That is an error, and does not end
// the process.
func TestASearchMeetsACutSegment(t *testing.T) {
	folder := t.TempDir()
	place := must.Get(store.Open(t.Context(), folder, ""))(t)
	lanes(t)[0].Run(asking(t, scoped(schemas.ScopeLane), &segments{store: place}), -1)
	names := must.Get(place.List(t.Context(), "m"))(t)
	one := must.Get(place.Get(t.Context(), "m", names[0]))(t)
	file := must.Get(filepath.Glob(filepath.Join(folder, "*", "*", "*-"+names[0].Digest+".segment")))(t)[0]
	must.Do(t, os.Truncate(file, 0))
	q := segment.NewQueries(1, one.Dim, func(_ int, dst []float32) []float32 { return append(dst, make([]float32, one.Dim)...) })
	if _, err := segment.NewIndex(cpu.Engine{}, one).Search(t.Context(), segment.Image, q, 1, 1, nil); !errors.Is(err, segment.ErrInvalid) {
		t.Errorf("a search in C: %v", err)
	}
	must.Check(t, one.Close())
	if _, err := place.Get(t.Context(), "m", names[0]); !errors.Is(err, segment.ErrInvalid) {
		t.Errorf("a segment that is cut: %v", err)
	}
}

func TestSearchNamesWhatItLacks(t *testing.T) {
	for want, s := range map[string]Settings{"SEGMENTS_ROOT is empty": {LiveAddr: "127.0.0.1:0"}, "LIVE_ADDR is empty": {Segments: Segments{Root: "x"}}} {
		if err := RunSearch(t.Context(), nil, s, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
