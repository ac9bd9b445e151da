package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// deadLetterRoom is how much larger than its record a dead letter may be.
const deadLetterRoom = 1 << 20

// EnsureTopics creates the topics of the catalogue that are missing, and refuses those that have another number of
// partitions than the configuration asks for.
func (l *Log) EnsureTopics(ctx context.Context) error {
	missing, err := l.checkTopics(ctx)
	if err != nil || len(missing) == 0 {
		return err
	}
	err = l.retry(ctx, "creating topics", func(ctx context.Context) error {
		resp, err := l.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: l.topicConfigs(missing)})
		if err != nil {
			return err
		}
		for name, err := range resp.Errors {
			if err != nil && !errors.Is(err, kafka.TopicAlreadyExists) { // another process was quicker: checked below
				return fmt.Errorf("topic %s: %w", name, err)
			}
		}
		return nil
	})
	if errors.Is(err, kafka.InvalidReplicationFactor) {
		return fmt.Errorf("KAFKA_REPLICATION=%d: %w", l.cfg.Replication, err)
	}
	if err != nil {
		return err
	}
	return l.awaitTopics(ctx)
}

// awaitTopics waits until the new topics can be seen: a cluster learns of them a little after they are created.
func (l *Log) awaitTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*l.cfg.RequestTimeout)
	defer cancel()
	var pause backoff
	for {
		missing, err := l.checkTopics(ctx)
		if err != nil || len(missing) == 0 {
			return err
		}
		if err := pause.wait(ctx); err != nil {
			return fmt.Errorf("waiting for topics %v: %w", missing, err)
		}
	}
}

func (l *Log) topicConfigs(topics []schemas.TopicInfo) []kafka.TopicConfig {
	var configs []kafka.TopicConfig
	for _, t := range topics {
		limit := l.cfg.MaxMessageBytes
		if t.Topic == schemas.DeadLetters {
			limit += deadLetterRoom
		}
		retention := int64(-1)
		if l.cfg.Retention > 0 {
			retention = l.cfg.Retention.Milliseconds()
		}
		entries := []kafka.ConfigEntry{
			{ConfigName: "max.message.bytes", ConfigValue: strconv.Itoa(limit)},
			{ConfigName: "retention.ms", ConfigValue: strconv.FormatInt(retention, 10)},
			// A broker refuses what a clock that is an hour fast has stamped, unless the stamps are its own.
			{ConfigName: "message.timestamp.type", ConfigValue: "LogAppendTime"},
		}
		if l.cfg.MinInsync > 0 {
			entries = append(entries, kafka.ConfigEntry{ConfigName: "min.insync.replicas", ConfigValue: strconv.Itoa(l.cfg.MinInsync)})
		}
		configs = append(configs, kafka.TopicConfig{
			Topic: l.name(t.Topic), NumPartitions: l.partitions(t), ReplicationFactor: l.cfg.Replication, ConfigEntries: entries,
		})
	}
	return configs
}

func (l *Log) partitions(t schemas.TopicInfo) int {
	if t.Lane {
		return l.cfg.Lanes
	}
	return 1
}

var errNoTopic = errors.New("does not exist")

// topicsPatience is how long a stage waits for topics when it starts: brokers learn of those that were just created one
// after the other, so what one has told, another may not know yet.
const topicsPatience = 5 * time.Second

// awaitChecked is CheckTopics with that patience.
func (l *Log) awaitChecked(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, min(topicsPatience, l.cfg.RequestTimeout))
	defer cancel()
	var pause backoff
	for {
		err := l.CheckTopics(ctx)
		if !errors.Is(err, errNoTopic) || pause.wait(wait) != nil {
			return err
		}
	}
}

// CheckTopics reports topics that are missing or have the wrong number of partitions.
func (l *Log) CheckTopics(ctx context.Context) error {
	missing, err := l.checkTopics(ctx)
	if err != nil {
		return err
	}
	var problems []error
	for _, t := range missing {
		problems = append(problems, fmt.Errorf("topic %s %w (NAMESPACE=%s)", l.name(t.Topic), errNoTopic, l.cfg.Namespace))
	}
	return errors.Join(problems...)
}

func (l *Log) checkTopics(ctx context.Context) (missing []schemas.TopicInfo, err error) {
	counts, err := l.partitionCounts(ctx)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, t := range schemas.Catalogue() {
		have, want := counts[t.Topic], l.partitions(t)
		switch {
		case have == 0:
			missing = append(missing, t)
		case have != want && t.Lane:
			problems = append(problems, fmt.Errorf("topic %s has %d partitions: LANES=%d wants %d", l.name(t.Topic), have, l.cfg.Lanes, want))
		case have != want:
			problems = append(problems, fmt.Errorf("topic %s has %d partitions: want 1", l.name(t.Topic), have))
		}
	}
	return missing, errors.Join(problems...)
}

// partitionCounts asks over connections of its own, because the shared ones answer from a cache.
func (l *Log) partitionCounts(ctx context.Context) (map[schemas.Topic]int, error) {
	counts := make(map[schemas.Topic]int)
	err := l.retry(ctx, "reading topics", func(ctx context.Context) error {
		transport := l.freshTransport()
		defer transport.CloseIdleConnections()
		client := kafka.Client{Addr: l.addr, Transport: transport}
		var names []string
		for _, t := range schemas.Catalogue() {
			names = append(names, l.name(t.Topic))
		}
		resp, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: names})
		if err != nil {
			return err
		}
		for i, t := range schemas.Catalogue() {
			switch err := resp.Topics[i].Error; {
			case err == nil:
				counts[t.Topic] = len(resp.Topics[i].Partitions)
			case !errors.Is(err, kafka.UnknownTopicOrPartition):
				return fmt.Errorf("topic %s: %w", names[i], err)
			}
		}
		return nil
	})
	return counts, err
}

func (l *Log) freshTransport() *kafka.Transport {
	t := l.transport
	return &kafka.Transport{
		ClientID: t.ClientID, DialTimeout: t.DialTimeout, MetadataTTL: time.Minute, MetadataTopics: t.MetadataTopics,
		Dial: t.Dial, SASL: t.SASL,
	}
}
