package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/pairstream/pairstream/internal/log/kafka"

	"github.com/pairstream/pairstream/schemas"
)

// A pair forgotten in one namespace must stay forgotten in later ones, which train on the same pictures. A namespace
// without `pairs` first takes over the tombstones of all others, and then gets that topic. So no pair can be in it
// before them, whichever process makes the topics and whenever it dies.

// In connects to another namespace of the same brokers.
func (l *Log) In(ctx context.Context, namespace string) (*Log, error) {
	cfg := l.cfg
	cfg.Namespace, cfg.TraceEndpoint = namespace, ""
	return Connect(ctx, cfg, Options{Logger: l.logger})
}

// Tombstones returns the notes of `forgotten`, by key; none where the topic does not exist.
func (l *Log) Tombstones(ctx context.Context) (map[string][]byte, error) {
	if found, err := l.Has(ctx, schemas.Forgotten); err != nil || !found {
		return nil, err
	}
	notes := make(map[string][]byte)
	err := l.Notes(ctx, schemas.Forgotten, "", func(key string, value []byte) error {
		notes[key] = value
		return nil
	})
	return notes, err
}

// AddTombstones writes the tombstones that are missing, and returns their number.
func (l *Log) AddTombstones(ctx context.Context, notes map[string][]byte) (added int, err error) {
	if len(notes) == 0 {
		return 0, nil
	}
	if err := l.makeAlone(ctx, schemas.Forgotten); err != nil {
		return 0, err
	}
	have, err := l.Tombstones(ctx)
	if err != nil {
		return 0, err
	}
	p := l.NewPublisher(PublisherOptions{Name: "forgotten"})
	for key, value := range notes {
		if _, ok := have[key]; ok {
			continue
		}
		added++
		if err = p.enqueue(ctx, message{Message: kafka.Message{Topic: schemas.Forgotten, Key: []byte(key), Value: value}}); err != nil {
			break
		}
	}
	if err = errors.Join(err, p.Close(ctx)); err != nil {
		return 0, fmt.Errorf("writing tombstones to %s: %w", l.Name(schemas.Forgotten), err)
	}
	return added, nil
}

// TombstonesOf returns the tombstones of other namespaces, and warns of namespaces whose tombstones this process may
// not read.
func (l *Log) TombstonesOf(ctx context.Context, namespaces []string) (map[string][]byte, error) {
	all := make(map[string][]byte)
	for _, namespace := range namespaces {
		other, err := l.In(ctx, namespace)
		if err != nil {
			return nil, err
		}
		notes, err := other.Tombstones(ctx)
		other.Close()
		switch {
		case kafka.NotAllowed(err):
			l.logger.Warn("the tombstones of another namespace cannot be taken over", keyNamespace, namespace, keyErr, err)
		case err != nil:
			return nil, fmt.Errorf("reading the forgotten pairs of NAMESPACE=%s: %w", namespace, err)
		}
		maps.Copy(all, notes)
	}
	return all, nil
}

// makeAlone makes one topic.
func (l *Log) makeAlone(ctx context.Context, topic schemas.Topic) error {
	missing, err := l.MissingTopics(ctx, topic)
	if err == nil && len(missing) > 0 {
		err = l.MakeTopics(ctx, missing, topic)
	}
	return err
}

// inherit takes over the tombstones of all other namespaces.
func (l *Log) inherit(ctx context.Context) error {
	others, err := l.Namespaces(ctx)
	if err != nil {
		return err
	}
	notes, err := l.TombstonesOf(ctx, others)
	if err != nil {
		return err
	}
	n, err := l.AddTombstones(ctx, notes)
	if kafka.NotAllowed(err) {
		return fmt.Errorf("%w: a new namespace takes over the forgotten pairs of others; create its topics as an operator, with `pairstream topics create`", err)
	}
	if n > 0 {
		l.logger.Warn("this new namespace takes over the forgotten pairs of others", keyNamespace, l.cfg.Namespace, keyCount, n)
	}
	return err
}
