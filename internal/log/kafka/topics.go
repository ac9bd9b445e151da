package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/schemas"
)

// deadLetterRoom is the most by which a dead letter may be larger than its record.
const deadLetterRoom = 1 << 20

// MakeTopics creates topics, and waits until the brokers know all of the named ones.
func (c *Client) MakeTopics(ctx context.Context, missing []schemas.TopicInfo, only ...schemas.Topic) error {
	err := c.createTopics(ctx, missing, true)
	if errors.Is(err, kafka.InvalidConfiguration) {
		err = c.createTopics(ctx, missing, false)
	}
	if errors.Is(err, kafka.InvalidReplicationFactor) {
		return fmt.Errorf("KAFKA_REPLICATION=%d: %w", c.cfg.Replication, err)
	}
	if err != nil {
		return err
	}
	return c.awaitTopics(ctx, only...)
}

func (c *Client) createTopics(ctx context.Context, missing []schemas.TopicInfo, unclean bool) error {
	return c.Retry(ctx, "creating topics", func(ctx context.Context) error {
		resp, err := c.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: c.topicConfigs(missing, unclean)})
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
}

// awaitTopics waits until every broker knows the new topics. Brokers learn of them one after the other, and the next
// command may ask any of them.
func (c *Client) awaitTopics(ctx context.Context, only ...schemas.Topic) error {
	ctx, cancel := context.WithTimeout(ctx, 3*c.cfg.PerRequest())
	defer cancel()
	var pause Backoff
	for {
		missing, err := c.MissingTopics(ctx, only...)
		if err == nil && len(missing) == 0 {
			missing, err = c.missingSomewhere(ctx, catalogue(only))
		}
		if err != nil || len(missing) == 0 {
			return err
		}
		if err := pause.Wait(ctx); err != nil {
			return fmt.Errorf("waiting for topics %v: %w", missing, err)
		}
	}
}

// missingSomewhere returns the topics that some broker does not know yet. It skips a broker that does not answer: it
// may be down, and learns of the topics when it returns.
func (c *Client) missingSomewhere(ctx context.Context, topics []schemas.TopicInfo) ([]schemas.TopicInfo, error) {
	_, brokers, err := c.partitionCounts(ctx, topics)
	if err != nil {
		return nil, err
	}
	for _, b := range brokers {
		counts, _, err := c.countAt(ctx, brokerOf(b.NodeID), topics)
		if err != nil {
			c.logger.Warn("a broker does not say which topics it knows", keyBroker, b.Host, keyErr, err)
			continue
		}
		if missing := slices.DeleteFunc(slices.Clone(topics), func(t schemas.TopicInfo) bool { return counts[t.Topic] > 0 }); len(missing) > 0 {
			return missing, nil
		}
	}
	return nil, nil
}

// topicConfigs returns the topics to create. The embedded broker has neither replicas nor unclean elections.
func (c *Client) topicConfigs(topics []schemas.TopicInfo, unclean bool) []kafka.TopicConfig {
	var configs []kafka.TopicConfig
	for _, t := range topics {
		entries := c.wanted(t.Topic)
		if !unclean {
			entries = slices.DeleteFunc(entries, func(e kafka.ConfigEntry) bool { return e.ConfigName == configUnclean })
		}
		configs = append(configs, kafka.TopicConfig{
			Topic: c.Name(t.Topic), NumPartitions: c.partitions(t), ReplicationFactor: c.cfg.Replication, ConfigEntries: entries,
		})
	}
	return configs
}

// wantedMaxMessage returns max.message.bytes for a new topic.
func (c *Client) wantedMaxMessage(t schemas.Topic) int {
	if t == schemas.DeadLetters {
		return c.cfg.MaxMessageBytes + deadLetterRoom
	}
	return c.cfg.MaxMessageBytes
}

// MaxMessage returns the size of the largest batch that a topic takes, as far as this process knows.
func (c *Client) MaxMessage(t schemas.Topic) int {
	if limit, ok := c.limits.Load(t); ok {
		return limit.(int)
	}
	return c.wantedMaxMessage(t)
}

func (c *Client) partitions(t schemas.TopicInfo) int {
	if t.Lane {
		return c.cfg.Lanes
	}
	return 1
}

var errNoTopic = errors.New("does not exist")

// topicsPatience is the time that a starting stage waits for topics. Brokers learn of new topics one after the other,
// so one broker may not know yet what another has told.
const topicsPatience = 5 * time.Second

// AwaitTopics is CheckTopics with that patience.
func (c *Client) AwaitTopics(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, min(topicsPatience, c.cfg.PerRequest()))
	defer cancel()
	var pause Backoff
	for {
		err := c.CheckTopics(ctx)
		if !errors.Is(err, errNoTopic) || pause.Wait(wait) != nil {
			return err
		}
	}
}

// CheckTopics reports topics that are missing, have the wrong number of partitions, or a setting that would lose
// records. It looks at the named topics; without names at all.
func (c *Client) CheckTopics(ctx context.Context, only ...schemas.Topic) error {
	missing, err := c.MissingTopics(ctx, only...)
	if err != nil {
		return err
	}
	if err := c.Lacks(missing); err != nil {
		return err
	}
	return c.CheckSettings(ctx, only...)
}

// Lacks returns an error that names the first topic that is missing, and how to make all of them.
func (c *Client) Lacks(missing []schemas.TopicInfo) error {
	var names []string
	for _, t := range missing {
		if t.Topic == schemas.Judgements || t.Topic == schemas.Forgotten { // an older log lacks it; its first writer creates it
			continue
		}
		names = append(names, c.Name(t.Topic))
	}
	if len(names) == 0 {
		return nil
	}
	err := fmt.Errorf("topic %s %w (NAMESPACE=%s)", names[0], errNoTopic, c.cfg.Namespace)
	if more := len(names) - 1; more > 0 {
		err = fmt.Errorf("%w, nor do %d others: name the namespace of a run, or make its topics with `pairstream topics create`", err, more)
	}
	return err
}

// catalogue returns the named topics, or all.
func catalogue(only []schemas.Topic) []schemas.TopicInfo {
	return slices.DeleteFunc(schemas.Catalogue(), func(t schemas.TopicInfo) bool {
		return len(only) > 0 && !slices.Contains(only, t.Topic)
	})
}

// MissingTopics returns those of the named topics (without names, of the catalogue) that do not exist. A topic whose
// number of partitions differs from the configuration is an error.
func (c *Client) MissingTopics(ctx context.Context, only ...schemas.Topic) (missing []schemas.TopicInfo, err error) {
	topics := catalogue(only)
	counts, _, err := c.partitionCounts(ctx, topics)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, t := range topics {
		have, want := counts[t.Topic], c.partitions(t)
		switch {
		case have == 0:
			missing = append(missing, t)
		case have != want && t.Lane:
			problems = append(problems, fmt.Errorf("topic %s has %d partitions: LANES=%d wants %d", c.Name(t.Topic), have, c.cfg.Lanes, want))
		case have != want:
			problems = append(problems, fmt.Errorf("topic %s has %d partitions: want 1", c.Name(t.Topic), have))
		}
	}
	return missing, errors.Join(problems...)
}

// Has reports whether a topic exists. Reading a missing topic would wait for it.
func (c *Client) Has(ctx context.Context, t schemas.Topic) (bool, error) {
	counts, _, err := c.partitionCounts(ctx, []schemas.TopicInfo{{Topic: t}})
	return counts[t] > 0, err
}

// partitionCounts returns the number of partitions of topics (0 for missing ones), and all brokers of the cluster.
func (c *Client) partitionCounts(ctx context.Context, topics []schemas.TopicInfo) (counts map[schemas.Topic]int, brokers []kmsg.MetadataResponseBroker, err error) {
	err = c.Retry(ctx, "reading topics", func(ctx context.Context) (err error) {
		counts, brokers, err = c.countAt(ctx, anyBroker, topics)
		return err
	})
	return counts, brokers, err
}

// countAt is partitionCounts at one broker.
func (c *Client) countAt(ctx context.Context, at route, topics []schemas.TopicInfo) (map[schemas.Topic]int, []kmsg.MetadataResponseBroker, error) {
	byName, ask := make(map[string]schemas.Topic), kmsg.NewPtrMetadataRequest()
	for _, t := range topics {
		byName[c.Name(t.Topic)] = t.Topic
		ask.Topics = append(ask.Topics, topicNamed(c.Name(t.Topic)))
	}
	resp, err := c.metadata(ctx, at, ask)
	if err != nil {
		return nil, nil, err
	}
	counts := make(map[schemas.Topic]int)
	for _, t := range resp.Topics {
		switch err := kafka.Error(t.ErrorCode); {
		case err == 0:
			counts[byName[*t.Topic]] = len(t.Partitions)
		case err != kafka.UnknownTopicOrPartition:
			return nil, nil, fmt.Errorf("topic %s: %w", *t.Topic, err)
		}
	}
	return counts, resp.Brokers, nil
}
