package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// Commits collects the offsets of all lanes of a generation, to be committed in one request. It also collects the
// lanes' states, which go with the offsets, so that a query for a stage's lag shows them.
type Commits struct {
	mu      sync.Mutex
	offsets map[laneKey]int64
	states  map[laneKey]string
	changed map[laneKey]bool
}

type laneKey struct {
	topic schemas.Topic
	lane  int
}

// NewCommits makes the commits of a generation. It knows the offsets that the generation before has committed.
func NewCommits(before *Commits) *Commits {
	c := &Commits{offsets: make(map[laneKey]int64), states: make(map[laneKey]string), changed: make(map[laneKey]bool)}
	if before != nil {
		before.mu.Lock()
		defer before.mu.Unlock()
		maps.Copy(c.offsets, before.offsets)
		maps.Copy(c.states, before.states)
	}
	return c
}

// Reached records the progress of a lane.
func (c *Commits) Reached(topic schemas.Topic, lane int, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := laneKey{topic, lane}
	c.offsets[p], c.changed[p] = offset, true
}

// Say sets the state of a lane. An empty text clears it.
func (c *Commits) Say(topic schemas.Topic, lane int, state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := (laneKey{topic, lane}); c.states[p] != state {
		c.states[p], c.changed[p] = state, true
	}
}

// maxState is the most bytes of a lane's state. Brokers take 4096 with an offset.
const maxState = 1000

// take returns the changes since the last call.
func (c *Commits) take() map[schemas.Topic][]kafka.OffsetCommit {
	c.mu.Lock()
	defer c.mu.Unlock()
	topics := make(map[schemas.Topic][]kafka.OffsetCommit)
	for p := range c.changed {
		offset, ok := c.offsets[p]
		if !ok {
			offset = -1 // nothing was processed yet
		}
		state := c.states[p]
		state = strings.ToValidUTF8(state[:min(len(state), maxState)], "")
		topics[p.topic] = append(topics[p.topic], kafka.OffsetCommit{Partition: p.lane, Offset: offset, Metadata: state})
	}
	clear(c.changed)
	return topics
}

// again keeps the changes of a failed request for the next one, unless newer ones have come.
func (c *Commits) again(topics map[schemas.Topic][]kafka.OffsetCommit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for topic, lanes := range topics {
		for _, l := range lanes {
			c.changed[laneKey{topic, l.Partition}] = true
		}
	}
}

// Commit commits new offsets to the consumer group of a stage, for a process that is no member. Offsets that fail go
// with the next call.
func (c *Client) Commit(ctx context.Context, stage string, what *Commits) error {
	return c.commit(ctx, stage, what, -1, "")
}

func (c *Client) commit(ctx context.Context, stage string, what *Commits, generation int, member string) error {
	offsets := what.take()
	if len(offsets) == 0 {
		return nil
	}
	ctx, cancel := c.request(ctx)
	defer cancel()
	req := &kafka.OffsetCommitRequest{GroupID: c.cfg.GroupID(stage), GenerationID: generation, MemberID: member, Topics: make(map[string][]kafka.OffsetCommit)}
	for t, lanes := range offsets {
		req.Topics[c.Name(t)] = lanes
	}
	err := c.commitOffsets(ctx, req)
	if err != nil {
		what.again(offsets)
	}
	return err
}

func (c *Client) commitOffsets(ctx context.Context, req *kafka.OffsetCommitRequest) error {
	resp, err := c.client.OffsetCommit(ctx, req)
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

// LaneLag is a stage's progress in one lane of one of its inputs.
type LaneLag struct {
	Topic     schemas.Topic
	Lane      int
	Committed int64  // offset that the stage has reached, -1 when it has not begun; about a second old
	End       int64  // offset after the last record
	State     string // state of the lane: parked, or the record that it waits for; empty: it is at work
}

// Lag reads the committed offsets of a stage, for dashboards.
func (c *Client) Lag(ctx context.Context, stage string, inputs ...schemas.Topic) ([]LaneLag, error) {
	lanes := make([]int, c.cfg.Lanes)
	for i := range lanes {
		lanes[i] = i
	}
	req := &kafka.OffsetFetchRequest{GroupID: c.cfg.GroupID(stage), Topics: make(map[string][]int)}
	for _, t := range inputs {
		req.Topics[c.Name(t)] = lanes
	}
	var resp *kafka.OffsetFetchResponse
	err := c.Retry(ctx, "reading offsets of "+req.GroupID, func(ctx context.Context) (err error) {
		if resp, err = c.client.OffsetFetch(ctx, req); err == nil && !errors.Is(resp.Error, kafka.GroupIdNotFound) {
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
		for _, p := range resp.Topics[c.Name(t)] {
			if p.Error != nil {
				return nil, fmt.Errorf("reading offsets of %s, %s, lane %d: %w", req.GroupID, t, p.Partition, p.Error)
			}
			committed[p.Partition] = p
		}
		ends, err := c.Ends(ctx, t)
		if err != nil {
			return nil, err
		}
		for _, lane := range lanes {
			at, ok := committed[lane]
			if !ok {
				at.CommittedOffset = -1
			}
			lags = append(lags, LaneLag{Topic: t, Lane: lane, Committed: at.CommittedOffset, End: ends[lane], State: at.Metadata})
		}
	}
	return lags, nil
}
