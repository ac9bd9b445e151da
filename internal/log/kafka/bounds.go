package kafka

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// Bounds is the range of offsets that one lane of a topic holds: from Start up to but not including End.
type Bounds struct{ Start, End int64 }

// Bounds asks the broker for a lane's bounds, and waits until it answers.
func (c *Client) Bounds(ctx context.Context, topic schemas.Topic, lane int) (Bounds, error) {
	var b Bounds
	name := c.Name(topic)
	err := c.Retry(ctx, fmt.Sprintf("listing offsets of %s, lane %d", name, lane), func(ctx context.Context) error {
		resp, err := c.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
			IsolationLevel: kafka.ReadCommitted,
			Topics:         map[string][]kafka.OffsetRequest{name: {kafka.FirstOffsetOf(lane), kafka.LastOffsetOf(lane)}},
		})
		if err != nil {
			return err
		}
		for _, p := range resp.Topics[name] {
			if p.Partition == lane {
				b = Bounds{p.FirstOffset, p.LastOffset}
				return p.Error
			}
		}
		return kafka.UnknownTopicOrPartition
	})
	return b, err
}

// Ends asks the broker for the end of every lane of a topic.
func (c *Client) Ends(ctx context.Context, topic schemas.Topic) ([]int64, error) {
	return c.offsets(ctx, topic, "ends", kafka.LastOffsetOf, func(p kafka.PartitionOffsets) int64 { return p.LastOffset })
}

// Starts asks the broker for the first offset that every lane of a topic still holds.
func (c *Client) Starts(ctx context.Context, topic schemas.Topic) ([]int64, error) {
	return c.offsets(ctx, topic, "starts", kafka.FirstOffsetOf, func(p kafka.PartitionOffsets) int64 { return p.FirstOffset })
}

func (c *Client) offsets(ctx context.Context, topic schemas.Topic, what string, of func(lane int) kafka.OffsetRequest, pick func(kafka.PartitionOffsets) int64) ([]int64, error) {
	found, name := make([]int64, c.cfg.Lanes), c.Name(topic)
	var ask []kafka.OffsetRequest
	for lane := range found {
		ask = append(ask, of(lane))
	}
	err := c.Retry(ctx, "listing the "+what+" of "+name, func(ctx context.Context) error {
		resp, err := c.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
			IsolationLevel: kafka.ReadCommitted, Topics: map[string][]kafka.OffsetRequest{name: ask},
		})
		if err != nil {
			return err
		}
		answers := resp.Topics[name]
		for _, p := range answers {
			if p.Error != nil {
				return fmt.Errorf("lane %d: %w", p.Partition, p.Error)
			}
			found[p.Partition] = pick(p)
		}
		if len(answers) != len(found) {
			return fmt.Errorf("%d of %d lanes: %w", len(answers), len(found), kafka.UnknownTopicOrPartition)
		}
		return nil
	})
	return found, err
}

// LastWhere reads the last record of a lane that counts. It looks back in growing windows, past records of others and
// control batches of transactions.
func (c *Client) LastWhere(ctx context.Context, topic schemas.Topic, lane int, counts func(*Record) bool) (Record, bool, error) {
	b, err := c.Bounds(ctx, topic, lane)
	if err != nil {
		return Record{}, false, err
	}
	f := c.look(topic, lane)
	for window := int64(1); b.End > b.Start; window *= 8 {
		from := max(b.Start, b.End-window)
		rec, found, err := f.lastIn(ctx, from, b.End, counts)
		if err != nil || found {
			return rec, found, err
		}
		if from == b.Start {
			break
		}
	}
	return Record{}, false, nil
}

// LastIn finds the last record that counts among the offsets from..end-1 of a lane.
func (c *Client) LastIn(ctx context.Context, topic schemas.Topic, lane int, from, end int64, counts func(*Record) bool) (Record, bool, error) {
	return c.look(topic, lane).lastIn(ctx, from, end, counts)
}

// ReadAt asks once for the records from an offset on, about most bytes of them. It returns at least one record if there
// is any, and the offset after the records as next.
func (c *Client) ReadAt(ctx context.Context, topic schemas.Topic, lane int, offset, most int64) (records []Record, next int64, err error) {
	f := c.look(topic, lane)
	f.budget = most
	return f.fetch(ctx, offset)
}

// look returns a fetcher that reads only on request.
func (c *Client) look(topic schemas.Topic, lane int) *Fetcher {
	return &Fetcher{client: c, topic: topic, lane: lane, budget: maxFetchBytes}
}

func (f *Fetcher) lastIn(ctx context.Context, from, end int64, counts func(*Record) bool) (Record, bool, error) {
	var latest Record
	found := false
	for from < end {
		var records []Record
		next := from
		what := fmt.Sprintf("reading the end of %s, lane %d", f.client.Name(f.topic), f.lane)
		err := f.client.Retry(ctx, what, func(ctx context.Context) error {
			var err error
			records, next, err = f.fetch(ctx, from)
			if err == nil && next == from {
				return fmt.Errorf("%w: no record at offset %d, although the log goes on to %d", ErrTransient, from, end)
			}
			return err
		})
		if err != nil {
			return latest, false, err
		}
		for i := range records {
			if rec := &records[i]; rec.Offset < end && counts(rec) {
				latest, found = *rec, true
			}
		}
		from = next
	}
	return latest, found, nil
}
