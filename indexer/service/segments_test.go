package service

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/neighbors/scope"
	"github.com/pairstream/pairstream/internal/neighbors/segment/store"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/onelane"
	"github.com/pairstream/pairstream/schemas"
)

// TestScopeNeedsAPlaceThatOthersSee refuses scopes whose groups could not be asked.
func TestScopeNeedsAPlaceThatOthersSee(t *testing.T) {
	for _, c := range []struct{ scope, root, want string }{
		{"group", "", ""},
		{"group", "segments", ""},
		{"lane", "segments", ""},
		{"lane", "", "NEIGHBORS_SCOPE is lane, which asks segments of closed groups: set SEGMENTS_ROOT"},
		{"crawl", "", "NEIGHBORS_SCOPE is crawl, which asks segments of closed groups: set SEGMENTS_ROOT"},
		{"crawl", "segments", "a folder that indexers of other lanes may not see"},
		{"crawl", "/mnt/segments", "file:///folder"},
		{"crawl", "file:///mnt/segments", ""},
		{"crawl", "s3://bucket/segments", ""},
		{"world", "s3://bucket/segments", `NEIGHBORS_SCOPE is "world", want "lane" or "crawl"`},
	} {
		_, err := config.Parse[Settings](map[string]string{"NEIGHBORS_SCOPE": c.scope, "SEGMENTS_ROOT": c.root})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %q: %v, want %q", c.scope, c.root, err, c.want)
		}
	}
}

func newSegments(t *testing.T, folder string, log *stream.Log) *segments {
	t.Helper()
	place := must.Get(store.Open(t.Context(), folder, ""))(t)
	instruments := must.Get(service.NewRuntime(slog.New(slog.DiscardHandler)).NewInstruments(Name, nil))(t)
	return &segments{store: place, log: log, instruments: instruments}
}

func scoped(scope string) indexer.Options {
	o := testOptions()
	o.Scope, o.Asked, o.Segments, o.NearImage, o.NearCosine = scope, 2, true, indexer.CountImages, 0.99
	return o
}

// askedBy lists which groups each group of a lane has asked, and how many equivalent images it has from them.
func askedBy(l *onelane.Log) []string {
	images := make(map[schemas.GroupID]int)
	for _, r := range l.Records(schemas.Neighbors) {
		c := r.(*schemas.NeighborChunk)
		images[c.Group] += len(c.OutImages) / 16
	}
	var out []string
	for _, r := range l.Records(schemas.Groups) {
		if g, ok := r.(*schemas.Group); ok {
			out = append(out, fmt.Sprintf("%s %s asked %v: %t", g.Group, g.Model, g.Asked, images[g.Group] > 0))
		}
	}
	return out
}

// TestALaneAsksItsLatestGroups asks two groups of the same model. A replay asks the same ones, and so does an owner
// after a crash before any record, which may find segments of its own group and of later ones.
func TestALaneAsksItsLatestGroups(t *testing.T) {
	o := scoped(schemas.ScopeLane)
	whole := newLog(t)
	whole.Run(asking(t, o, newSegments(t, t.TempDir(), nil)), -1)
	want := []string{"1/0 m asked []: false", "1/1 m asked [1/0]: true", "1/2 m asked [1/0 1/1]: true", "1/3 n asked []: false", "1/4 n asked [1/3]: true"}
	if got := askedBy(whole); !slices.Equal(got, want) {
		t.Errorf("groups\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	left := t.TempDir() // segments of all groups lie here from the first round on
	for limit := range whole.Len(schemas.Neighbors) + whole.Len(schemas.Groups) {
		l := newLog(t)
		if !l.Run(asking(t, o, newSegments(t, left, nil)), limit) {
			t.Fatalf("the owner did not die before record %d", limit)
		}
		l.Cut(schemas.Neighbors, limit%3)
		l.Cut(schemas.Groups, limit%2)
		l.Run(asking(t, o, newSegments(t, left, nil)), -1)
		same(t, fmt.Sprint("a crash before record ", limit), l, whole)
	}
}

// same wants the records of two logs to be equal.
func same(t *testing.T, what string, got, want *onelane.Log) {
	t.Helper()
	for _, topic := range []schemas.Topic{schemas.Neighbors, schemas.Groups} {
		if !slices.EqualFunc(got.Values(topic), want.Values(topic), bytes.Equal) {
			t.Errorf("%s changed %s:\n%s\nwant\n%s", what, topic, strings.Join(askedBy(got), "\n"), strings.Join(askedBy(want), "\n"))
		}
	}
}

// TestSegmentsAloneChangeNoRecord writes segments that nobody asks.
func TestSegmentsAloneChangeNoRecord(t *testing.T) {
	whole, l, o := newLog(t), newLog(t), testOptions()
	whole.Run(spec(t, o), -1)
	o.Segments = true
	l.Run(asking(t, o, newSegments(t, t.TempDir(), nil)), -1)
	same(t, "SEGMENTS_ROOT", l, whole)
}

// lanes returns two lanes of a crawl, without records of the stage.
func lanes(t *testing.T) [2]*onelane.Log {
	t.Helper()
	var out [2]*onelane.Log
	for lane := range out {
		out[lane] = onelane.New(t, lane)
		for i := range 40 {
			out[lane].Append(schemas.Embeddings, embedding(2*i+lane, "m"))
		}
		out[lane].Append(schemas.Embeddings, &schemas.Seal{Final: true})
	}
	return out
}

// TestAReplayAsksWhatTheCrawlAsked has lane 1 run behind lane 0, die now and then, and ask groups of both. A replay
// begins with the notes, has lane 1 go ahead, and comes to the same records.
func TestAReplayAsksWhatTheCrawlAsked(t *testing.T) {
	o := scoped(schemas.ScopeCrawl)
	broker := logtest.Broker(t)
	first, again := logtest.Open(t, broker, "first", 2), logtest.Open(t, broker, "again", 2)
	s, crawl := newSegments(t, t.TempDir(), first), lanes(t)
	crawl[0].Run(asking(t, o, s), 4)
	for crawl[1].Run(asking(t, o, s), 3) {
		crawl[1].Cut(schemas.Neighbors, 1)
		crawl[1].Cut(schemas.Groups, 1)
	}
	crawl[0].Run(asking(t, o, s), -1)
	if got, want := strings.Join(askedBy(crawl[1]), "\n"), "1/0 m asked [0/1 0/2]: true\n1/1 m asked [0/1 0/2]: true\n1/2 m asked [1/1 0/2]"; !strings.HasPrefix(got, want) {
		t.Errorf("lane 1 asked\n%s\nwant\n%s", got, want)
	}
	notes := must.Get(scope.Notes.Read(t.Context(), first))(t)
	must.Do(t, scope.Notes.Note(t.Context(), again, scope.Notes.List(notes)...))
	replayed, r := lanes(t), newSegments(t, t.TempDir(), again)
	var ahead sync.WaitGroup
	ahead.Go(func() { replayed[1].Run(asking(t, o, r), -1) })
	replayed[0].Run(asking(t, o, r), -1)
	ahead.Wait()
	for lane := range crawl {
		same(t, fmt.Sprint("the replay of lane ", lane), replayed[lane], crawl[lane])
	}
}

// TestAReplayThatMakesOthersDoesNotWait asks segments of other digests where these are what the lanes have made. It
// asks none of a group without which a lane has ended, of one that was made with another model, and of one that its own
// lane lacks.
func TestAReplayThatMakesOthersDoesNotWait(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 2)
	s, o := newSegments(t, t.TempDir(), log), scoped(schemas.ScopeCrawl)
	crawl := lanes(t)
	for lane := range crawl {
		crawl[lane].Run(asking(t, scoped(schemas.ScopeLane), s), -1)
	}
	w := log.NewPublisher(stream.PublisherOptions{})
	for seq, r := range crawl[0].Records(schemas.Groups) {
		if g, ok := r.(*schemas.Group); ok && g.Group.Seq == 2 {
			g.Group.Seq, g.Model = 90, "n"
		}
		must.Do(t, w.PublishSeq(t.Context(), schemas.Groups, 0, int64(seq), stream.Mark{}, r))
	}
	must.Do(t, w.Close(t.Context()))
	all := must.Get(s.store.List(t.Context(), "m"))(t)
	own := slices.DeleteFunc(all, func(n store.Name) bool { return n.Lane != 1 })
	note := scope.Choice{Place: scope.Place{Lane: 1, Group: 3, Most: o.Asked}, Segments: []store.Name{
		{Lane: 1, Seq: 0, Digest: "aa"}, {Lane: 0, Seq: 1, Digest: "ab"}, {Lane: 1, Seq: 70, Digest: "ac"}, {Lane: 0, Seq: 90, Digest: "ad"}, {Lane: 0, Seq: 99, Digest: "ae"},
	}}
	must.Do(t, scope.Notes.Note(t.Context(), log, note))
	segments, err := s.ask(t.Context(), schemas.GroupID{Lane: 1, Seq: 3}, "m", o, &closed{Model: "m", Groups: own})
	var got []schemas.GroupID
	for _, one := range segments {
		got = append(got, one.Group)
	}
	if want := []schemas.GroupID{{Lane: 1, Seq: 0}, {Seq: 1}}; err != nil || !slices.Equal(got, want) {
		t.Fatalf("asks groups %v, %v: want %v", got, err, want)
	}
	must.Check(t, closeAll(segments))
}

// TestSegmentsThatAreNoneAreNotChosen has a stranger's files among the segments of another lane, with the highest
// numbers. A choice of them would be final.
func TestSegmentsThatAreNoneAreNotChosen(t *testing.T) {
	folder, log := t.TempDir(), logtest.Open(t, logtest.Broker(t), "", 2)
	s, o := newSegments(t, folder, log), scoped(schemas.ScopeCrawl)
	lanes(t)[0].Run(asking(t, scoped(schemas.ScopeLane), s), -1)
	files := must.Get(filepath.Glob(filepath.Join(folder, "*", "*", "0-5-*.segment")))(t)
	raw := must.Get(os.ReadFile(files[0]))(t)
	for name, content := range map[string][]byte{"0-999999-" + strings.Repeat("ab", 16): []byte("no segment"), "0-999998-" + strings.SplitN(filepath.Base(files[0]), "-", 3)[2][:32]: raw} {
		must.Do(t, os.WriteFile(filepath.Join(filepath.Dir(files[0]), name+".segment"), content, 0o600))
	}
	for range 2 { // by its choice, and by the note of it
		segments, err := s.ask(t.Context(), schemas.GroupID{Lane: 1, Seq: 0}, "m", o, nil)
		var got []schemas.GroupID
		for _, one := range segments {
			got = append(got, one.Group)
		}
		if want := []schemas.GroupID{{Seq: 4}, {Seq: 5}}; err != nil || !slices.Equal(got, want) {
			t.Errorf("asks groups %v, %v: want %v", got, err, want)
		}
		must.Check(t, closeAll(segments))
	}
}

// TestALostSegmentIsNamed removes the segment of a lane's own group.
func TestALostSegmentIsNamed(t *testing.T) {
	folder := t.TempDir()
	s := newSegments(t, folder, nil)
	name := store.Name{Lane: 1, Seq: 2, Digest: "ab"}
	_, err := s.ask(t.Context(), schemas.GroupID{Lane: 1, Seq: 3}, "m", scoped(schemas.ScopeLane), &closed{Model: "m", Groups: []store.Name{name}})
	if err == nil || !strings.Contains(err.Error(), "group 1/3 asks group 1/2: its segment is not in SEGMENTS_ROOT any more") {
		t.Error(err)
	}
	if _, err := (*segments)(nil).ask(t.Context(), schemas.GroupID{}, "m", scoped(schemas.ScopeLane), nil); err == nil || !strings.Contains(err.Error(), "it needs SEGMENTS_ROOT") {
		t.Error(err)
	}
}

// TestAPlaceThatTakesNoSegmentIsNamed gives SEGMENTS_ROOT a file where the folder of a model belongs, as a disk that is
// full or not mounted would. The lane gets an error that it can say, and tries again.
func TestAPlaceThatTakesNoSegmentIsNamed(t *testing.T) {
	root := filepath.Join(t.TempDir(), "segments")
	s := newSegments(t, root, nil)
	must.Do(t, os.RemoveAll(root))
	must.Do(t, os.WriteFile(root, nil, 0o644))
	o := scoped(schemas.ScopeLane)
	made, err := newSpec(t, o, nil, s).New(1, nil)
	must.Do(t, err)
	st := made.(*stage)
	defer st.Close()
	for seq := range int64(o.GroupSize) {
		must.Get(st.core.Add(embedding(int(seq), "m"), seq))(t)
	}
	group, err := st.compute(t.Context(), indexer.ByCount, o)
	if group != nil || !errors.Is(err, stream.ErrTransient) || !strings.Contains(fmt.Sprint(err), "writing the segment of group 1/0 to "+root) {
		t.Errorf("group %v, error %v", group, err)
	}
}
