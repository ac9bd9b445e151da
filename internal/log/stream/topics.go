package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// deadLetterRoom is the most by which a dead letter may be larger than its record.
const deadLetterRoom = 1 << 20

// EnsureTopics creates the topics of the catalogue that are missing. It refuses those that have another number of
// partitions than the configuration asks for, or a setting that would lose records. Where brokers do not let this process see
// all topics, it looks at the named ones, if there are any. A new namespace takes over the tombstones of all others.
func (l *Log) EnsureTopics(ctx context.Context, least ...schemas.Topic) error {
	err := l.ensureTopics(ctx)
	if errors.Is(err, kafka.TopicAuthorizationFailed) && len(least) > 0 {
		return l.ensureTopics(ctx, least...)
	}
	return err
}

// EnsureTopicsWithoutTombstones does what EnsureTopics does, and takes nothing over.
func (l *Log) EnsureTopicsWithoutTombstones(ctx context.Context) error {
	if err := l.makeAlone(ctx, schemas.Pairs); err != nil { // without it, the namespace would be new
		return err
	}
	return l.ensureTopics(ctx)
}

func (l *Log) ensureTopics(ctx context.Context, only ...schemas.Topic) error {
	missing, err := l.checkTopics(ctx, only...)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(missing, func(t schemas.TopicInfo) bool { return t.Topic == schemas.Pairs }) {
		if err := l.inherit(ctx); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		if err := l.makeTopics(ctx, missing, only...); err != nil {
			return err
		}
	}
	return l.checkSettings(ctx, only...)
}

// makeTopics creates topics, and waits until the brokers know all of the named ones.
func (l *Log) makeTopics(ctx context.Context, missing []schemas.TopicInfo, only ...schemas.Topic) error {
	err := l.createTopics(ctx, missing, true)
	if errors.Is(err, kafka.InvalidConfiguration) {
		err = l.createTopics(ctx, missing, false)
	}
	if errors.Is(err, kafka.InvalidReplicationFactor) {
		return fmt.Errorf("KAFKA_REPLICATION=%d: %w", l.cfg.Replication, err)
	}
	if err != nil {
		return err
	}
	return l.awaitTopics(ctx, only...)
}

func (l *Log) createTopics(ctx context.Context, missing []schemas.TopicInfo, unclean bool) error {
	return l.retry(ctx, "creating topics", func(ctx context.Context) error {
		resp, err := l.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: l.topicConfigs(missing, unclean)})
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

// awaitTopics waits until every broker knows the new topics. They learn of them one after the other, and the next command
// may ask any of them.
func (l *Log) awaitTopics(ctx context.Context, only ...schemas.Topic) error {
	ctx, cancel := context.WithTimeout(ctx, 3*l.cfg.RequestTimeout)
	defer cancel()
	var pause backoff
	for {
		missing, err := l.checkTopics(ctx, only...)
		if err == nil && len(missing) == 0 {
			missing, err = l.missingSomewhere(ctx, catalogue(only))
		}
		if err != nil || len(missing) == 0 {
			return err
		}
		if err := pause.wait(ctx); err != nil {
			return fmt.Errorf("waiting for topics %v: %w", missing, err)
		}
	}
}

// missingSomewhere returns the topics that one of the brokers does not know yet. It passes over a broker that does not
// answer: it may have gone down, and learns of them when it comes back.
func (l *Log) missingSomewhere(ctx context.Context, topics []schemas.TopicInfo) ([]schemas.TopicInfo, error) {
	_, brokers, err := l.partitionCounts(ctx, topics)
	if err != nil {
		return nil, err
	}
	for _, b := range brokers {
		counts, _, err := l.countAt(ctx, kafka.TCP(net.JoinHostPort(b.Host, strconv.Itoa(b.Port))), topics)
		if err != nil {
			l.logger.Warn("a broker does not say which topics it knows", keyBroker, b.Host, keyErr, err)
			continue
		}
		if missing := slices.DeleteFunc(slices.Clone(topics), func(t schemas.TopicInfo) bool { return counts[t.Topic] > 0 }); len(missing) > 0 {
			return missing, nil
		}
	}
	return nil, nil
}

// topicConfigs returns the topics to create. The embedded broker has no replicas, and knows no unclean election.
func (l *Log) topicConfigs(topics []schemas.TopicInfo, unclean bool) []kafka.TopicConfig {
	var configs []kafka.TopicConfig
	for _, t := range topics {
		entries := l.wanted(t.Topic)
		if !unclean {
			entries = slices.DeleteFunc(entries, func(e kafka.ConfigEntry) bool { return e.ConfigName == configUnclean })
		}
		configs = append(configs, kafka.TopicConfig{
			Topic: l.name(t.Topic), NumPartitions: l.partitions(t), ReplicationFactor: l.cfg.Replication, ConfigEntries: entries,
		})
	}
	return configs
}

// wantedMaxMessage returns max.message.bytes of a topic that is created.
func (l *Log) wantedMaxMessage(t schemas.Topic) int {
	if t == schemas.DeadLetters {
		return l.cfg.MaxMessageBytes + deadLetterRoom
	}
	return l.cfg.MaxMessageBytes
}

// maxMessage returns the size of the largest batch that a topic takes, as far as this process knows.
func (l *Log) maxMessage(t schemas.Topic) int {
	if limit, ok := l.limits.Load(t); ok {
		return limit.(int)
	}
	return l.wantedMaxMessage(t)
}

func (l *Log) partitions(t schemas.TopicInfo) int {
	if t.Lane {
		return l.cfg.Lanes
	}
	return 1
}

var errNoTopic = errors.New("does not exist")

// topicsPatience is the time that a stage waits for topics when it starts. Brokers learn of new topics one after the
// other. So one broker may not know yet what another has told.
const topicsPatience = 5 * time.Second

// awaitChecked does the same as CheckTopics, with that patience.
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

// CheckTopics reports topics that are missing, have the wrong number of partitions, or a setting that would lose
// records. Named topics alone are looked at.
func (l *Log) CheckTopics(ctx context.Context, only ...schemas.Topic) error {
	missing, err := l.checkTopics(ctx, only...)
	if err != nil {
		return err
	}
	if err := l.lacks(missing); err != nil {
		return err
	}
	return l.checkSettings(ctx, only...)
}

// lacks returns an error that names the first topic that is missing, and how to make all of them.
func (l *Log) lacks(missing []schemas.TopicInfo) error {
	var names []string
	for _, t := range missing {
		if t.Topic == schemas.Judgements || t.Topic == schemas.Forgotten { // of an older log; who writes there makes it
			continue
		}
		names = append(names, l.name(t.Topic))
	}
	if len(names) == 0 {
		return nil
	}
	err := fmt.Errorf("topic %s %w (NAMESPACE=%s)", names[0], errNoTopic, l.cfg.Namespace)
	if more := len(names) - 1; more > 0 {
		err = fmt.Errorf("%w, nor do %d others: name the namespace of a run, or make its topics with `pairstream topics create`", err, more)
	}
	return err
}

// topicsEvery is the time between two looks of a running stage at its topics, which may have changed.
const topicsEvery = time.Minute

// watchTopics says while a stage runs that its topics have changed. Nobody reads partitions that were added, and lanes wait
// for a topic that was deleted. The lanes of a topic that was made anew are taken up again.
func (r *roster) watchTopics(ctx context.Context) {
	tick := time.NewTicker(r.log.topicsEvery)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		missing, err := r.log.checkTopics(ctx)
		switch {
		case err == nil && len(missing) == 0:
			r.lookForAnew(ctx)
		case err == nil:
			err = r.log.lacks(missing)
		}
		if ctx.Err() != nil {
			return
		}
		text := ""
		if err != nil {
			text = strings.ReplaceAll(err.Error(), "\n", ", ")
		}
		if text != said && text != "" {
			r.log.logger.Error("the topics are not as they were when this stage began", keyStage, r.stage, keyErr, err)
		}
		said = text
		r.instruments.c.say(allLanes, text)
	}
}

// catalogue returns the named topics, or all.
func catalogue(only []schemas.Topic) []schemas.TopicInfo {
	return slices.DeleteFunc(schemas.Catalogue(), func(t schemas.TopicInfo) bool {
		return len(only) > 0 && !slices.Contains(only, t.Topic)
	})
}

func (l *Log) checkTopics(ctx context.Context, only ...schemas.Topic) (missing []schemas.TopicInfo, err error) {
	topics := catalogue(only)
	counts, _, err := l.partitionCounts(ctx, topics)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, t := range topics {
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

// Has reports whether a topic exists. Methods that read would wait for one that does not.
func (l *Log) Has(ctx context.Context, t schemas.Topic) (bool, error) {
	counts, _, err := l.partitionCounts(ctx, []schemas.TopicInfo{{Topic: t}})
	return counts[t] > 0, err
}

// partitionCounts returns how many partitions topics have, 0 for those that do not exist, and all brokers of the cluster.
func (l *Log) partitionCounts(ctx context.Context, topics []schemas.TopicInfo) (counts map[schemas.Topic]int, brokers []kafka.Broker, err error) {
	err = l.retry(ctx, "reading topics", func(ctx context.Context) (err error) {
		counts, brokers, err = l.countAt(ctx, l.addr, topics)
		return err
	})
	return counts, brokers, err
}

// countAt does so at one broker. It asks over connections of its own, because the shared ones answer from a cache.
func (l *Log) countAt(ctx context.Context, at net.Addr, topics []schemas.TopicInfo) (map[schemas.Topic]int, []kafka.Broker, error) {
	transport := l.freshTransport()
	defer transport.CloseIdleConnections()
	client := kafka.Client{Addr: at, Transport: transport}
	var names []string
	for _, t := range topics {
		names = append(names, l.name(t.Topic))
	}
	resp, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: names})
	if err != nil {
		return nil, nil, err
	}
	counts := make(map[schemas.Topic]int)
	for i, t := range topics {
		switch err := resp.Topics[i].Error; {
		case err == nil:
			counts[t.Topic] = len(resp.Topics[i].Partitions)
		case !errors.Is(err, kafka.UnknownTopicOrPartition):
			return nil, nil, fmt.Errorf("topic %s: %w", names[i], err)
		}
	}
	return counts, resp.Brokers, nil
}

func (l *Log) freshTransport() *kafka.Transport {
	t := l.transport
	return &kafka.Transport{
		ClientID: t.ClientID, DialTimeout: t.DialTimeout, MetadataTTL: time.Minute, MetadataTopics: t.MetadataTopics,
		Dial: t.Dial, SASL: t.SASL,
	}
}
