package stream

import (
	"bytes"
	"cmp"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func TestMarkRoundTrip(t *testing.T) {
	for name, m := range map[string]Mark{
		"zero": {},
		"full": {
			Inputs: []TopicPosition{{Topic: schemas.Groups, Position: Position{Offset: 3, Seq: 2}}, {Topic: schemas.Features, Position: Position{Offset: 1 << 40, Seq: 1 << 30}}},
			Seqs:   []TopicSeq{{schemas.Batches, 17}}, State: []byte("state"),
		},
		"state only": {State: []byte{0}},
	} {
		t.Run(name, func(t *testing.T) {
			raw := appendMark(nil, m)
			got := must.Get(parseMark(raw))(t)
			if !reflect.DeepEqual(got, m) {
				t.Errorf("got %+v, want %+v", got, m)
			}
			if len(m.State) > 0 {
				return
			}
			for n := range raw { // without a state every cut shows
				if got, err := parseMark(raw[:n]); !errors.Is(err, errMark) || !reflect.DeepEqual(got, Mark{}) {
					t.Errorf("cut after %d bytes: got %+v, %v", n, got, err)
				}
			}
		})
	}
}

func FuzzMark(f *testing.F) {
	f.Add(appendMark(nil, Mark{}))
	f.Add(appendMark(nil, Mark{
		Inputs: []TopicPosition{{Topic: schemas.Pairs, Position: Position{Offset: 300, Seq: 0}}}, Seqs: []TopicSeq{{schemas.Embeddings, 299}}, State: []byte("x"),
	}))
	f.Add([]byte{markVersion, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseMark(raw)
		if err != nil {
			if !reflect.DeepEqual(m, Mark{}) {
				t.Errorf("got %+v with error %v", m, err)
			}
			return
		}
		again, err := parseMark(appendMark(nil, m))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%+v comes back as %+v, %v", m, again, err)
		}
		if len(appendMark(nil, m)) > len(raw) || !bytes.HasSuffix(raw, m.State) {
			t.Errorf("%d bytes give %+v", len(raw), m)
		}
	})
}

func TestMarkOrder(t *testing.T) {
	inputs, outputs := []schemas.Topic{schemas.Groups, schemas.Features}, []schemas.Topic{schemas.Batches}
	mark := func(groups, features, batches int64) Mark {
		return Mark{
			Inputs: []TopicPosition{{Topic: schemas.Groups, Position: Position{Offset: groups, Seq: groups}}, {Topic: schemas.Features, Position: Position{Offset: features, Seq: features}}},
			Seqs:   []TopicSeq{{schemas.Batches, batches}},
		}
	}
	ordered := []Mark{{}, mark(0, 0, 1), mark(1, 0, 1), mark(1, 1, 1), mark(1, 1, 2), mark(1, 7, 2), mark(2, 7, 2)}
	for i, a := range ordered {
		for j, b := range ordered {
			if got, want := a.compare(b, inputs, outputs), cmp.Compare(i, j); got != want {
				t.Errorf("marks %d and %d compare as %d, want %d", i, j, got, want)
			}
		}
	}
}

func TestMarkIsCovered(t *testing.T) {
	m := Mark{Seqs: []TopicSeq{{schemas.Neighbors, 5}, {schemas.Groups, 1}}}
	for name, c := range map[string]struct {
		published map[schemas.Topic]int64
		want      bool
	}{
		"just so":        {map[schemas.Topic]int64{schemas.Neighbors: 5, schemas.Groups: 1}, true},
		"more":           {map[schemas.Topic]int64{schemas.Neighbors: 9, schemas.Groups: 2}, true},
		"one short":      {map[schemas.Topic]int64{schemas.Neighbors: 4, schemas.Groups: 1}, false},
		"nothing of one": {map[schemas.Topic]int64{schemas.Neighbors: 5}, false},
	} {
		if got := m.covered(c.published); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestMarkOfAnotherStage refuses to go on from a mark that names topics of another stage.
func TestMarkOfAnotherStage(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l := openLog(t, testConfig(b.Addr(), "", 1))
	put(t, l, sequenced(schemas.Embeddings, 0, 0, Mark{Inputs: []TopicPosition{{Topic: schemas.Groups, Position: Position{Offset: 1, Seq: 1}}}}, testSchema, nil))
	err := <-start(l, batcherSpec()).done
	if !errors.Is(err, errMark) || !strings.Contains(err.Error(), `"groups"`) {
		t.Errorf("got %v", err)
	}
}

// TestTheFurthestCoveredMarkIsChosen has marks at the ends of two outputs.
func TestTheFurthestCoveredMarkIsChosen(t *testing.T) {
	mark := func(offset, chunks, groups int64, state string) Mark {
		return Mark{
			Inputs: []TopicPosition{{Topic: schemas.Embeddings, Position: Position{Offset: offset, Seq: offset}}},
			Seqs:   []TopicSeq{{schemas.Neighbors, chunks}, {schemas.Groups, groups}}, State: []byte(state),
		}
	}
	published := map[schemas.Topic]int64{schemas.Neighbors: 4, schemas.Groups: 2}
	for name, test := range map[string]struct {
		marks []Mark
		want  string
	}{
		"none":                           {nil, ""},
		"the start of the lane":          {[]Mark{mark(0, 0, 0, "begun")}, "begun"},
		"further in its input":           {[]Mark{mark(7, 2, 1, "a"), mark(8, 2, 1, "b")}, "b"},
		"further in an output":           {[]Mark{mark(7, 2, 1, "a"), mark(7, 2, 2, "b")}, "b"},
		"the same place: the first":      {[]Mark{mark(7, 2, 1, "a"), mark(7, 2, 1, "b")}, "a"},
		"all that was written":           {[]Mark{mark(7, 2, 1, "a"), mark(9, 4, 2, "b")}, "b"},
		"ahead of what was acknowledged": {[]Mark{mark(7, 2, 1, "a"), mark(9, 5, 2, "b")}, "a"},
		"all of them ahead":              {[]Mark{mark(9, 4, 3, "a")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := furthest(test.marks, published, []schemas.Topic{schemas.Embeddings}, []schemas.Topic{schemas.Neighbors, schemas.Groups})
			if string(got.State) != test.want {
				t.Errorf("got the mark %q, want %q", got.State, test.want)
			}
		})
	}
}
