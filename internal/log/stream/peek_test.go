package stream

import (
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func TestLastRecordIsWhole(t *testing.T) {
	l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "last", 2))
	if rec, found, err := l.LastRecord(t.Context(), schemas.Groups, 0); found || err != nil {
		t.Errorf("an empty lane has the record %+v, %v", rec, err)
	}
	mark := Mark{Inputs: []TopicPosition{{Topic: schemas.Embeddings, Position: Position{Offset: 9, Seq: 7}}}}
	put(
		t, l, pair(0, "first"), pair(0, "second"), pair(1, "other lane"),
		numbered(schemas.Groups, 0, 0, "zero"),
		sequenced(schemas.Groups, 0, 1, mark, testSchema, []byte("one")),
		message{Message: kafka.Message{Topic: schemas.Groups, Value: []byte("foreign")}},
	)
	rec, found, err := l.LastRecord(t.Context(), schemas.Groups, 0)
	if err != nil || !found || string(rec.Value) != "one" || rec.Seq != 1 || rec.Offset != 1 || rec.Schema != testSchema {
		t.Fatalf("last record of a stage is %+v, %t, %v", rec, found, err)
	}
	if got, err := MarkOf(rec); err != nil || got.Input(schemas.Embeddings) != (Position{Offset: 9, Seq: 7}) || got.Input(schemas.Pairs) != (Position{}) {
		t.Errorf("mark %+v, %v", got, err)
	}
	if rec, found, err = l.LastRecord(t.Context(), schemas.Pairs, 0); err != nil || !found || string(rec.Value) != "second" || rec.Schema != testSchema {
		t.Errorf("last pair is %+v, %t, %v", rec, found, err)
	}
	if _, err := MarkOf(rec); err == nil {
		t.Error("a pair has a mark")
	}
}

func TestCopyKeepsEverything(t *testing.T) {
	broker := startBroker(t, broker.Options{})
	from, to := openLog(t, testConfig(broker.Addr(), "from", 1)), openLog(t, testConfig(broker.Addr(), "to", 1))
	put(t, from, message{Message: kafka.Message{Topic: schemas.Pairs, Key: []byte("key"), Value: []byte("value"), Headers: []kafka.Header{
		{Key: "schema", Value: []byte("s")}, {Key: "trace", Value: []byte("t")},
	}}}, numbered(schemas.Embeddings, 0, 0, "embedding"))

	p := to.NewPublisher(PublisherOptions{})
	for rec, err := range from.Records(t.Context(), schemas.Pairs, 0, Position{}, -1) {
		must.Do(t, err)
		must.Do(t, p.Copy(t.Context(), rec))
	}
	for rec, err := range from.Records(t.Context(), schemas.Embeddings, 0, Position{}, -1) {
		if err != nil || p.Copy(t.Context(), rec) == nil {
			t.Errorf("a stage's record was copied (%v)", err)
		}
	}
	must.Do(t, p.Close(t.Context()))
	rec, found, err := to.LastRecord(t.Context(), schemas.Pairs, 0)
	if err != nil || !found || string(rec.Key) != "key" || string(rec.Value) != "value" || rec.Schema != "s" {
		t.Fatalf("copy is %+v, %t, %v", rec, found, err)
	}
	if v, _ := rec.Header("trace"); string(v) != "t" {
		t.Errorf("headers %v", rec.Headers)
	}
}

func TestDeadLettersFrom(t *testing.T) {
	l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "dead", 1))
	set := func(offset int64, reason string) message {
		return deadLetter("encoder", Record{Topic: schemas.Pairs, Offset: offset, Headers: []kafka.Header{{Key: "schema", Value: []byte("s")}}}, reason)
	}
	put(t, l, set(3, "image missing: a"), set(4, "image missing: b"), set(3, "image missing: a"), set(7, "Strange"))
	for first, want := range map[int64][]int64{0: {0, 1, 3}, 1: {1, 2, 3}, 4: nil, 9: nil} {
		var got []int64
		for d, err := range l.DeadLettersFrom(t.Context(), first) {
			must.Do(t, err)
			got = append(got, d.Number)
			if h := d.Headers; len(h) != 1 || h[0].Key != "schema" || string(h[0].Value) != "s" {
				t.Errorf("headers %v", h)
			}
			if want := map[int64]string{3: "other"}[d.Number]; want != "" && d.Class() != want || want == "" && d.Class() != "image missing" {
				t.Errorf("dead letter %d is of class %q", d.Number, d.Class())
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("from %d: numbers %v, want %v", first, got, want)
		}
	}
}
