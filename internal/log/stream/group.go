package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// groupDialer makes the connections of one consumer group. kafka-go waits for the answer to a join as long as a
// rebalance may last, even when the group is closed meanwhile. hangUp then ends the wait.
type groupDialer struct {
	sec    *security
	mu     sync.Mutex
	conns  map[*groupConn]bool
	hungUp bool
}

// lastWords is the most time that leaving a group may take.
const lastWords = 2 * time.Second

func (d *groupDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.sec.dialAlive(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &groupConn{Conn: conn, d: d}
	d.conns[c] = true
	patience := dialTimeout // kafka-go would wait without end for the first answer when it authenticates
	if d.hungUp {           // only leaving the group is left to do
		patience = lastWords
	}
	c.silence = time.AfterFunc(patience, func() { _ = c.Close() })
	return c, nil
}

// hangUp closes all connections. Connections made later live shortly.
func (d *groupDialer) hangUp() {
	d.mu.Lock()
	d.hungUp = true
	conns := maps.Clone(d.conns)
	d.mu.Unlock()
	for c := range conns {
		_ = c.Close() // whoever uses it sees the error
	}
}

type groupConn struct {
	net.Conn
	d       *groupDialer
	silence *time.Timer // ends the connection if nothing is heard
}

func (c *groupConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.d.mu.Lock()
		if !c.d.hungUp {
			c.silence.Stop()
		}
		c.d.mu.Unlock()
	}
	return n, err
}

func (c *groupConn) Close() error {
	c.d.mu.Lock()
	delete(c.d.conns, c)
	c.silence.Stop()
	c.d.mu.Unlock()
	return c.Conn.Close()
}

// A member learns of a rebalance by its next heartbeat, drains, and joins again. A member that takes longer than the
// time for rebalancing loses its lanes with its work. So heartbeats are frequent whatever the session timeout is. The
// margin leaves time for a machine that is busy with other things.
const (
	slowestHeartbeat = time.Second
	rejoinMargin     = 5 * time.Second
)

// patience returns how long a rebalance waits for work in hand. No heartbeat goes out meanwhile, so it is well below
// the session timeout. A lane that is busy for longer goes on beside the rebalance (see worker).
func (c Config) patience() time.Duration { return min(c.DrainTimeout, c.SessionTimeout/2) }

// joinGroup starts to take part in the consumer group of a stage.
func (l *Log) joinGroup(spec StageSpec, share *balancer) (*kafka.ConsumerGroup, *groupDialer, error) {
	d := &groupDialer{sec: l.security, conns: make(map[*groupConn]bool)}
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: l.cfg.GroupID(spec.Name), Brokers: l.cfg.Brokers, Topics: []string{l.name(spec.Inputs[0])},
		Dialer: &kafka.Dialer{
			ClientID: clientID, Timeout: dialTimeout + aliveTimeout, DialFunc: d.dial, SASLMechanism: l.security.sasl,
		},
		GroupBalancers:    []kafka.GroupBalancer{share},
		HeartbeatInterval: min(l.cfg.SessionTimeout/10, slowestHeartbeat), SessionTimeout: l.cfg.SessionTimeout,
		RebalanceTimeout: l.cfg.patience() + rejoinMargin, JoinGroupBackoff: 500 * time.Millisecond,
		Timeout: l.cfg.RequestTimeout,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("joining group: %w", err)
	}
	return group, d, nil
}

// commits collects the offsets of all lanes of a generation, to be committed in one request. It also collects what
// each lane has to say of itself. That goes with the offset, so that whoever asks for a stage's lag sees it.
type commits struct {
	mu      sync.Mutex
	offsets map[place]int64
	states  map[place]string
	changed map[place]bool
}

// place is a lane of a topic, by its name on the brokers.
type place struct {
	name string
	lane int
}

// newCommits makes the commits of a generation. It knows what the generation before has committed.
func newCommits(before *commits) *commits {
	c := &commits{offsets: make(map[place]int64), states: make(map[place]string), changed: make(map[place]bool)}
	if before != nil {
		before.mu.Lock()
		defer before.mu.Unlock()
		maps.Copy(c.offsets, before.offsets)
		maps.Copy(c.states, before.states)
	}
	return c
}

func (c *commits) add(name string, lane int, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := place{name, lane}
	c.offsets[p], c.changed[p] = offset, true
}

func (c *commits) say(name string, lane int, state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := (place{name, lane}); c.states[p] != state {
		c.states[p], c.changed[p] = state, true
	}
}

// maxState is the most bytes of a lane's state. Brokers take 4096 with an offset.
const maxState = 1000

// take returns what has changed since the last call.
func (c *commits) take() map[string][]kafka.OffsetCommit {
	c.mu.Lock()
	defer c.mu.Unlock()
	topics := make(map[string][]kafka.OffsetCommit)
	for p := range c.changed {
		offset, ok := c.offsets[p]
		if !ok {
			offset = -1 // nothing was processed yet
		}
		state := c.states[p]
		state = strings.ToValidUTF8(state[:min(len(state), maxState)], "")
		topics[p.name] = append(topics[p.name], kafka.OffsetCommit{Partition: p.lane, Offset: offset, Metadata: state})
	}
	clear(c.changed)
	return topics
}

// again keeps what a request could not commit for the next one, unless there is something newer by then.
func (c *commits) again(topics map[string][]kafka.OffsetCommit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, lanes := range topics {
		for _, l := range lanes {
			c.changed[place{name, l.Partition}] = true
		}
	}
}

// LaneLag says how far a stage is in one lane of one of its inputs.
type LaneLag struct {
	Topic     schemas.Topic
	Lane      int
	Committed int64  // offset that the stage has reached, -1 when it has not begun; about a second old
	End       int64  // offset after the last record
	State     string // what the lane has to say: that it is parked, or what it waits for; empty: it is at work
}

// Lag reads what a stage has committed, for dashboards.
func (l *Log) Lag(ctx context.Context, stage string, inputs ...schemas.Topic) ([]LaneLag, error) {
	lanes := make([]int, l.cfg.Lanes)
	for i := range lanes {
		lanes[i] = i
	}
	req := &kafka.OffsetFetchRequest{GroupID: l.cfg.GroupID(stage), Topics: make(map[string][]int)}
	for _, t := range inputs {
		req.Topics[l.name(t)] = lanes
	}
	var resp *kafka.OffsetFetchResponse
	err := l.retry(ctx, "reading offsets of "+req.GroupID, func(ctx context.Context) (err error) {
		if resp, err = l.client.OffsetFetch(ctx, req); err == nil && !errors.Is(resp.Error, kafka.GroupIdNotFound) {
			err = resp.Error
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var lags []LaneLag
	for _, t := range inputs {
		committed := make(map[int]kafka.OffsetFetchPartition)
		for _, p := range resp.Topics[l.name(t)] {
			if p.Error != nil {
				return nil, fmt.Errorf("reading offsets of %s, %s, lane %d: %w", req.GroupID, t, p.Partition, p.Error)
			}
			committed[p.Partition] = p
		}
		for _, lane := range lanes {
			b, err := l.Bounds(ctx, t, lane)
			if err != nil {
				return nil, err
			}
			at, ok := committed[lane]
			if !ok {
				at.CommittedOffset = -1
			}
			lags = append(lags, LaneLag{Topic: t, Lane: lane, Committed: at.CommittedOffset, End: b.End, State: at.Metadata})
		}
	}
	return lags, nil
}

func (l *Log) commitOffsets(ctx context.Context, req *kafka.OffsetCommitRequest) error {
	resp, err := l.client.OffsetCommit(ctx, req)
	if err != nil {
		return fmt.Errorf("committing offsets of %s: %w", req.GroupID, err)
	}
	for name, partitions := range resp.Topics {
		for _, p := range partitions {
			if p.Error != nil {
				return fmt.Errorf("committing offsets of %s, %s, lane %d: %w", req.GroupID, name, p.Partition, p.Error)
			}
		}
	}
	return nil
}
