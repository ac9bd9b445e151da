package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/kafkatest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func collect(t *testing.T, c *Collector) *Status {
	t.Helper()
	s := must.Get(c.Collect(t.Context(), noon))(t)
	return s
}

func TestCollectNothing(t *testing.T) {
	s := collect(t, NewCollector(openLog(t, 2), 100))
	for _, stage := range s.Stages {
		if stage.Lag != 0 || stage.WorstLane != -1 || stage.LastProgress != nil {
			t.Errorf("stage %+v", stage)
		}
	}
	want := Lane{
		Lane: 1, State: StateOpen, Group: OpenGroup{Size: 100},
		Lag: map[string]int64{"encoder": 0, "indexer": 0, "grouper": 0, "discriminator": 0, "trainer": 0},
	}
	if len(s.Lanes) != 2 || !reflect.DeepEqual(s.Lanes[1], want) {
		t.Errorf("lanes %+v", s.Lanes)
	}
	if s.Training != nil || len(s.DeadLetters) != 0 || s.Waiting != (Waiting{}) || s.Namespace != "test" {
		t.Errorf("status %+v", s)
	}
}

// run writes a run in the middle of its work: lane 0 has 11 pairs and an end, lane 1 three pairs.
func run(t *testing.T, log *stream.Log) writer {
	w := newWriter(t, log)
	w.pairs(0, 10)
	w.seal(0, true)
	w.pairs(1, 3)
	for seq := range int64(7) { // the encoder has embedded seven of eight pairs that it read
		w.stage(schemas.Embeddings, 0, seq, refusal, schemas.Pairs, at(seq+1, 0))
	}
	w.stage(schemas.Embeddings, 0, 6, refusal, schemas.Pairs, at(7, 0)) // a restart wrote it again
	for g := range int64(2) {                                           // groups of two pairs
		w.stage(schemas.Neighbors, 0, g, chunk(0, g), schemas.Embeddings, at(2*g, 2*g))
		// A new owner reads what fills the window of repetitions from the lane's start.
		w.stage(schemas.Groups, 0, g, manifest(0, g, 2*g+2), schemas.Embeddings, at(0, 0))
	}
	for seq := range int64(6) {
		w.stage(schemas.Batches, 0, seq, filler, schemas.Groups, at(1, 1))
	}
	for seq := range int64(5) {
		w.stage(schemas.Scored, 0, seq, filler, schemas.Batches, at(seq+1, seq+1))
	}
	w.check(w.p.PublishSeq(t.Context(), schemas.Features, 0, 0, stream.Mark{}, &schemas.Seal{}))
	w.check(w.p.Publish(t.Context(), schemas.ProgressLog, 0, &schemas.Progress{Kind: schemas.ProgressStep, Step: 7, Values: schemas.Measures{"loss": 2.5}}))
	w.check(w.p.Flush(t.Context()))
	reached(log, "encoder", schemas.Pairs, 8)
	reached(log, "indexer", schemas.Embeddings, 4)
	reached(log, "discriminator", schemas.Batches, 2) // older than the last mark
	return w
}

// reached commits to a stage's group how far the stage is in lane 0.
func reached(log *stream.Log, stage string, topic schemas.Topic, offset int64) {
	f := log.Follow(stream.FollowSpec{Name: stage, Topic: topic})
	f.Reached(0, offset)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	f.Watch(over)
}

func TestCollect(t *testing.T) {
	log := openLog(t, 2)
	run(t, log)
	c := NewCollector(log, 100)
	s := collect(t, c)

	wantLag := []map[string]int64{
		// 12 records less 8 committed; 8 embeddings in the log less 4 committed; 2 manifests less 1; 6 batches less 5; the
		// trainer has not committed: 5 scored less 1 block, less the seal at the end.
		{"encoder": 3, "indexer": 4, "grouper": 1, "discriminator": 1, "trainer": 3},
		{"encoder": 3, "indexer": 0, "grouper": 0, "discriminator": 0, "trainer": 0},
	}
	for lane, want := range wantLag {
		if !maps.Equal(s.Lanes[lane].Lag, want) {
			t.Errorf("lane %d lags by %v, want %v", lane, s.Lanes[lane].Lag, want)
		}
	}
	if got, want := s.Lanes[0].Group, (OpenGroup{Number: 2, Pairs: 3, Size: 100}); got != want {
		t.Errorf("open group %+v, want %+v", got, want)
	}
	if s.Lanes[0].State != StateEnded || s.Lanes[1].State != StateOpen || s.Lanes[0].Pairs != 10 || s.Lanes[1].Pairs != 3 {
		t.Errorf("lanes %+v", s.Lanes)
	}
	if e := s.Stages[0]; e.Name != "encoder" || e.Lag != 6 || e.WorstLane != 0 || e.LastProgress == nil || time.Since(*e.LastProgress) > time.Hour {
		t.Errorf("encoder %+v", e)
	}
	if e := s.Topics[1]; e.Topic != schemas.Embeddings || e.Records != 7 || e.Repeated != 1 {
		t.Errorf("embeddings %+v", e)
	}
	if got := s.Topics[0]; got.Records != 14 || got.Repeated != 0 {
		t.Errorf("pairs %+v", got)
	}
	if want := (Waiting{Scoring: 1, Training: 3}); s.Waiting != want {
		t.Errorf("waiting %+v, want %+v", s.Waiting, want)
	}
	if tr := s.Training; tr == nil || tr.Step != 7 || tr.Values["loss"] != 2.5 {
		t.Errorf("training %+v", tr)
	}

	reached(log, "trainer", schemas.Scored, 3)
	if got := collect(t, c).Lanes[0].Lag["trainer"]; got != 2 {
		t.Errorf("the trainer has committed and lags by %d, want 2", got)
	}
	raw := must.Get(json.Marshal(s))(t)
	var back Status
	if err := json.Unmarshal(raw, &back); err != nil || !reflect.DeepEqual(back.Lanes, s.Lanes) {
		t.Errorf("JSON %s reads back as %+v, %v", raw, back, err)
	}
}

func TestCollectEnd(t *testing.T) {
	log := openLog(t, 1)
	w := newWriter(t, log)
	w.seal(0, true)
	final := &schemas.Seal{Final: true}
	w.stage(schemas.Embeddings, 0, 0, final, schemas.Pairs, at(1, 0))
	w.stage(schemas.Groups, 0, 0, final, schemas.Embeddings, at(1, 1))
	w.stage(schemas.Batches, 0, 0, final, schemas.Groups, at(1, 1))
	w.check(w.p.Flush(t.Context()))
	c := NewCollector(log, 100)
	if got := collect(t, c).Lanes[0]; got.State != StateEnded || got.Lag["discriminator"] != 1 || got.Group.Pairs != 0 {
		t.Errorf("lane %+v, want it ended with a batch to score", got)
	}
	w.stage(schemas.Scored, 0, 0, final, schemas.Batches, at(1, 1))
	w.check(w.p.Flush(t.Context()))
	if got := collect(t, c).Lanes[0].State; got != StateDone {
		t.Errorf("lane is %s, want it done", got)
	}
}

// A lane of three pairs ends: with a group open, with one that was full before the seal, and with all of it done.
func TestSealsAreNoPairs(t *testing.T) {
	log := openLog(t, 3)
	w := newWriter(t, log)
	final := &schemas.Seal{Final: true}
	for lane := range 3 {
		w.pairs(lane, 3)
		w.seal(lane, true)
		for seq := range int64(3) {
			w.stage(schemas.Embeddings, lane, seq, refusal, schemas.Pairs, at(seq+1, 0))
		}
		w.stage(schemas.Embeddings, lane, 3, final, schemas.Pairs, at(4, 0))
		if lane > 0 {
			w.stage(schemas.Groups, lane, 0, manifest(lane, 0, 3), schemas.Embeddings, at(0, 0))
		}
	}
	w.stage(schemas.Groups, 2, 1, final, schemas.Embeddings, at(0, 0))
	w.check(w.p.Flush(t.Context()))
	s := collect(t, NewCollector(log, 5))
	for lane, want := range []OpenGroup{{Pairs: 3, Size: 5}, {Size: 5}, {Size: 5}} {
		if got := s.Lanes[lane]; got.Pairs != 3 || got.Group != want || got.State != StateEnded {
			t.Errorf("lane %+v, want 3 pairs and the open group %+v", got, want)
		}
	}
	if got := s.Topics[0]; got.Topic != schemas.Pairs || got.Records != 12 {
		t.Errorf("the topic has %+v, want 12 records: seals are records", got)
	}
}

// An indexer that lags has more embeddings before it than a group takes, and refusals take no place in one.
func TestNoOpenGroupIsMoreThanFull(t *testing.T) {
	log := openLog(t, 1)
	w := newWriter(t, log)
	for seq := range int64(7) {
		w.stage(schemas.Embeddings, 0, seq, refusal, schemas.Pairs, at(seq+1, 0))
	}
	w.check(w.p.Flush(t.Context()))
	if got, want := collect(t, NewCollector(log, 5)).Lanes[0].Group, (OpenGroup{Pairs: 5, Size: 5}); got != want {
		t.Errorf("open group %+v, want %+v", got, want)
	}
}

// TestCollectBesideANewerVersion looks at lanes whose last records this version cannot read. What it can read is there.
func TestCollectBesideANewerVersion(t *testing.T) {
	log := openLog(t, 2)
	run(t, log)
	before := collect(t, NewCollector(log, 100)).Lanes[0].Group
	for _, topic := range []schemas.Topic{schemas.Embeddings, schemas.Neighbors, schemas.Groups, schemas.Batches, schemas.Scored, schemas.Features} {
		last, found, err := log.LastRecord(t.Context(), topic, 0)
		if err != nil || !found {
			t.Fatalf("%s: found %t, %v", topic, found, err)
		}
		src, _ := last.Header(schemas.HeaderSource)
		newer := kafkatest.Message{Topic: topic.Name(log.Config().Namespace), Value: []byte("of tomorrow"), Headers: []kafkatest.MessageHeader{
			{Key: schemas.HeaderSchema, Value: []byte(strings.TrimSuffix(last.Schema, "/1") + "/2")},
			{Key: schemas.HeaderSeq, Value: fmt.Append(nil, last.Seq+1)},
			{Key: schemas.HeaderSource, Value: src},
		}}
		must.Do(t, kafkatest.WriteMessage(t.Context(), log.Config().Brokers, newer))
	}
	if got := collect(t, NewCollector(log, 100)).Lanes[0].Group; got.Number != before.Number {
		t.Errorf("open group %+v, was %+v", got, before)
	}
}

func TestCollectDeadLettersOnce(t *testing.T) {
	log := openLog(t, 2)
	w := newWriter(t, log)
	w.pairs(0, 4)
	w.pairs(1, 1)
	w.aside(log, "encoder", 0, "image missing: a", "", "image missing: b", "Broken in a way of its own")
	w.aside(log, "encoder", 0, "image missing: a") // again, after a crash
	c := NewCollector(log, 100)
	want := []DeadCount{{"encoder", "image missing", 2}, {"encoder", "other", 1}}
	for range 2 {
		if got := collect(t, c).DeadLetters; !slices.Equal(got, want) {
			t.Errorf("dead letters %+v, want %+v", got, want)
		}
	}
	w.aside(log, "encoder", 1, "image missing: c")
	w.aside(log, "trainer", 0, "", "foreign record: x", "image missing: b")
	want = []DeadCount{{"encoder", "image missing", 3}, {"encoder", "other", 1}, {"trainer", "foreign record", 1}}
	if got := collect(t, c).DeadLetters; !slices.Equal(got, want) {
		t.Errorf("dead letters %+v, want %+v", got, want)
	}
}

func TestCollectEnds(t *testing.T) {
	log := openLog(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := NewCollector(log, 1).Collect(ctx, noon); err == nil {
		t.Errorf("status %+v of a cancelled call", s)
	}
}

// A lane whose last scored batch says that connections are off says so, whatever follows. One that is measured does
// not.
func TestCollectSaysThatConnectionsAreOff(t *testing.T) {
	log := openLog(t, 4)
	w := newWriter(t, log)
	checks := []*schemas.Check{nil, {Positives: 258, AUC: 0.5, Least: 0.55}, {Positives: 12, AUC: 0.5, Least: 0.55, Open: true}, {Positives: 258, AUC: 0.75, Least: 0.55}}
	for lane, check := range checks {
		image := schemas.NewImageID([]byte{byte(lane)})
		w.stage(schemas.Scored, lane, 0, &schemas.ScoredBatch{
			Batch: schemas.Batch{
				Group: schemas.GroupID{Lane: int32(lane)}, Batches: 1, Strategy: schemas.StrategyRandom,
				Samples: []schemas.Sample{{ID: schemas.NewPairID(image, "a"), ImageID: image, Text: "a", Image: schemas.ImageRef{URI: "file:///a.tar", Size: 10}}},
			},
			Model: "m", Check: check,
		}, schemas.Batches, at(1, 1))
		w.stage(schemas.Scored, lane, 1, &schemas.Seal{}, schemas.Batches, at(2, 2))
	}
	w.check(w.p.Flush(t.Context()))
	for lane, l := range collect(t, NewCollector(log, 100)).Lanes {
		want := ""
		if lane == 1 {
			want = checks[1].String()
		}
		if l.ConnectionsOff != want || l.Says != nil {
			t.Errorf("lane %d: connections are off as %q, want %q; it says %+v", lane, l.ConnectionsOff, want, l.Says)
		}
	}
}

// The mark of a lane says what its guard does, where no record says that connections are on. What another discriminator
// has put into a mark hides nothing.
func TestCollectSaysWhatTheGuardDoes(t *testing.T) {
	log := openLog(t, 5)
	w := newWriter(t, log)
	precision := func(low float64) *schemas.Precision {
		return &schemas.Precision{Above: 0.8, Value: 0.75, Low: low, High: 0.9, Base: 0.1, Judged: 40, Right: 30}
	}
	checks := []*schemas.Check{
		{Positives: 288, AUC: 0.9, Least: 0.4, Precision: precision(0.5)},
		{Positives: 288, AUC: 0.9, Least: 0.4, Precision: precision(0.4)},
		{Positives: 12, AUC: 0.9, Least: 0.4, Open: true, Precision: precision(0.5)},
		nil, nil,
	}
	for lane, check := range checks {
		state, err := json.Marshal(map[string]any{"model": "m", "check": check})
		switch {
		case lane == 3:
			state = nil // there is no guard
		case lane == 4:
			state = []byte("new")
		case err != nil:
			t.Fatal(err)
		}
		mark := stream.Mark{Inputs: []stream.TopicPosition{{Topic: schemas.Batches, Position: at(1, 1)}}, State: state}
		w.check(w.p.PublishSeq(t.Context(), schemas.Scored, lane, 0, mark, &schemas.Seal{}))
	}
	w.check(w.p.Flush(t.Context()))
	for lane, want := range []string{"on", "off", "measuring", "", ""} {
		l := collect(t, NewCollector(log, 100)).Lanes[lane]
		if want == "" {
			if l.Connections != nil || l.ConnectionsOff != "" {
				t.Errorf("lane %d: %+v, off as %q", lane, l.Connections, l.ConnectionsOff)
			}
			continue
		}
		if c := l.Connections; c == nil || c.State != want || c.Judged != 40 || c.Above != 0.8 || c.Precision != 0.75 || (l.ConnectionsOff != "") != (want == "off") {
			t.Errorf("lane %d: %+v, off as %q, want %s", lane, c, l.ConnectionsOff, want)
		}
	}
}
