package service

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/internal/neighbors/faiss"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestFAISSFindsWhatGroupsHold writes the groups of two lanes for FAISS, twice, with a pair that is forgotten. FAISS
// finds every other pair by its own vectors, in its group alone.
func TestFAISSFindsWhatGroupsHold(t *testing.T) {
	root, folder := t.TempDir(), t.TempDir()
	log := logtest.Open(t, logtest.Broker(t), "", 2)
	s := newSegments(t, root, log)
	for _, l := range lanes(t) {
		l.Run(asking(t, scoped(schemas.ScopeLane), s), -1)
	}
	must.Do(t, log.EnsureTopics(t.Context(), schemas.Forgotten))
	taken := embedding(2, "m").ID
	must.Get(forget.Publish(t.Context(), log, []forget.Key{{Kind: forget.Pair, ID: taken}}, time.Unix(1, 0)))(t)
	for range 2 {
		rows := 0
		err := WriteFAISS(t.Context(), log, Settings{Segments: Segments{Root: root}}, folder, func(one *segment.Segment) { rows += one.Rows })
		if err != nil || rows != 80 {
			t.Fatalf("%d rows, %v, want 80", rows, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(folder, "*", "*-pairs.jsonl"))
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	found := map[string]bool{}
	for _, file := range files {
		ids := pairsOf(t, file)
		for i := range 80 {
			e := embedding(i, "m")
			for name, vector := range map[string][]float32{"images": e.V.Floats(), "texts": e.T.Floats()} {
				best, scores := must.Get2(faiss.Search(strings.Replace(file, "pairs.jsonl", name+".faiss", 1), vector, len(vector), len(ids)))(t)
				for k, id := range best {
					if id >= 0 && ids[id] == "" {
						t.Errorf("%s has a row that is forgotten", file)
					}
					if id >= 0 && ids[id] == e.ID.String() && scores[k] > 0.97 {
						found[name+ids[id]] = true
					}
				}
			}
		}
	}
	if len(found) != 2*79 || found["images"+taken.String()] {
		t.Errorf("FAISS finds %d images and texts, want those of 79 pairs", len(found))
	}
}

// pairsOf reads a file of pairs: ids by row, empty where a pair is forgotten.
func pairsOf(t *testing.T, file string) (ids []string) {
	t.Helper()
	raw := must.Get(os.ReadFile(file))(t)
	for line := range bytes.Lines(raw) {
		var p *faissPair
		must.Do(t, json.Unmarshal(line, &p))
		if p == nil {
			p = new(faissPair)
		}
		ids = append(ids, p.Pair)
	}
	return ids
}

func TestFAISSNeedsSegments(t *testing.T) {
	if err := WriteFAISS(t.Context(), nil, Settings{}, t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "SEGMENTS_ROOT is empty") {
		t.Error(err)
	}
}
