package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// Settings of a topic that the promise of package stream depends on.
const (
	configMaxMessage = "max.message.bytes"
	configRetention  = "retention.ms"
	configSize       = "retention.bytes"
	configCleanup    = "cleanup.policy"
	configTimestamp  = "message.timestamp.type"
	configUnclean    = "unclean.leader.election.enable"
	configMinInsync  = "min.insync.replicas"
)

// wanted returns the settings for a new topic.
func (c *Client) wanted(t schemas.Topic) []kafka.ConfigEntry {
	keep, _ := c.cfg.retentionOf(t)
	retention := int64(-1)
	if keep > 0 {
		retention = keep.Milliseconds()
	}
	entries := []kafka.ConfigEntry{
		{ConfigName: configMaxMessage, ConfigValue: strconv.Itoa(c.wantedMaxMessage(t))},
		{ConfigName: configRetention, ConfigValue: strconv.FormatInt(retention, 10)},
		{ConfigName: configSize, ConfigValue: "-1"},
		{ConfigName: configCleanup, ConfigValue: cleanupPolicy(t)},
		// With CreateTime a broker refuses records stamped by a clock that is an hour fast.
		{ConfigName: configTimestamp, ConfigValue: "LogAppendTime"},
		{ConfigName: configUnclean, ConfigValue: "false"},
	}
	if c.cfg.MinInsync > 0 {
		entries = append(entries, kafka.ConfigEntry{ConfigName: configMinInsync, ConfigValue: strconv.Itoa(c.cfg.MinInsync)})
	}
	return entries
}

// retention maps topics to the time for which their records are kept.
func (c Config) retention() (all time.Duration, single map[schemas.Topic]time.Duration, err error) {
	single = make(map[schemas.Topic]time.Duration)
	seenAll := false
	for part := range strings.SplitSeq(c.Retention, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, value, ofOne := strings.Cut(part, "=")
		if !ofOne {
			value = name
		}
		d, err := time.ParseDuration(value)
		known := slices.ContainsFunc(schemas.Catalogue(), func(t schemas.TopicInfo) bool { return string(t.Topic) == name && !t.Topic.Compacted() })
		_, seen := single[schemas.Topic(name)]
		if err != nil || d < 0 || d > maxRetention || ofOne && (!known || seen) || !ofOne && seenAll {
			return 0, nil, fmt.Errorf("KAFKA_RETENTION=%s: %q: want a duration, and TOPIC=DURATION for single topics, such as 0s,batches=168h; "+
				"each once, a topic that is not compacted, up to %v, 0s for ever",
				c.Retention, part, maxRetention)
		}
		if ofOne {
			single[schemas.Topic(name)] = d
		} else {
			all, seenAll = d, true
		}
	}
	return all, single, nil
}

// retentionOf returns how long a topic's records are kept, and the setting that says so. Connect has validated it.
func (c Config) retentionOf(t schemas.Topic) (keep time.Duration, variable string) {
	all, single, _ := c.retention()
	if d, ok := single[t]; ok {
		return d, "KAFKA_RETENTION, " + string(t)
	}
	return all, "KAFKA_RETENTION"
}

// cleanupPolicy is the setting with which a compacted topic keeps the last note of every key for good.
func cleanupPolicy(t schemas.Topic) string {
	if t.Compacted() {
		return "compact"
	}
	return "delete"
}

// TopicProblem is a setting of a topic that differs from the wanted one.
type TopicProblem struct {
	Topic string // its name on the brokers
	Text  string
	// Fatal problems lose or reorder acknowledged records, whatever the stages do. The others are an operator's choice,
	// and are logged.
	Fatal bool
}

func (p TopicProblem) Error() string { return "topic " + p.Topic + ": " + p.Text }

// TopicProblems asks the brokers for the settings of the named topics that exist (without names, of all), and returns
// the problems. It also remembers the topics' max.message.bytes. It returns nothing if the brokers do not tell.
func (c *Client) TopicProblems(ctx context.Context, only ...schemas.Topic) ([]TopicProblem, error) {
	var problems []TopicProblem
	settings, err := c.TopicSettings(ctx, only...)
	if errors.Is(err, kafka.TopicAuthorizationFailed) || errors.Is(err, kafka.ClusterAuthorizationFailed) {
		c.logger.Warn("the settings of topics are not checked: DescribeConfigs is not allowed", keyErr, err)
		return nil, nil
	}
	for _, t := range catalogue(only) {
		have := settings[t.Topic]
		if limit, err := strconv.Atoi(have[configMaxMessage]); err == nil {
			c.limits.Store(t.Topic, limit)
		}
		if have[configTimestamp] == "LogAppendTime" {
			c.stamped.Store(t.Topic, true)
		}
		for _, w := range c.wanted(t.Topic) {
			if value, ok := have[w.ConfigName]; ok && value != w.ConfigValue {
				problems = append(problems, c.judge(t.Topic, w.ConfigName, value, w.ConfigValue)...)
			}
		}
	}
	return problems, err
}

// judge returns the problem of a setting; nil: none.
func (c *Client) judge(t schemas.Topic, setting, have, want string) []TopicProblem {
	p := TopicProblem{Topic: c.Name(t), Text: fmt.Sprintf("%s=%s: ", setting, have)}
	number, _ := strconv.Atoi(have)
	target, _ := strconv.Atoi(want)
	switch setting {
	case configCleanup:
		p.Fatal = strings.Contains(have, "compact") || t.Compacted()
		p.Text += "want " + want + ", with anything else records vanish"
	case configUnclean:
		p.Fatal = true
		p.Text += "want false: a replica that lags would become leader, and acknowledged records would be lost"
	case configMinInsync:
		if number >= target {
			return nil
		}
		p.Fatal = true
		p.Text += fmt.Sprintf("KAFKA_MIN_INSYNC=%s wants %s", want, want)
	case configMaxMessage:
		if number >= target {
			return nil
		}
		p.Text += fmt.Sprintf("KAFKA_MAX_MESSAGE_BYTES wants %s: larger records are refused", want)
	case configRetention, configSize:
		if t.Compacted() || number == -1 {
			return nil // compacted, or kept for longer than wanted
		}
		keep, variable := c.cfg.retentionOf(t)
		p.Text += fmt.Sprintf("%s=%v wants %s: unread records may be deleted (`pairstream status --retention`)", variable, keep, want)
	case configTimestamp:
		p.Text += "want " + want + ": brokers refuse records stamped by a fast clock"
	}
	return []TopicProblem{p}
}

// TopicSettings returns the settings of the named topics that exist; without names, of all.
func (c *Client) TopicSettings(ctx context.Context, only ...schemas.Topic) (map[schemas.Topic]map[string]string, error) {
	req := &kafka.DescribeConfigsRequest{}
	byName := make(map[string]schemas.Topic)
	for _, t := range catalogue(only) {
		byName[c.Name(t.Topic)] = t.Topic
		req.Resources = append(req.Resources, kafka.DescribeConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: c.Name(t.Topic)})
	}
	settings := make(map[schemas.Topic]map[string]string)
	err := c.Retry(ctx, "reading the settings of topics", func(ctx context.Context) error {
		resp, err := c.client.DescribeConfigs(ctx, req)
		if err != nil {
			return err
		}
		for _, r := range resp.Resources {
			if r.Error != nil && !errors.Is(r.Error, kafka.UnknownTopicOrPartition) {
				return fmt.Errorf("topic %s: %w", r.ResourceName, r.Error)
			}
			values := make(map[string]string)
			for _, e := range r.ConfigEntries {
				values[e.ConfigName] = e.ConfigValue
			}
			settings[byName[r.ResourceName]] = values
		}
		return nil
	})
	return settings, err
}

// CheckSettings refuses topics with fatal problems, and logs the other problems.
func (c *Client) CheckSettings(ctx context.Context, only ...schemas.Topic) error {
	problems, err := c.TopicProblems(ctx, only...)
	if err != nil {
		return err
	}
	var fatal []error
	for _, p := range problems {
		if p.Fatal {
			fatal = append(fatal, p)
			continue
		}
		c.logger.Warn("a topic differs from the settings", keyTopic, p.Topic, keyReason, p.Text)
	}
	return errors.Join(fatal...)
}

// Stamps reports whether the brokers put their own time on the records of a topic.
func (c *Client) Stamps(t schemas.Topic) bool {
	_, ok := c.stamped.Load(t)
	return ok
}
