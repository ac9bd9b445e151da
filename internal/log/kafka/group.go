package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// groupDialer makes the connections of one consumer group. kafka-go waits for the answer to a join as long as a
// rebalance may last, even if the group is closed meanwhile. hangUp ends that wait.
type groupDialer struct {
	sec    *security
	mu     sync.Mutex
	conns  map[*groupConn]bool
	hungUp bool
}

// lastWords bounds the time to leave a group.
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
	patience := dialTimeout // while authenticating, kafka-go would wait for the first answer without a limit
	if d.hungUp {           // only the request to leave the group remains
		patience = lastWords
	}
	c.silence = time.AfterFunc(patience, func() { _ = c.Close() })
	return c, nil
}

// hangUp closes all connections. Later ones live only shortly.
func (d *groupDialer) hangUp() {
	d.mu.Lock()
	d.hungUp = true
	conns := maps.Clone(d.conns)
	d.mu.Unlock()
	for c := range conns {
		_ = c.Close() // its user sees the error
	}
}

type groupConn struct {
	net.Conn
	d       *groupDialer
	silence *time.Timer // closes the connection after too long a silence
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

// A member learns of a rebalance from its next heartbeat, drains, and joins again. A member that takes longer than the
// rebalance timeout loses its lanes and its work. So heartbeats are frequent, whatever the session timeout. The margin
// leaves time for a busy machine.
const (
	slowestHeartbeat = time.Second
	rejoinMargin     = 5 * time.Second
)

// Patience returns how long a rebalance waits for work in hand. No heartbeat goes out meanwhile, so it is well below
// the session timeout. A lane that is busy for longer continues beside the rebalance.
func (c Config) Patience() time.Duration { return min(c.DrainTimeout, c.SessionTimeout/2) }

// Group is this process's membership in the consumer group that assigns the lanes of a stage.
type Group struct {
	client *Client
	stage  string
	topic  string // its partitions are the lanes
	group  *kafka.ConsumerGroup
	dialer *groupDialer
	share  *balancer
}

// JoinGroup begins to take part in the consumer group of a stage. The lanes are those of input.
func (c *Client) JoinGroup(stage string, input schemas.Topic) (*Group, error) {
	d := &groupDialer{sec: c.security, conns: make(map[*groupConn]bool)}
	share := new(balancer)
	group, err := c.newGroup(stage, input, share, &kafka.Dialer{
		ClientID: clientID, Timeout: dialTimeout + aliveTimeout, DialFunc: d.dial, SASLMechanism: c.security.sasl,
	})
	if err != nil {
		return nil, err
	}
	return &Group{client: c, stage: stage, topic: c.Name(input), group: group, dialer: d, share: share}, nil
}

func (c *Client) newGroup(name string, topic schemas.Topic, share kafka.GroupBalancer, dialer *kafka.Dialer) (*kafka.ConsumerGroup, error) {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: c.cfg.GroupID(name), Brokers: c.cfg.Brokers, Topics: []string{c.Name(topic)}, Dialer: dialer,
		GroupBalancers:    []kafka.GroupBalancer{share},
		HeartbeatInterval: min(c.cfg.SessionTimeout/10, slowestHeartbeat), SessionTimeout: c.cfg.SessionTimeout,
		RebalanceTimeout: c.cfg.Patience() + rejoinMargin, JoinGroupBackoff: 500 * time.Millisecond,
		Timeout: c.cfg.PerRequest(),
	})
	if err != nil {
		return nil, fmt.Errorf("joining group: %w", err)
	}
	return group, nil
}

// Generation is a period in which the members of a group and their lanes stay the same.
type Generation struct {
	Lanes      []int // of this process
	group      *Group
	generation *kafka.Generation
}

// Next joins the group again when its members have changed, and retries until that succeeds. It returns an error when
// the brokers refuse the group for good, or ctx ends.
func (g *Group) Next(ctx context.Context) (*Generation, error) {
	for {
		gen, err := g.group.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, kafka.InvalidSessionTimeout):
			return nil, fmt.Errorf("STREAM_SESSION_TIMEOUT=%v: not within what the brokers allow (group.min.session.timeout.ms, group.max.session.timeout.ms): %w",
				g.client.cfg.SessionTimeout, err)
		case errors.Is(err, kafka.GroupAuthorizationFailed), errors.Is(err, kafka.InconsistentGroupProtocol):
			return nil, fmt.Errorf("joining group %s: %w", g.client.cfg.GroupID(g.stage), err)
		case err != nil: // the group pauses and joins again by itself
			g.client.logger.Warn("joining the consumer group", keyStage, g.stage, keyErr, err)
			continue
		}
		assigned := gen.Assignments[g.topic]
		lanes := make([]int, len(assigned))
		for i, a := range assigned {
			lanes[i] = a.ID
		}
		g.share.hold(lanes)
		return &Generation{Lanes: lanes, group: g, generation: gen}, nil
	}
}

// Leave leaves the group. It first calls wait, which returns when the lanes are given up, and then waits only shortly
// for the brokers.
func (g *Group) Leave(wait func()) error {
	left := make(chan error, 1)
	go func() { left <- g.group.Close() }()
	wait()
	t := time.NewTimer(lastWords)
	defer t.Stop()
	select {
	case err := <-left:
		return err
	case <-t.C:
		g.dialer.hangUp()
		return <-left
	}
}

// Start runs f beside the generation. The end of the generation ends f's context, and the return of f ends the
// generation.
func (g *Generation) Start(f func(context.Context)) { g.generation.Start(f) }

// Commit commits new offsets to the group. Offsets that fail go with the next call.
func (g *Generation) Commit(ctx context.Context, c *Commits) error {
	return g.group.client.commit(ctx, g.group.stage, c, int(g.generation.ID), g.generation.MemberID)
}

// Unowned returns the number of a stage's lanes that no member of its group has. It is 0 while members join.
func (c *Client) Unowned(ctx context.Context, stage string, input schemas.Topic) (int, error) {
	ctx, cancel := c.request(ctx)
	defer cancel()
	found, err := c.client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{c.cfg.GroupID(stage)}})
	if err != nil {
		return 0, err
	}
	owned := 0
	for _, g := range found.Groups {
		if g.Error != nil {
			return 0, fmt.Errorf("looking at group %s: %w", g.GroupID, g.Error)
		}
		if g.GroupState != "Stable" {
			return 0, nil
		}
		for _, m := range g.Members {
			for _, t := range m.MemberAssignments.Topics {
				if t.Topic == c.Name(input) {
					owned += len(t.Partitions)
				}
			}
		}
	}
	return c.cfg.Lanes - owned, nil
}
