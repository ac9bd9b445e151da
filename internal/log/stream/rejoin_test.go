package stream

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// blind shares out nothing at first, as a leader does that does not see the topic yet.
type blind struct {
	kafkago.RangeGroupBalancer
	times atomic.Int32
}

func (*blind) ProtocolName() string { return protocolName }

func (b *blind) AssignGroups(members []kafkago.GroupMember, partitions []kafkago.Partition) kafkago.GroupMemberAssignments {
	if len(members) > 1 && b.times.Add(1) == 1 {
		partitions = nil
	}
	return b.RangeGroupBalancer.AssignGroups(members, partitions)
}

// TestLanesWithoutAnOwnerAreSharedOutAnew has a process join a group whose leader does not see the lanes.
func TestLanesWithoutAnOwnerAreSharedOutAnew(t *testing.T) {
	b := startBroker(t, broker.Options{})
	cfg := testConfig(b.Addr(), "ns", 2)
	l := openLog(t, cfg)
	l.topicsEvery = 50 * time.Millisecond
	leader := new(blind)
	group := must.Get(kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{
		ID: cfg.GroupID("worker"), Brokers: cfg.Brokers, Topics: []string{l.Name(schemas.Embeddings)}, GroupBalancers: []kafkago.GroupBalancer{leader},
		HeartbeatInterval: 100 * time.Millisecond, SessionTimeout: cfg.SessionTimeout, RebalanceTimeout: 5 * time.Second,
	}))(t)
	if _, err := group.Next(t.Context()); err != nil { // it leads from now on
		t.Fatal(err)
	}
	going, stop := context.WithCancel(t.Context())
	led := make(chan struct{})
	go func() {
		defer close(led)
		for going.Err() == nil {
			_, _ = group.Next(going)
		}
	}()

	ctx, cancel := context.WithCancel(t.Context())
	counters, done := new(Counters), make(chan error, 1)
	go func() {
		done <- l.Run(ctx, StageSpec{
			Name: "worker", Inputs: []schemas.Topic{schemas.Embeddings}, Outputs: []schemas.Topic{schemas.Neighbors}, Counters: counters,
			New: func(int, []byte) (Stage, error) { return silentStage{}, nil },
		})
	}()
	for end := time.Now().Add(time.Minute); counters.Lanes.Load() != 1 || leader.times.Load() < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %d times of sharing out it has %d lanes, want one of the two", leader.times.Load(), counters.Lanes.Load())
		}
	}
	cancel()
	must.Check(t, <-done)
	stop()
	<-led
	must.Check(t, group.Close())
}

// silentStage reads embeddings and writes nothing.
type silentStage struct{}

func (silentStage) Input() schemas.Topic                          { return schemas.Embeddings }
func (silentStage) Process(context.Context, Record, Output) error { return nil }
func (silentStage) Flush(context.Context, Output) error           { return nil }
