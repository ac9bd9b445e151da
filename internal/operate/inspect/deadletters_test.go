package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// letters sets two records aside and reads the dead letters back. One of the records is no msgpack.
func letters(t *testing.T, log *stream.Log) []stream.DeadLetter {
	t.Helper()
	w := newWriter(t, log)
	id := schemas.NewImageID([]byte("image"))
	w.check(w.p.Publish(t.Context(), schemas.Pairs, 0, &schemas.Pair{
		ID: schemas.NewPairID(id, "a dog"), ImageID: id, Image: &schemas.ImageRef{URI: "file:///crawl/0.tar", Offset: 512, Size: 100}, Caption: "a dog",
	}))
	w.check(w.p.PublishBytes(t.Context(), schemas.Pairs, 0, "\x1b[31mpairstream.pair/1", bytes.Repeat([]byte("{no msgpack}"), 50)))
	w.aside(log, "encoder", 0, "image missing: file:///crawl/0.tar", "not well-formed: \x1b[31m"+strings.Repeat(" long", 30))
	var out []stream.DeadLetter
	for d, err := range log.DeadLetters(t.Context()) {
		w.check(err)
		d.Time = noon
		out = append(out, d)
	}
	if len(out) != 2 {
		t.Fatalf("%d dead letters, want 2", len(out))
	}
	return out
}

func TestPrintLetters(t *testing.T) {
	all := letters(t, openLog(t, 1))
	var list bytes.Buffer
	must.Do(t, PrintLetters(&list, all, noon.Add(time.Minute)))
	golden(t, "letters.txt", list.Bytes())
	for name, d := range map[string]stream.DeadLetter{"letter-pair.txt": all[0], "letter-broken.txt": all[1]} {
		var out bytes.Buffer
		must.Do(t, PrintLetter(&out, d, false))
		golden(t, name, out.Bytes())
	}
	var whole bytes.Buffer
	if err := PrintLetter(&whole, all[1], true); err != nil || strings.Count(whole.String(), "|\n") != 600/16+1 {
		t.Errorf("%v; the whole value is\n%s", err, whole.String())
	}
}

func TestJSONLetter(t *testing.T) {
	for i, d := range letters(t, openLog(t, 1)) {
		raw := must.Get(JSONLetter(d))(t)
		var got struct {
			Number int64
			Lane   int
			Schema string
			Value  map[string]any
			Hex    string
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		if got.Number != int64(i) || got.Schema != d.Schema {
			t.Errorf("letter %s", raw)
		}
		if isPair := i == 0; isPair != (got.Value["caption"] == "a dog") || isPair != (got.Hex == "") {
			t.Errorf("letter %s", raw)
		}
	}
}

func TestFilter(t *testing.T) {
	d := stream.DeadLetter{Stage: "encoder", Reason: "image missing: File:///Crawl/0.tar"}
	for _, tt := range []struct {
		f    Filter
		want bool
	}{
		{Filter{}, true},
		{Filter{Stage: "encoder"}, true},
		{Filter{Stage: "enc"}, false},
		{Filter{Reason: "image missing"}, true},
		{Filter{Reason: "CRAWL"}, true},
		{Filter{Reason: "truncated"}, false},
		{Filter{Stage: "trainer", Reason: "image missing"}, false},
	} {
		if got := tt.f.Match(d); got != tt.want {
			t.Errorf("filter %+v matches: %t", tt.f, got)
		}
	}
}

func TestPutBack(t *testing.T) {
	log := openLog(t, 3)
	w := newWriter(t, log)
	w.pairs(0, 1)
	w.seal(0, false)
	w.pairs(1, 1)
	w.seal(1, true)
	w.check(w.p.Flush(t.Context()))
	b := must.Get(NewPutBack(t.Context(), log, false))(t)
	for _, tt := range []struct {
		topic schemas.Topic
		lane  int
		want  string
	}{
		{schemas.Pairs, 0, ""},
		{schemas.Pairs, 2, ""},
		{schemas.Pairs, 1, "dead letter 5 cannot be put back: lane 1 has ended with a final seal"},
		{schemas.Pairs, 3, "dead letter 5 cannot be put back: it comes from lane 3, and LANES=3"},
		{schemas.Pairs, -1, "dead letter 5 cannot be put back: it comes from lane -1, and LANES=3"},
		{schemas.Embeddings, 0, `dead letter 5 cannot be put back: it comes from "embeddings", and only pairs take records from outside`},
		{schemas.DeadLetters, 0, `dead letter 5 cannot be put back: it comes from "dead-letters", and only pairs take records from outside`},
	} {
		err := b.Check(stream.DeadLetter{Number: 5, Topic: tt.topic, Lane: tt.lane})
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (!errors.Is(err, ErrStays) || err.Error() != tt.want):
			t.Errorf("%s/%d: error %v, want %q", tt.topic, tt.lane, err, tt.want)
		}
	}
}
