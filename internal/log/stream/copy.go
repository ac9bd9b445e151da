package stream

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/log/kafka"
)

// Copy queues a record of an outside producer for the same lane of this publisher's namespace. It keeps key, headers
// and value as they are.
func (p *Publisher) Copy(ctx context.Context, rec Record) error {
	if Sequenced(rec.Topic) {
		return fmt.Errorf("copying %s, lane %d, offset %d: its records are numbered by the stage that writes them", rec.Topic, rec.Lane, rec.Offset)
	}
	return p.enqueue(ctx, message{Message: kafka.Message{Topic: rec.Topic, Lane: rec.Lane, Key: rec.Key, Value: rec.Value, Headers: rec.Headers}})
}
