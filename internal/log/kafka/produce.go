package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/schemas"
)

// maxAckTimeout is the longest wait for an ack.
const maxAckTimeout = 5 * time.Minute

// ErrTooLarge marks a record that its topic refuses for its size.
var ErrTooLarge = errors.New("record is larger than its topic takes")

// TooLarge reports whether the brokers have refused a batch for its size.
func TooLarge(err error) bool { return errors.Is(err, kafka.MessageSizeTooLarge) }

// Delivery is a batch for one lane.
type Delivery struct {
	Topic schemas.Topic
	Lane  int
	Batch Batch
	Clock func() time.Time // time stamp of the records; brokers may replace it by their own time
	// Arrived reports whether the batch is in the log. Deliver calls it when an answer was lost or late.
	Arrived func(context.Context) (bool, error)
}

// Unknown is the offset of a batch that was found in the log after its answer was lost.
const Unknown = -1

// Deliver sends a batch, with acks from all in-sync replicas, until the broker has acknowledged it. It returns the
// offset of the first record, or [Unknown]. After a lost or late answer the batch may still be in the log. So Deliver
// looks for it there, and doubles the time for the next answer. Otherwise a broker whose acks take longer than the
// timeout would append the batch again without end.
func (c *Client) Deliver(ctx context.Context, d Delivery) (offset int64, err error) {
	var pause Backoff
	what, timeout := fmt.Sprintf("writing to %s, lane %d", c.Name(d.Topic), d.Lane), c.cfg.PerRequest()
	for {
		offset, err = c.produce(ctx, &d, timeout)
		switch {
		case err == nil:
			return offset, nil
		case ctx.Err() != nil:
			return 0, fmt.Errorf("%s: %w", what, ctx.Err())
		case !passes(err):
			return 0, fmt.Errorf("%s: %w", what, err)
		}
		if err := c.pause(ctx, &pause, what, what, err); err != nil {
			return 0, err
		}
		if answered(err) {
			continue
		}
		timeout = min(2*timeout, maxAckTimeout)
		there, err := d.Arrived(ctx)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", what, err)
		}
		if there {
			return Unknown, nil
		}
	}
}

// answered reports whether a broker has said that it did not append.
func answered(err error) bool {
	var refused kafka.Error
	return errors.As(err, &refused) && !errors.Is(err, kafka.RequestTimedOut)
}

// produce sends a batch once, and returns the offset that the broker gave it.
func (c *Client) produce(ctx context.Context, d *Delivery, timeout time.Duration) (offset int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	room := batchRooms.Get().(*[]byte)
	if *room, err = appendProduce((*room)[:0], c.Name(d.Topic), d.Lane, timeout/2, d.Batch, d.Clock(), c.compression); err != nil {
		return 0, err
	}
	resp, err := ask[*kmsg.ProduceResponse](ctx, c, &exchange{req: kmsg.NewPtrProduceRequest(), to: leaderOf(c.Name(d.Topic), d.Lane), write: func(version int16) ([]byte, error) {
		if version < leastProduce {
			return nil, fmt.Errorf("brokers take version %d of produce requests at most, want %d: use Kafka 0.11 or later: %w", version, leastProduce, kafka.UnsupportedVersion)
		}
		binary.BigEndian.PutUint16((*room)[requestVersion:], uint16(version))
		return *room, nil
	}})
	if err != nil {
		return 0, err // the transport may still read the buffer
	}
	batchRooms.Put(room)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("answer to a produce request has %d topics: %w", len(resp.Topics), kafka.UnknownTopicOrPartition)
	}
	answer := &resp.Topics[0].Partitions[0]
	switch {
	case answer.ErrorCode == 0:
		return answer.BaseOffset, nil
	case answer.ErrorMessage == nil || *answer.ErrorMessage == "":
		return 0, kafka.Error(answer.ErrorCode)
	}
	return 0, fmt.Errorf("%w: %s", kafka.Error(answer.ErrorCode), *answer.ErrorMessage)
}
