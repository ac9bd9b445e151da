package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	askTimeout = 5 * time.Second
	askPause   = 100 * time.Millisecond
)

// alive lists the brokers that run and are not paused.
func (c *Cluster) alive() (brokers []*broker, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.brokers {
		if b.process == nil || b.paused {
			continue
		}
		if !b.process.running() {
			return nil, fmt.Errorf("broker %d ended: %w; its log ends with\n%s", b.id, b.process.err, b.logTail(30))
		}
		brokers = append(brokers, b)
	}
	if len(brokers) == 0 {
		return nil, errors.New("no broker is running")
	}
	return brokers, nil
}

// ask sends a request to the listed brokers' INTERNAL listeners and returns the first answer.
func ask(ctx context.Context, brokers []*broker, request kmsg.Request) (kmsg.Response, error) {
	var seeds []string
	for _, b := range brokers {
		seeds = append(seeds, net.JoinHostPort(loopback, strconv.Itoa(b.ports.internal)))
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.RequestRetries(1))
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return client.Request(ctx, request)
}

// retry calls do until it succeeds or ctx ends. A broker that died ends it at once.
func (c *Cluster) retry(ctx context.Context, do func([]*broker) error) error {
	for {
		brokers, err := c.alive()
		if err != nil {
			return err
		}
		if err = do(brokers); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(askPause):
		}
	}
}

// waitReady waits until each running broker sees all of them, and a consumer group has a coordinator. For that the
// first broker makes the topic of the offsets, with all its replicas.
func (c *Cluster) waitReady(ctx context.Context) error {
	return c.retry(ctx, func(running []*broker) error {
		for _, b := range running {
			answer, err := ask(ctx, []*broker{b}, kmsg.NewPtrMetadataRequest())
			if err != nil {
				return fmt.Errorf("asking broker %d: %w", b.id, err)
			}
			if err := seesAll(answer.(*kmsg.MetadataResponse), running); err != nil {
				return fmt.Errorf("broker %d: %w", b.id, err)
			}
		}
		return findCoordinator(ctx, running)
	})
}

func seesAll(answer *kmsg.MetadataResponse, running []*broker) error {
	for _, want := range running {
		if !slices.ContainsFunc(answer.Brokers, func(b kmsg.MetadataResponseBroker) bool { return int(b.NodeID) == want.id }) {
			return fmt.Errorf("does not see broker %d yet", want.id)
		}
	}
	return nil
}

func findCoordinator(ctx context.Context, running []*broker) error {
	request := kmsg.NewPtrFindCoordinatorRequest()
	request.CoordinatorKey = "kafkatest"
	request.CoordinatorKeys = []string{"kafkatest"}
	answer, err := ask(ctx, running, request)
	if err != nil {
		return fmt.Errorf("asking for a coordinator: %w", err)
	}
	found := answer.(*kmsg.FindCoordinatorResponse)
	for _, coordinator := range found.Coordinators {
		if err := kerr.ErrorForCode(coordinator.ErrorCode); err != nil {
			return fmt.Errorf("asking for a coordinator: %w", err)
		}
	}
	return kerr.ErrorForCode(found.ErrorCode)
}

// Leader returns the number of the broker that leads the partition. topic is the full name, with its namespace.
func (c *Cluster) Leader(topic string, partition int) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	leader := -1
	err := c.retry(ctx, func(running []*broker) error {
		topics, err := describe(ctx, running, topic)
		if err != nil {
			return err
		}
		for _, t := range topics {
			for _, p := range t.Partitions {
				if int(p.Partition) == partition {
					leader = int(p.Leader)
				}
			}
		}
		if leader < 0 {
			return fmt.Errorf("partition %d of %s has no leader", partition, topic)
		}
		return nil
	})
	return leader, err
}

// WaitInSync waits until every partition of every topic has all its replicas in sync. The next broker may then be taken
// down without losing writes.
func (c *Cluster) WaitInSync(ctx context.Context) error {
	return c.retry(ctx, func(running []*broker) error {
		topics, err := describe(ctx, running)
		if err != nil {
			return err
		}
		for _, t := range topics {
			for _, p := range t.Partitions {
				if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
					return fmt.Errorf("partition %d of %s: %d of %d replicas in sync", p.Partition, *t.Topic, len(p.ISR), len(p.Replicas))
				}
			}
		}
		return nil
	})
}

// describe returns the named topics, or all when none is named.
func describe(ctx context.Context, running []*broker, names ...string) ([]kmsg.MetadataResponseTopic, error) {
	request := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		request.Topics = append(request.Topics, topic)
	}
	answer, err := ask(ctx, running, request)
	if err != nil {
		return nil, fmt.Errorf("asking about topics: %w", err)
	}
	topics := answer.(*kmsg.MetadataResponse).Topics
	for _, t := range topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return nil, fmt.Errorf("asking about topics: %w", err)
		}
	}
	return topics, nil
}
