package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/schemas"
)

// The control topic is small and compacted, so retention does not delete from it. It holds facts that must live as long
// as the log: decisions of operators, and which dead letters were put back. The notes are JSON, by key.

// remember writes a note under its key.
func (l *Log) remember(ctx context.Context, key string, v any) error {
	p := l.NewPublisher(PublisherOptions{Name: "control"})
	err := p.Note(ctx, schemas.Control, key, v)
	return errors.Join(err, p.Close(ctx))
}

// Note queues a note for a compacted topic. The last note of a key counts.
func (p *Publisher) Note(ctx context.Context, topic schemas.Topic, key string, v any) error {
	value, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding note %s: %w", key, err)
	}
	return p.enqueue(ctx, message{Message: kafka.Message{Topic: topic, Key: []byte(key), Value: value}})
}

// recall calls each with the latest note of every key that begins with prefix, in no order.
func (l *Log) recall(ctx context.Context, prefix string, each func(key string, value []byte) error) error {
	return l.Notes(ctx, schemas.Control, prefix, each)
}

// Notes calls each with the latest note of every key of a compacted topic that begins with prefix, in no order.
func (l *Log) Notes(ctx context.Context, topic schemas.Topic, prefix string, each func(key string, value []byte) error) error {
	latest := make(map[string][]byte)
	for rec, err := range l.Records(ctx, topic, 0, Position{}, -1) {
		if err != nil {
			return fmt.Errorf("reading notes: %w", err)
		}
		if strings.HasPrefix(string(rec.Key), prefix) {
			latest[string(rec.Key)] = rec.Value
		}
	}
	for key, value := range latest {
		if err := each(key, value); err != nil {
			return fmt.Errorf("reading note %s: %w", key, err)
		}
	}
	return nil
}

// span is a run of dead letters, by number.
type span struct{ From, To int64 }

const putBackPrefix = "put-back/"

// PutBack returns the numbers of the dead letters that were put back.
func (l *Log) PutBack(ctx context.Context) (map[int64]bool, error) {
	numbers := make(map[int64]bool)
	err := l.recall(ctx, putBackPrefix, func(_ string, value []byte) error {
		var spans []span
		err := json.Unmarshal(value, &spans)
		for _, s := range spans {
			for n := s.From; n <= s.To; n++ {
				numbers[n] = true
			}
		}
		return err
	})
	return numbers, err
}

// RememberPutBack notes that dead letters were put back, in ascending order of their numbers.
func (l *Log) RememberPutBack(ctx context.Context, numbers []int64) error {
	if len(numbers) == 0 {
		return nil
	}
	var spans []span
	for _, n := range numbers {
		if i := len(spans) - 1; i >= 0 && spans[i].To == n-1 {
			spans[i].To = n
		} else {
			spans = append(spans, span{n, n})
		}
	}
	return l.remember(ctx, fmt.Sprintf("%s%d-%d", putBackPrefix, numbers[0], numbers[len(numbers)-1]), spans)
}
