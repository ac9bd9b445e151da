package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestSkip damages a lane, lets the operator look and go on, and reads the lane again. Every reader sees the same.
func TestSkip(t *testing.T) {
	b := startBroker(t, broker.Options{})
	number := func(seqs ...int64) []message {
		var m []message
		for _, s := range seqs {
			m = append(m, numbered(schemas.Embeddings, 0, s, fmt.Sprint("value ", s)))
		}
		return m
	}
	values := func(seqs ...int64) []string {
		var out []string
		for _, s := range seqs {
			out = append(out, fmt.Sprint("value ", s))
		}
		return out
	}
	for name, c := range map[string]struct {
		log    []message
		delete int64 // retention removes what lies before, once the first record was processed
		want   Skip
		read   []string // in the end
	}{
		"lost records":              {number(0, 1, 5, 6), 0, Skip{From: Position{Offset: 2, Seq: 2}, To: Position{Offset: 2, Seq: 5}}, values(0, 1, 5, 6)},
		"a foreign record":          {number(0, 1, 1<<40, 2, 3), 0, Skip{From: Position{Offset: 2, Seq: 2}, To: Position{Offset: 3, Seq: 2}}, values(0, 1, 2, 3)},
		"repetitions before a loss": {number(0, 1, 0, 1, 4, 3, 4, 5), 0, Skip{From: Position{Offset: 4, Seq: 2}, To: Position{Offset: 4, Seq: 4}}, values(0, 1, 4, 5)},
		"retention was too short":   {number(0, 1, 2, 3, 4), 3, Skip{From: Position{Offset: 1, Seq: 1}, To: Position{Offset: 3, Seq: 3}}, values(3, 4)},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, testConfig(b.Addr(), strings.ReplaceAll(name, " ", "-"), 1))
			l.parkedPause = 20 * time.Millisecond
			spec := failingSpec(func(Record) error { return nil })
			put(t, l, c.log[0])
			r := start(l, spec)
			awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Groups: 0}, 0)
			r.stop(t)
			put(t, l, c.log[1:]...)
			if c.delete > 0 {
				deleteRecords(t, l, schemas.Embeddings, c.delete)
			}
			r = start(l, spec)
			await(t, "the lane is parked", func() bool {
				return strings.HasPrefix(strings.Join(spec.Counters.States(), ""), "lane 0 parked: records are missing")
			})

			got, err := l.FindDamage(t.Context(), schemas.Embeddings, 0, Position{Offset: 1, Seq: 1})
			if err != nil || got.From != c.want.From || got.To != c.want.To || !strings.HasPrefix(got.Found, "records are missing: topic ") {
				t.Fatalf("found %+v, error %v, want %+v", got, err, c.want)
			}
			got.Reason = "a disk was lost"
			must.Do(t, l.Skip(t.Context(), got))
			last := int64(len(c.read) - 1)
			if c.delete > 0 {
				last++ // counting the one before retention
			}
			awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Groups: last}, 0)
			r.stop(t)
			out := lines(t, l, schemas.Groups, 0)
			if want := c.read; !slices.Equal(out[len(out)-len(want):], want) || int64(len(out)) != last+1 {
				t.Errorf("the stage has %q, want %q", out, want)
			}

			// A reader of the trainer's kind, and a later look.
			from := Position{}
			if c.delete > 0 {
				from = Position{Offset: 1, Seq: 1}
			}
			reader := l.OpenReader(schemas.Embeddings, 0, from, ReaderOptions{})
			defer reader.Close()
			for _, want := range c.read {
				if rec, err := reader.Next(t.Context()); err != nil || string(rec.Value) != want {
					t.Fatalf("read %q, error %v, want %q", rec.Value, err, want)
				}
			}
			if c.delete == 0 { // one that has stopped right there
				at := l.OpenReader(schemas.Embeddings, 0, c.want.From, ReaderOptions{})
				defer at.Close()
				if rec, err := at.Next(t.Context()); err != nil || string(rec.Value) != c.read[c.want.From.Seq] {
					t.Errorf("from where the lane was parked, read %q, error %v, want %q", rec.Value, err, c.read[c.want.From.Seq])
				}
			}
			if again, err := l.FindDamage(t.Context(), schemas.Embeddings, 0, Position{Offset: 1, Seq: 1}); err != nil || again != (Skip{}) {
				t.Errorf("afterwards: %+v, error %v", again, err)
			}
			skips, err := l.Skips(t.Context())
			if err != nil || len(skips) != 1 || skips[0].Reason != "a disk was lost" || skips[0].Time.IsZero() {
				t.Errorf("recorded: %+v, error %v", skips, err)
			}
		})
	}
}

// TestForeignRecordAtTheEnd puts a record with a seq that is too high behind the last record. When it has no mark, no
// stage wrote it, and it is foreign although nothing comes behind it. Once it was declared foreign, its stage does not
// take it for its own last record either.
func TestForeignRecordAtTheEnd(t *testing.T) {
	l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 1))
	put(t, l, numbered(schemas.Embeddings, 0, 0, "value 0"), numbered(schemas.Embeddings, 0, 1, "value 1"))
	foreign := numbered(schemas.Embeddings, 0, 7, "foreign")
	foreign.Headers = foreign.Headers[:2]
	put(t, l, foreign)
	got, err := l.FindDamage(t.Context(), schemas.Embeddings, 0, Position{})
	if err != nil || got.From != (Position{Offset: 2, Seq: 2}) || got.To != (Position{Offset: 3, Seq: 2}) {
		t.Errorf("proposes %+v, error %v, want to pass over one record", got, err)
	}
	put(t, l, numbered(schemas.Embeddings, 0, 9, "foreign, with a mark"))
	if last, err := l.LastSeq(t.Context(), schemas.Embeddings, 0); err != nil || last != 9 {
		t.Errorf("the last seq is %d, error %v, want 9", last, err)
	}
	must.Do(t, l.Skip(t.Context(), Skip{Topic: schemas.Embeddings, From: Position{Offset: 3, Seq: 2}, To: Position{Offset: 4, Seq: 2}, Reason: "not ours"}))
	if last, err := l.LastSeq(t.Context(), schemas.Embeddings, 0); err != nil || last != 1 {
		t.Errorf("the last seq is %d, error %v, want 1", last, err)
	}
}

func TestSkipRefuses(t *testing.T) {
	l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 2))
	good := Skip{Topic: schemas.Groups, Lane: 1, From: Position{Offset: 3, Seq: 3}, To: Position{Offset: 4, Seq: 9}, Reason: "r"}
	for want, change := range map[string]func(*Skip){
		"below LANES=2":    func(s *Skip) { s.Lane = 2 },
		"topic with lane":  func(s *Skip) { s.Topic = schemas.DeadLetters },
		"2} skips nothing": func(s *Skip) { s.To.Seq = 2 },
		"3} skips nothing": func(s *Skip) { s.To = s.From },
		"reason is empty":  func(s *Skip) { s.Reason = "" },
	} {
		s := good
		change(&s)
		if err := l.Skip(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	must.Check(t, l.Skip(t.Context(), good))
}

// TestSkipAtItsPlace begins to read where a skip begins, as a stage does that has processed all before.
func TestSkipAtItsPlace(t *testing.T) {
	l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 1))
	for _, seq := range []int64{0, 1, 5, 6} {
		put(t, l, numbered(schemas.Embeddings, 0, seq, fmt.Sprint("value ", seq)))
	}
	s := must.Get(l.FindDamage(t.Context(), schemas.Embeddings, 0, Position{Offset: 2, Seq: 2}))(t)
	s.Reason = "a disk was lost"
	must.Do(t, l.Skip(t.Context(), s))
	reader := l.OpenReader(schemas.Embeddings, 0, Position{Offset: 2, Seq: 2}, ReaderOptions{})
	defer reader.Close()
	for _, want := range []string{"value 5", "value 6"} {
		if rec, err := reader.Next(t.Context()); err != nil || string(rec.Value) != want {
			t.Fatalf("read %q, error %v, want %q", rec.Value, err, want)
		}
	}
	for rec, err := range l.Records(t.Context(), schemas.Embeddings, 0, Position{Offset: 2, Seq: 2}, -1) {
		if err != nil || string(rec.Value) != "value 5" {
			t.Errorf("read %q, error %v, want value 5", rec.Value, err)
		}
		break
	}
}
