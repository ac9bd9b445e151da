package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestGroupWithABrokerThatHangs lists a broker first that accepts connections and never answers.
func TestGroupWithABrokerThatHangs(t *testing.T) {
	t.Parallel()
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = silent.Close() })
	b := startBroker(t, broker.Options{})
	cfg := testConfig(b.Addr(), "", 1)
	cfg.Brokers = []string{silent.Addr().String(), b.Addr()}
	l := openLog(t, cfg)
	put(t, l, pair(0, "one"))
	r := start(l, batcherSpec())
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 0}, 0)
	r.stop(t)
}

// protocolName is that of the lanes' balancer. Members of a group must have one in common.
const protocolName = "pairstream-sticky"

// TestLeavingWhileOthersAreAwaited stops an owner while its group waits for a member that is gone without a word.
func TestLeavingWhileOthersAreAwaited(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	cfg := testConfig(b.Addr(), "", 2)
	cfg.SessionTimeout = time.Minute
	l := openLog(t, cfg)
	put(t, l, pair(0, "one"), pair(1, "two"))
	spec := batcherSpec()
	group := cfg.GroupID(spec.Name)
	ghost := kafkago.JoinGroupRequest{
		GroupID: group, SessionTimeout: time.Minute, RebalanceTimeout: time.Minute, ProtocolType: "consumer",
		Protocols: []kafkago.GroupProtocol{{Name: protocolName, Metadata: kafkago.GroupProtocolSubscription{Topics: []string{"pairs"}}}},
	}
	asker := kafkago.Client{Addr: kafkago.TCP(cfg.Brokers...)}
	for ghost.MemberID == "" { // the first answer may only give it
		resp, err := asker.JoinGroup(t.Context(), &ghost)
		must.Do(t, err)
		ghost.MemberID = resp.MemberID
		if errors.Is(resp.Error, kafkago.MemberIDRequired) {
			if resp, err = asker.JoinGroup(t.Context(), &ghost); err != nil || resp.Error != nil {
				t.Fatal(err, resp.Error)
			}
		}
	}
	r := start(l, spec)
	await(t, "the group waits for the ghost", func() bool {
		resp := must.Get(asker.DescribeGroups(t.Context(), &kafkago.DescribeGroupsRequest{GroupIDs: []string{group}}))(t)
		return resp.Groups[0].GroupState == "PreparingRebalance"
	})
	r.stop(t)
}

func TestLag(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l := openLog(t, testConfig(b.Addr(), "", 2))
	put(t, l, pair(0, "one"), pair(0, "two"), pair(1, "three"))
	if got, err := l.Lag(t.Context(), "batcher", schemas.Pairs); err != nil || !slices.Equal(got, []kafka.LaneLag{
		{Topic: schemas.Pairs, Lane: 0, Committed: -1, End: 2, State: ""}, {Topic: schemas.Pairs, Lane: 1, Committed: -1, End: 1, State: ""},
	}) {
		t.Errorf("before: %+v, %v", got, err)
	}
	r := start(l, batcherSpec())
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 1}, 0)
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 0}, 1)
	r.stop(t)
	if got, err := l.Lag(t.Context(), "batcher", schemas.Pairs); err != nil || !slices.Equal(got, []kafka.LaneLag{
		{Topic: schemas.Pairs, Lane: 0, Committed: 2, End: 2, State: ""}, {Topic: schemas.Pairs, Lane: 1, Committed: 1, End: 1, State: ""},
	}) {
		t.Errorf("after: %+v, %v", got, err)
	}
}

// TestBusyLaneIsKept lets another owner join while one lane of the first has a large piece of work in hand. The group
// goes on without waiting for the work, and the work is not lost.
func TestBusyLaneIsKept(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	cfg := testConfig(b.Addr(), "", 2)
	cfg.DrainTimeout = 10 * time.Millisecond
	cfg.SessionTimeout = time.Minute // nobody is expelled however slow the machine is
	l := openLog(t, cfg)
	put(t, l, pair(0, "large"), pair(0, "after"), pair(1, "small"))
	busy, release := make(chan struct{}), make(chan struct{})
	var made, aborted atomic.Int32 // of lane 0
	spec := faultySpec(nil)
	spec.New = func(lane int, _ []byte) (Stage, error) {
		if lane == 0 {
			made.Add(1)
		}
		return faulty{copier{schemas.Pairs, schemas.Embeddings}, func(rec Record, out Output) error {
			if string(rec.Value) != "large" {
				return nil
			}
			close(busy)
			select {
			case <-release:
			case <-out.(*output).work.Done():
				aborted.Add(1)
			}
			return nil
		}}, nil
	}
	first := start(l, spec)
	<-busy
	taken := make(chan int, 2) // lanes of the second owner
	other := faultySpec(nil)
	other.New = func(lane int, _ []byte) (Stage, error) {
		taken <- lane
		return copier{schemas.Pairs, schemas.Embeddings}, nil
	}
	second := start(l, other)
	if lane := <-taken; lane != 1 {
		t.Errorf("the second owner got lane %d, which is busy", lane)
	}
	put(t, l, pair(1, "more"))
	close(release)
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 1}, 0, 1)
	first.stop(t)
	second.stop(t)
	if made.Load() != 1 || aborted.Load() != 0 {
		t.Errorf("the busy lane was begun %d times, and given up %d times", made.Load(), aborted.Load())
	}
}

// TestMemberThatDiesWhileItJoinsIsExpired breaks the connection of a member that waits for the answer to its join.
// The broker must not let it keep lanes for longer than its session lasts. (What the broker does by itself is a
// matter of chance.)
func TestMemberThatDiesWhileItJoinsIsExpired(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	for i := range 4 {
		t.Run(fmt.Sprint("try ", i), func(t *testing.T) {
			t.Parallel()
			dieWhileJoining(t, testConfig(b.Addr(), fmt.Sprint("try-", i), 4))
		})
	}
}

func dieWhileJoining(t *testing.T, cfg Config) {
	cfg.SessionTimeout = time.Minute // of the first: only the second is to be expelled, however slow the machine is
	l := openLog(t, cfg)
	spec := batcherSpec()
	group := cfg.GroupID(spec.Name)
	// A first member takes part, and takes its time when the group is to be rebalanced.
	first := must.Get(l.JoinGroup(spec.Name, schemas.Pairs))(t)
	gen := must.Get(first.Next(t.Context()))(t)
	release := make(chan struct{})
	gen.Start(func(context.Context) { <-release })
	// Meanwhile a second member asks to join, and dies.
	asker := kafkago.Client{Addr: kafkago.TCP(cfg.Brokers...)}
	conn := must.Get(net.Dial("tcp", cfg.Brokers[0]))(t)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = 2, group, 1000, 3000, "consumer"
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name = protocolName
	pairs := l.Name(schemas.Pairs)
	protocol.Metadata = slices.Concat([]byte{0, 1, 0, 0, 0, 1, 0, byte(len(pairs))}, []byte(pairs), make([]byte, 4)) // version 1, one topic, no user data
	join.Protocols = append(join.Protocols, protocol)
	must.Get(conn.Write(kmsg.NewRequestFormatter().AppendRequest(nil, join, 1)))(t)
	await(t, "the second member waits", func() bool {
		resp := must.Get(asker.DescribeGroups(t.Context(), &kafkago.DescribeGroupsRequest{GroupIDs: []string{group}}))(t)
		return len(resp.Groups[0].Members) == 2 && resp.Groups[0].GroupState == "PreparingRebalance"
	})
	must.Do(t, conn.Close())
	close(release)
	for lanes := 0; lanes != 4; { // the first generations may give it some
		gen := must.Get(first.Next(t.Context()))(t)
		lanes = len(gen.Lanes)
	}
	must.Do(t, first.Leave(func() {}))
}
