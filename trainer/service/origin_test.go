package service

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// trainAll trains on three lanes of a new log and returns it with the last checkpoint's positions.
func trainAll(t *testing.T, log *stream.Log) positions {
	t.Helper()
	putScored(t, log, 0, 1, 2)
	d := new(disk)
	must.Get(live(t, log, d, t.TempDir(), life{order: Rotation, dieAt: -1}))(t)
	at := must.Get(parsePositions(d.positions, []int{0, 1, 2}))(t)
	return at
}

func lastOf(t *testing.T, log *stream.Log) map[int]int64 {
	t.Helper()
	last := must.Get(lastFeatures(t.Context(), log))(t)
	return last
}

// A checkpoint of another namespace or cluster is refused, and the error names both. A checkpoint that names none is
// accepted.
func TestCheckpointsNameTheirLog(t *testing.T) {
	log := testLogs(t)("exp")
	here, err := originOf(t.Context(), log)
	if err != nil || here != (origin{"exp", "pairstream"}) {
		t.Fatalf("the log is %+v (%v), want namespace exp of the embedded broker", here, err)
	}
	for _, c := range []struct {
		from origin
		want []string // in the error; nil: none
	}{
		{here, nil},
		{origin{"exp", ""}, nil},
		{origin{"other", "pairstream"}, []string{`NAMESPACE "other"`, `this is "exp"`}},
		{origin{"exp", "kafka-1"}, []string{`cluster "kafka-1"`, `this is "pairstream"`}},
	} {
		err := c.from.check(here)
		if (err == nil) != (c.want == nil) || err != nil && !errors.Is(err, errOtherLog) {
			t.Errorf("%+v: %v", c.from, err)
		}
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %s in it", c.from, err, want)
			}
		}
	}
}

// Positions continue in the log in which they were made, and in no other: not in a shorter one, nor in one of other
// records.
func TestPositionsContinueInTheirLogAlone(t *testing.T) {
	open := testLogs(t)
	log := open("own")
	at := trainAll(t, log)
	if at.Lanes[1].Read == "" || at.Lanes[1].Features != testBatches {
		t.Fatalf("positions %+v", at)
	}
	if err := at.continues(t.Context(), log, lastOf(t, log)); err != nil {
		t.Errorf("in their own log: %v", err)
	}
	empty := open("empty")
	if err := at.continues(t.Context(), empty, lastOf(t, empty)); !errors.Is(err, errOtherLog) || !strings.Contains(err.Error(), "the log ends at -1") {
		t.Errorf("in an empty log: %v", err)
	}
	longer := open("longer")
	p := longer.NewPublisher(stream.PublisherOptions{})
	for lane := range testLanes {
		for n := range testBatches + 3 {
			b := testBatch(lane, n)
			b.Model, b.Batches = "another", testBatches+3
			must.Do(t, p.PublishSeq(t.Context(), schemas.Scored, lane, int64(n), stream.Mark{}, b))
		}
	}
	must.Do(t, p.Close(t.Context()))
	published := map[int]int64{0: 9, 1: 9, 2: 9} // whatever its features are
	if err := at.continues(t.Context(), longer, published); !errors.Is(err, errOtherLog) || !strings.Contains(err.Error(), "the checkpoint was trained on") {
		t.Errorf("in a longer log of other records: %v", err)
	}
	for i := range at.Lanes {
		at.Lanes[i].Read = "" // as before it was recorded
	}
	if err := at.continues(t.Context(), longer, published); err != nil {
		t.Errorf("positions that name no record: %v", err)
	}
	at.Lanes[2].Scored.Offset = 99
	if err := at.continues(t.Context(), log, lastOf(t, log)); !errors.Is(err, errOtherLog) || !strings.Contains(err.Error(), "lane 2 goes on at offset 99") {
		t.Errorf("behind the end of the lane: %v", err)
	}
}

// The trainer still reads what older checkpoints hold.
func TestOldPositionsAreRead(t *testing.T) {
	at, err := parsePositions(json.RawMessage(`{"lanes":[{"lane":0,"scored":{"Offset":3,"Seq":2},"features":2,"ended":false}],"turn":0}`), []int{0})
	if err != nil || at.Log != nil || at.Lanes[0] != (lanePosition{Lane: 0, Scored: stream.Position{Offset: 3, Seq: 2}, Features: 2}) {
		t.Errorf("%+v (%v)", at, err)
	}
}

// Two trainers cannot have one folder. Once the first is gone the second can.
func TestAFolderHasOneTrainer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	lock := must.Get(lockFolder(dir))(t)
	if _, err := lockFolder(dir); err == nil || !strings.Contains(err.Error(), "another trainer") {
		t.Errorf("the second trainer: %v", err)
	}
	must.Do(t, lock.release())
	again := must.Get(lockFolder(dir))(t)
	must.Check(t, again.release())
}

// New weights that begin now are trained on what is behind the features, lane by lane, and on nothing before.
func TestTrainingFromNow(t *testing.T) {
	log := testLogs(t)("exp")
	putScored(t, log, 0, 2)
	d := new(disk)
	if _, err := live(t, log, d, t.TempDir(), life{order: Arrival, dieAt: -1, dieIn: 5, flushed: true}); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	last := lastOf(t, log)
	at := must.Get(behindFeatures(t.Context(), log, last))(t)
	for i, l := range at.Lanes {
		want := last[i] + 1 // batch n of a lane is its record n
		if l.Features != want || l.Scored != (stream.Position{Offset: want, Seq: want}) {
			t.Errorf("lane %d begins at %+v, want %d", i, l, want)
		}
	}
	if last[0] < 0 && last[2] < 0 || last[1] != -1 { // which lane arrives first is chance
		t.Errorf("the lanes' last features are %v, want some of lane 0 or 2 and none of lane 1", last)
	}
	must.Check(t, at.continues(t.Context(), log, last))
}

// A step that is repeated gets the masks that were published with it, and no other step does.
func TestRepeatedStepsKeepTheirMasks(t *testing.T) {
	log := testLogs(t)("exp")
	p := log.NewPublisher(stream.PublisherOptions{})
	mask := []schemas.Mask{{Sample: 0, Reason: schemas.MaskChanged}}
	var before state
	for n := range testBatches {
		b := testBatch(1, n)
		block := before.features(b)
		if n == 2 {
			block.Masked = mask
		}
		must.Do(t, p.PublishSeq(t.Context(), schemas.Features, 1, int64(n), stream.Mark{}, &block))
		before = before.after(b)
	}
	must.Do(t, p.Close(t.Context()))
	at := startOf([]int{0, 1, 2})
	at.Lanes[1].Features = 1
	masked, _, err := published{log: log}.blocks(t.Context(), at)
	if err != nil || len(masked) != 1 {
		t.Fatalf("masks %v (%v), want those of batch 2 of lane 1", masked, err)
	}
	metrics := testMetrics(t)
	var got [][]schemas.Mask
	f := &feed{
		at: at, masked: masked, metrics: metrics,
		load: func(_ context.Context, _ *schemas.ScoredBatch, known []schemas.Mask) (trainer.Input, error) {
			got = append(got, known)
			return trainer.Input{}, nil
		},
	}
	f.follow(log, nil, stream.FollowSpec{})
	for n := 1; n < testBatches; n++ {
		w, err := f.take(t.Context(), 1, &arrived{batch: testBatch(1, n)})
		if err == nil {
			err = w.load(t.Context())
		}
		must.Do(t, err)
	}
	if want := [][]schemas.Mask{nil, mask, nil}; !reflect.DeepEqual(got, want) {
		t.Errorf("masks %v, want %v", got, want)
	}
}
