package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// fromTheFuture is a batch whose major this program does not know.
type fromTheFuture struct{ *schemas.ScoredBatch }

func (fromTheFuture) Schema() string { return "pairstream.scored_batch/99" }

// putLane writes records of a lane by their seqs: the batch of that number, and the end.
func putLane(t *testing.T, log *stream.Log, lane int, seqs ...int64) {
	t.Helper()
	records := make(map[int64]schemas.Record)
	for _, seq := range seqs {
		records[seq] = testBatch(lane, int(seq))
		if seq == testBatches {
			records[seq] = &schemas.Seal{Final: true}
		}
	}
	putRecords(t, log, lane, records)
}

func putRecords(t *testing.T, log *stream.Log, lane int, records map[int64]schemas.Record) {
	t.Helper()
	p := log.NewPublisher(stream.PublisherOptions{})
	for _, seq := range slices.Sorted(maps.Keys(records)) {
		must.Do(t, p.PublishSeq(t.Context(), schemas.Scored, lane, seq, stream.Mark{}, records[seq]))
	}
	must.Do(t, p.Close(t.Context()))
}

// awaitState waits until lanes say what is wanted, "" for nothing, and have as many features as wanted.
func awaitState(t *testing.T, log *stream.Log, features, states []string) {
	t.Helper()
	var got, have []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		lags := must.Get(log.Lag(t.Context(), Name, schemas.Scored))(t)
		got, have = nil, nil
		agree := true
		for lane, l := range lags {
			got, have = append(got, l.State), append(have, strconv.FormatInt(lastOf(t, log)[lane]+1, 10))
			agree = agree && (l.State == states[lane] || states[lane] != "" && strings.HasPrefix(l.State, states[lane]))
		}
		if agree && slices.Equal(have, features) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("the lanes say %q and have %q features, want %q and %q", got, have, states, features)
}

// living is a trainer's life in the background.
type living struct{ done chan error }

func inBackground(t *testing.T, log *stream.Log, d *disk, dir string, o life) living {
	t.Helper()
	l := living{make(chan error, 1)}
	go func() {
		_, err := live(t, log, d, dir, o)
		l.done <- err
	}()
	return l
}

const itsTurn = "waits for its turn: the order of lanes makes the next step on lane 1"

// A lane that has lost records is parked. With the order of arrival, the others go on. With strict rotation, they wait
// for their turn and say so. An operator's skip lets the lane go on, in the order that a replay has as well.
func TestDamagedLaneIsParked(t *testing.T) {
	open := testLogs(t)
	const parked = "parked: records are missing: topic scored, lane 1, offset 2: expected seq 2, found 4"
	for _, c := range []struct {
		order            LaneOrder
		features, states []string
	}{
		{Arrival, []string{"4", "2", "4"}, []string{"", parked, ""}},
		{Rotation, []string{"3", "2", "2"}, []string{"", parked, itsTurn}},
	} {
		t.Run(string(c.order), func(t *testing.T) {
			log, dir, d := open(string(c.order)), t.TempDir(), new(disk)
			putScored(t, log, 0, 2)
			putLane(t, log, 1, 0, 1, 4)
			l := inBackground(t, log, d, dir, life{order: c.order, dieAt: -1})
			awaitState(t, log, c.features, c.states)
			at, _, err := log.Stopped(t.Context(), Name, schemas.Scored, 1)
			if want := (stream.Position{Offset: 2, Seq: 2}); at != want || err != nil {
				t.Fatalf("the lane stopped at %+v (%v), want %+v", at, err, want)
			}
			skip := must.Get(log.FindDamage(t.Context(), schemas.Scored, 1, at))(t)
			skip.Reason = "a disk was lost"
			must.Do(t, log.Skip(t.Context(), skip))
			must.Do(t, <-l.done)
			awaitState(t, log, []string{"4", "2", "4"}, []string{"", "", ""})

			again, dir, e := open(string(c.order)+"-again"), t.TempDir(), new(disk)
			putScored(t, again, 0, 2)
			putLane(t, again, 1, 0, 1, 4)
			must.Do(t, again.Skip(t.Context(), skip))
			must.Get(CopyOrder(t.Context(), log, again, dir))(t)
			must.Get(live(t, again, e, dir, life{order: c.order, dieAt: -1}))(t)
			if e.state != d.state || !slices.Equal(featureDigests(t, again), featureDigests(t, log)) {
				t.Error("the replay differs")
			}
		})
	}
}

// A trainer that dies anywhere takes the same way past what was skipped.
func TestSkipIsFollowedAfterCrashes(t *testing.T) {
	open := testLogs(t)
	gap := stream.Skip{
		Topic: schemas.Scored, Lane: 1, From: stream.Position{Offset: 1, Seq: 1}, To: stream.Position{Offset: 1, Seq: 3}, Reason: "a disk was lost",
	}
	prepare := func(name string) *stream.Log {
		log := open(name)
		putScored(t, log, 0, 2)
		putLane(t, log, 1, 0, 3, 4)
		must.Do(t, log.Skip(t.Context(), gap))
		return log
	}
	undisturbed, want := prepare("undisturbed"), new(disk)
	must.Get(live(t, undisturbed, want, t.TempDir(), life{order: Rotation, dieAt: -1}))(t)
	for dieAt, died := 0, true; died; dieAt++ {
		log, dir, d := prepare(fmt.Sprint("dies", dieAt)), t.TempDir(), new(disk)
		_, err := live(t, log, d, dir, life{order: Rotation, dieAt: dieAt, flushed: dieAt%2 == 0})
		died = errors.Is(err, errCrash)
		for died && errors.Is(err, errCrash) {
			if d.positions != nil {
				at, perr := parsePositions(d.positions, []int{0, 1, 2})
				if cerr := at.continues(t.Context(), log, lastOf(t, log)); perr != nil || cerr != nil {
					t.Fatalf("point %d: the checkpoint does not fit its log: %v, %v", dieAt, perr, cerr)
				}
			}
			_, err = live(t, log, d, dir, life{order: Rotation, dieAt: -1})
		}
		if err != nil {
			t.Fatalf("point %d: %v", dieAt, err)
		}
		if d.state != want.state || !slices.Equal(featureDigests(t, log), featureDigests(t, undisturbed)) {
			t.Errorf("point %d: the training differs", dieAt)
		}
		if !died && dieAt < 3*10 {
			t.Errorf("only %d points to die at, want 3 a step at least", dieAt)
		}
	}
}

// A batch is skipped that was trained on behind the last checkpoint. To repeat the steps without it would give the
// features of other batches the seqs of those that are in the log, and leave them out.
func TestSkipOfWhatWasTrainedOn(t *testing.T) {
	log, dir, d := testLogs(t)("exp"), t.TempDir(), new(disk)
	for lane := range 3 {
		putLane(t, log, lane, 0, 1, 2, 3, 4)
	}
	steps := 0
	if _, err := live(t, log, d, dir, life{order: Rotation, dieAt: -1, dieIn: 6, flushed: true, seen: func(n int) { steps = n }}); !errors.Is(err, errCrash) {
		t.Fatalf("error %v, want a crash", err)
	}
	at, err := parsePositions(d.positions, []int{0, 1, 2})
	if err != nil || int64(steps) <= d.Steps {
		t.Fatalf("%d steps with a checkpoint at step %d, %v", steps, d.Steps, err)
	}
	from := at.Lanes[0].Scored
	must.Do(t, log.Skip(t.Context(), stream.Skip{
		Topic: schemas.Scored, Lane: 0, From: from, To: stream.Position{Offset: from.Offset + 1, Seq: from.Seq + 1}, Reason: "broken",
	}))
	_, err = live(t, log, d, dir, life{order: Rotation, dieAt: -1})
	if err == nil || !strings.Contains(err.Error(), "a batch was skipped after it had been trained on") {
		t.Errorf("error %v, want a refusal", err)
	}
}

// A batch of a newer major waits for a newer program. It is not set aside.
func TestNewerBatchWaits(t *testing.T) {
	log, d := testLogs(t)("exp"), new(disk)
	putScored(t, log, 0, 2)
	putLane(t, log, 1, 0)
	putRecords(t, log, 1, map[int64]schemas.Record{1: fromTheFuture{testBatch(1, 1)}})
	putLane(t, log, 1, 2, 3, 4)
	l := inBackground(t, log, d, t.TempDir(), life{order: Arrival, dieAt: -1})
	awaitState(t, log, []string{"4", "1", "4"}, []string{"", "parked: lane is damaged: scored, lane 1, offset 1, seq 1 is of a newer version", ""})
	for letter, err := range log.DeadLetters(t.Context()) {
		t.Errorf("dead letter %+v (%v)", letter, err)
	}
	at := stream.Position{Offset: 1, Seq: 1}
	must.Do(t, log.Skip(t.Context(), stream.Skip{
		Topic: schemas.Scored, Lane: 1, From: at, To: stream.Position{Offset: 2, Seq: 2}, Reason: "noLane has that program",
	}))
	must.Do(t, <-l.done)
	awaitState(t, log, []string{"4", "3", "4"}, []string{"", "", ""})
}

// A lane whose next batch is late says what it waits for, and whether the others wait for it.
func TestWaitIsSaid(t *testing.T) {
	open := testLogs(t)
	const late = "waits for scored behind batch 2 of 4, epoch 0, group 1/0"
	for _, c := range []struct {
		order            LaneOrder
		features, states []string
	}{
		{Arrival, []string{"4", "2", "4"}, []string{"", late, ""}},
		{Rotation, []string{"3", "2", "2"}, []string{"", late + "; the order of lanes makes the next step here", itsTurn}},
	} {
		log := open("late-" + string(c.order))
		putScored(t, log, 0, 2)
		putLane(t, log, 1, 0, 1)
		l := inBackground(t, log, new(disk), t.TempDir(), life{order: c.order, dieAt: -1})
		awaitState(t, log, c.features, c.states)
		putLane(t, log, 1, 2, 3, 4)
		must.Check(t, <-l.done)
		awaitState(t, log, []string{"4", "4", "4"}, []string{"", "", ""})
	}
}

// A record that is no batch is set aside, with its reason, and takes part in no step.
func TestForeignRecordIsSetAside(t *testing.T) {
	log, d := testLogs(t)("exp"), new(disk)
	putScored(t, log, 0, 2)
	putLane(t, log, 1, 0)
	putRecords(t, log, 1, map[int64]schemas.Record{1: &schemas.Seal{}}) // a seal that ends nothing
	putRecords(t, log, 1, map[int64]schemas.Record{2: &schemas.Progress{Kind: "step"}})
	putLane(t, log, 1, 3, 4)
	must.Get(live(t, log, d, t.TempDir(), life{order: Rotation, dieAt: -1}))(t)
	var reasons []string
	for letter, err := range log.DeadLetters(t.Context()) {
		reasons = append(reasons, letter.Reason)
		must.Do(t, err)
	}
	if want := []string{"foreign record: pairstream.progress/1 does not belong on this topic"}; !slices.Equal(reasons, want) {
		t.Errorf("set aside for %q, want %q", reasons, want)
	}
	if got, want := lastOf(t, log), map[int]int64{0: 3, 1: 1, 2: 3}; !maps.Equal(got, want) {
		t.Errorf("features up to %v, want %v", got, want)
	}
}

// A trainer that is told to end does so while a lane is parked, and leaves a checkpoint.
func TestEndingWithAParkedLane(t *testing.T) {
	log, d := testLogs(t)("exp"), new(disk)
	putScored(t, log, 0, 2)
	putLane(t, log, 1, 0, 4)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := liveUntil(ctx, t, log, d, t.TempDir(), life{order: Arrival, dieAt: -1})
		done <- err
	}()
	awaitState(t, log, []string{"4", "1", "4"}, []string{"", "parked", ""})
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if d.Steps != 9 {
		t.Errorf("the checkpoint is of step %d, want 9", d.Steps)
	}
}
