package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/schemas"
)

// Lead calls do while this process leads all callers with the same name: at most one runs do at a time. The leader owns
// the only partition of topic in a consumer group. The context of do ends when the lead is lost; do must return soon
// then. Others wait for it for [Config.DrainTimeout] and a little more. Lead returns the error of do, or that of ctx.
//
// A process that is suspended for longer than [Config.SessionTimeout] may, for a moment after it wakes, run do beside
// the next leader.
func (c *Client) Lead(ctx context.Context, name string, topic schemas.Topic, do func(context.Context) error) error {
	group, err := c.newGroup(name, topic, kafka.RangeGroupBalancer{}, c.dialer())
	if err != nil {
		return err
	}
	err = c.leadIn(ctx, group, topic, do)
	if closing := group.Close(); err == nil {
		err = closing
	}
	return err
}

func (c *Client) leadIn(ctx context.Context, group *kafka.ConsumerGroup, topic schemas.Topic, do func(context.Context) error) error {
	for {
		generation, err := group.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && IsTransient(err):
			continue // Next has waited
		case err != nil:
			return fmt.Errorf("joining group: %w", err)
		}
		if len(generation.Assignments[c.Name(topic)]) == 0 {
			continue // Next returns when the members change
		}
		ended := make(chan error, 1)
		generation.Start(func(generation context.Context) {
			lead, cancel := context.WithCancel(ctx) // not from the generation's context, whose error is not one of package context
			defer cancel()
			defer context.AfterFunc(generation, cancel)()
			ended <- do(lead)
		})
		if err := interrupt.Failure(<-ended); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// dialer makes connections with the log's encryption and authentication.
func (c *Client) dialer() *kafka.Dialer {
	return &kafka.Dialer{ClientID: clientID, Timeout: dialTimeout + aliveTimeout, DialFunc: c.security.dialAlive, SASLMechanism: c.security.sasl}
}

// Foreign reads a topic outside the log, from its end at the call of [Client.OpenForeign].
type Foreign struct {
	topic   string
	readers []*kafka.Reader
}

// foreignWait is the longest that a broker holds back an answer.
const foreignWait = 250 * time.Millisecond

// OpenForeign opens a topic on the given brokers, or on the log's if there are none, with the log's encryption and
// authentication.
func (c *Client) OpenForeign(ctx context.Context, brokers []string, topic string) (*Foreign, error) {
	if len(brokers) == 0 {
		brokers = c.cfg.Brokers
	}
	dialer := c.dialer()
	var partitions []kafka.Partition
	err := c.Retry(ctx, "looking up topic "+topic, func(ctx context.Context) (err error) {
		partitions, err = dialer.LookupPartitions(ctx, "tcp", brokers[0], topic)
		return err
	})
	if err != nil {
		return nil, err
	}
	f := &Foreign{topic: topic}
	for _, p := range partitions {
		end, err := endOf(ctx, dialer, p)
		if err == nil {
			r := kafka.NewReader(kafka.ReaderConfig{Brokers: brokers, Topic: topic, Partition: p.ID, Dialer: dialer, MaxWait: foreignWait, MaxBytes: 10 << 20})
			f.readers, err = append(f.readers, r), r.SetOffset(end)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("reading topic %s, partition %d: %w", topic, p.ID, err), f.Close())
		}
	}
	return f, nil
}

func endOf(ctx context.Context, dialer *kafka.Dialer, p kafka.Partition) (int64, error) {
	conn, err := dialer.DialPartition(ctx, "tcp", "", p)
	if err != nil {
		return 0, err
	}
	end, err := conn.ReadLastOffset()
	return end, errors.Join(err, conn.Close())
}

// Run calls each with the values of the topic as they come, one at a time, until ctx ends.
func (f *Foreign) Run(ctx context.Context, each func(ctx context.Context, value []byte) error) error {
	values := make(chan []byte)
	reading, ctx := errgroup.WithContext(ctx)
	for _, r := range f.readers {
		reading.Go(func() error {
			for {
				m, err := r.ReadMessage(ctx)
				if err != nil {
					return fmt.Errorf("reading topic %s: %w", f.topic, err)
				}
				select {
				case values <- m.Value:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
	}
	reading.Go(func() error {
		for {
			select {
			case v := <-values:
				if err := each(ctx, v); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return reading.Wait()
}

// Close closes the connections.
func (f *Foreign) Close() error {
	var errs []error
	for _, r := range f.readers {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
