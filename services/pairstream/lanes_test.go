package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// waiter stands for an indexer that reads embeddings and makes nothing of them.
type waiter struct{}

func (waiter) Input() schemas.Topic                                        { return schemas.Embeddings }
func (waiter) Process(context.Context, stream.Record, stream.Output) error { return nil }
func (waiter) Flush(context.Context, stream.Output) error                  { return nil }

// TestLanes parks a lane, looks at it and skips what is wrong, with the commands.
func TestLanes(t *testing.T) {
	if apart(t) {
		return
	}
	log := testLog(t)
	p := log.NewPublisher(stream.PublisherOptions{})
	for _, seq := range []int64{0, 1, 9} {
		must.Do(t, p.PublishSeq(t.Context(), schemas.Embeddings, 1, seq, stream.Mark{}, &schemas.Seal{}))
	}
	must.Do(t, p.Close(t.Context()))
	if got := mustCommand(t, "lanes", "list"); got != "every lane is at work\n" {
		t.Errorf("list says %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- log.Run(ctx, stream.StageSpec{
			Name: "indexer", Inputs: []schemas.Topic{schemas.Embeddings}, Outputs: []schemas.Topic{schemas.Neighbors, schemas.Groups},
			New: func(int, []byte) (stream.Stage, error) { return waiter{}, nil },
		})
	}()
	const fault = "records are missing: topic embeddings, lane 1, offset 2: expected seq 2, found 9"
	for !strings.Contains(mustCommand(t, "lanes", "list"), "parked: "+fault) {
		time.Sleep(100 * time.Millisecond)
	}
	cancel()
	must.Check(t, <-done)
	if got := mustCommand(t, "status"); !strings.Contains(got, "parked: "+fault) {
		t.Errorf("status says\n%s", got)
	}
	const proposal = "embeddings, lane 1: " + fault + "\n  skip would give up seqs 2 to 8, and go on with offset 2, seq 9\n"
	if got := mustCommand(t, "lanes", "look", "--stage", "indexer", "--lane", "1"); got != proposal {
		t.Errorf("look says %q, want %q", got, proposal)
	}
	if _, err := command(t, "lanes", "skip", "--stage", "indexer", "--lane", "1"); err == nil || !strings.Contains(err.Error(), "reason") {
		t.Errorf("without a reason: %v", err)
	}
	if got := mustCommand(t, "lanes", "skip", "--stage", "indexer", "--lane", "1", "--reason", "lost with a disk"); !strings.Contains(got, "skip will give up seqs 2 to 8") {
		t.Errorf("skip says %q", got)
	}
	if got := mustCommand(t, "lanes", "list"); !strings.Contains(got, "embeddings, lane 1, from offset 2, seq 2 to offset 2, seq 9: lost with a disk") {
		t.Errorf("list says %q", got)
	}
	if got := mustCommand(t, "lanes", "look", "--stage", "indexer", "--lane", "1"); !strings.Contains(got, "can be read to their ends") {
		t.Errorf("afterwards look says %q", got)
	}
	got := mustCommand(t, "lanes", "skip", "--stage", "indexer", "--lane", "1", "--reason", "r", "--topic", "embeddings", "--record", "1")
	if !strings.Contains(got, "give up seqs 1 to 1, and go on with offset 2, seq 2") {
		t.Errorf("skip of a record says %q", got)
	}
	for want, args := range map[string][]string{
		"LANES=2": {"--stage", "indexer", "--lane", "2"}, "want encoder": {"--stage", "printer", "--lane", "0"},
	} {
		if _, err := command(t, append([]string{"lanes", "look"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

// TestLanesOfTheTrainer parks a lane of the trainer's, looks at it and skips the loss, with the commands.
func TestLanesOfTheTrainer(t *testing.T) {
	if apart(t) {
		return
	}
	log := testLog(t)
	p := log.NewPublisher(stream.PublisherOptions{})
	for _, seq := range []int64{0, 4, 5} {
		must.Do(t, p.PublishSeq(t.Context(), schemas.Scored, 1, seq, stream.Mark{}, &schemas.Seal{Final: seq == 5}))
	}
	f := log.Follow(stream.FollowSpec{
		Name: "trainer", Topic: schemas.Scored, From: map[int]stream.Position{1: {}}, Letters: p, ParkedPause: 10 * time.Millisecond,
		Take: func(_ context.Context, _ *stream.FollowedLane, rec stream.Record) error {
			if rec.Seq == 5 {
				return io.EOF
			}
			return nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go f.Watch(ctx)
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	const fault = "records are missing: topic scored, lane 1, offset 1: expected seq 1, found 4"
	for !strings.Contains(mustCommand(t, "lanes", "list"), "trainer") {
		time.Sleep(100 * time.Millisecond)
	}
	if got, want := mustCommand(t, "lanes", "look", "--stage", "trainer", "--lane", "1"), "scored, lane 1: "+fault+"\n"; !strings.HasPrefix(got, want) {
		t.Errorf("look says %q, want %q", got, want)
	}
	mustCommand(t, "lanes", "skip", "--stage", "trainer", "--lane", "1", "--reason", "lost with a disk")
	must.Check(t, <-done)
}

// A grouper that has made nothing needs the embeddings from their start. Retention took some. The commands find it.
func TestLanesOfAGrouperThatHasMadeNothing(t *testing.T) {
	log := testLog(t)
	p := log.NewPublisher(stream.PublisherOptions{})
	for seq := range int64(3) {
		must.Do(t, p.PublishSeq(t.Context(), schemas.Embeddings, 1, seq, stream.Mark{}, &schemas.Seal{}))
	}
	must.Do(t, p.Close(t.Context()))
	must.Do(t, kafka.DeleteRecords(t.Context(), log.Config().Brokers, schemas.Embeddings.Name(log.Config().Namespace), 1, 2))
	got := mustCommand(t, "lanes", "skip", "--stage", "grouper", "--lane", "1", "--reason", "retention was too short")
	if want := "embeddings, lane 1: "; !strings.HasPrefix(got, want) || !strings.Contains(got, "skip will give up seqs 0 to 1, and go on with offset 2, seq 2") {
		t.Errorf("skip says %q", got)
	}
	if got := mustCommand(t, "lanes", "look", "--stage", "grouper", "--lane", "1"); !strings.Contains(got, "can be read to their ends") {
		t.Errorf("afterwards look says %q", got)
	}
}
