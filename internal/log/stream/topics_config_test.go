package stream

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// logBuffer is a log that several goroutines write.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func openLogged(t *testing.T, cfg Config) (*Log, *logBuffer) {
	t.Helper()
	out := new(logBuffer)
	l := must.Get(Connect(t.Context(), cfg, Options{Logger: slog.New(slog.NewTextHandler(out, nil))}))(t)
	t.Cleanup(l.Close)
	return l, out
}

// TestTopicSettings changes one setting of topics that exist. The stage refuses what would lose records, and logs the
// rest.
func TestTopicSettings(t *testing.T) {
	b := startBroker(t, broker.Options{})
	for name, c := range map[string]struct {
		topic          schemas.Topic
		setting, value string
		change         func(*Config)
		fatal          bool
		want           string
	}{
		"as created":                 {want: ""},
		"compaction":                 {topic: schemas.Groups, setting: "cleanup.policy", value: "compact", fatal: true, want: "groups: cleanup.policy=compact: want delete"},
		"compaction and deletion":    {topic: schemas.Groups, setting: "cleanup.policy", value: "compact,delete", fatal: true, want: "groups: cleanup.policy=compact,delete"},
		"deletion of notes":          {topic: schemas.Control, setting: "cleanup.policy", value: "delete", fatal: true, want: "control: cleanup.policy=delete: want compact"},
		"too few replicas in sync":   {topic: schemas.Pairs, change: func(c *Config) { c.MinInsync = 2 }, fatal: true, want: "pairs: min.insync.replicas=1: KAFKA_MIN_INSYNC=2"},
		"retention by time":          {topic: schemas.Pairs, setting: "retention.ms", value: "60000", want: "retention.ms=60000: KAFKA_RETENTION=0s wants -1"},
		"retention by size":          {topic: schemas.Pairs, setting: "retention.bytes", value: "1000", want: "retention.bytes=1000: KAFKA_RETENTION=0s wants -1"},
		"of one topic":               {topic: schemas.Batches, setting: "retention.ms", value: "60000", change: func(c *Config) { c.Retention = "0s,batches=2m,scored=0s" }, want: "retention.ms=60000: KAFKA_RETENTION, batches=2m0s wants 120000"},
		"as wanted of one topic":     {topic: schemas.Batches, setting: "retention.ms", value: "60000", change: func(c *Config) { c.Retention = "batches=1m" }, want: ""},
		"a shorter retention wanted": {change: func(c *Config) { c.Retention = "1h" }, want: ""},
		"stamps of producers":        {topic: schemas.Pairs, setting: "message.timestamp.type", value: "CreateTime", want: "message.timestamp.type=CreateTime: want LogAppendTime"},
		"small records":              {topic: schemas.Pairs, setting: "max.message.bytes", value: "5000000", want: "max.message.bytes=5000000: KAFKA_MAX_MESSAGE_BYTES wants 23068672"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(b.Addr(), strings.ReplaceAll(name, " ", "-"), 1)
			l := openLog(t, cfg)
			if c.setting != "" {
				alterTopic(t, l, c.topic, c.setting, c.value)
			}
			if c.change != nil {
				c.change(&cfg)
			}
			for what, check := range map[string]func(*Log) error{
				"ensure": func(l *Log) error { return l.EnsureTopics(t.Context()) },
				"check":  func(l *Log) error { return l.CheckTopics(t.Context()) },
			} {
				l, out := openLogged(t, cfg)
				err := check(l)
				got := out.String()
				if c.fatal {
					got = fmt.Sprint(err)
				}
				if (err != nil) != c.fatal || !strings.Contains(got, c.want) || c.want == "" && got != "" {
					t.Errorf("%s: error %v, logged %q, want %q", what, err, out.String(), c.want)
				}
			}
			if c.setting == "max.message.bytes" {
				l, _ := openLogged(t, cfg)
				if err := l.CheckTopics(t.Context()); err != nil || l.MaxMessage(c.topic) != 5_000_000 {
					t.Errorf("records may have %d bytes, error %v", l.MaxMessage(c.topic), err)
				}
			}
		})
	}
}

// TestNamedTopicsAlone makes and checks the topics that a producer may see, whatever the others are like.
func TestNamedTopicsAlone(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l, _ := openLogged(t, testConfig(b.Addr(), "", 1))
	mine := []schemas.Topic{schemas.Pairs, schemas.Sources}
	must.Do(t, l.ensureTopics(t.Context(), mine...))
	missing := must.Get(l.MissingTopics(t.Context()))(t)
	if want := len(schemas.Catalogue()) - len(mine); len(missing) != want {
		t.Errorf("%d topics are missing, want %d", len(missing), want)
	}
	for _, topic := range missing {
		if slices.Contains(mine, topic.Topic) {
			t.Errorf("topic %s is missing", topic.Topic)
		}
	}
	if err := l.CheckTopics(t.Context(), mine...); err != nil {
		t.Errorf("checking them alone: %v", err)
	}
	if err := l.CheckTopics(t.Context()); err == nil {
		t.Error("checking all topics: no error, want the missing ones")
	}
}

// TestTopicDeletedAtRunTime deletes a topic beside a stage that waits for more of it. The stage says what is missing.
func TestTopicDeletedAtRunTime(t *testing.T) {
	l := openLog(t, testConfig(startBroker(t, broker.Options{}).Addr(), "", 1))
	l.topicsEvery = 10 * time.Millisecond
	spec := batcherSpec()
	spec.Counters = new(Counters)
	r := start(l, spec)
	put(t, l, pair(0, "one"))
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 0}, 0)
	deleteTopic(t, l, schemas.Pairs)
	await(t, "the stage says that a topic is missing", func() bool {
		return slices.Contains(spec.Counters.States(), "topic pairs does not exist (NAMESPACE=)")
	})
	r.stop(t)
}

// TestPartitionsAddedAtRunTime adds partitions while a stage runs. It says so, and goes on with its lanes.
func TestPartitionsAddedAtRunTime(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l, out := openLogged(t, testConfig(b.Addr(), "", 1))
	must.Do(t, l.EnsureTopics(t.Context()))
	l.topicsEvery = 10 * time.Millisecond
	spec := batcherSpec()
	spec.Counters = new(Counters)
	r := start(l, spec)
	put(t, l, pair(0, "one"))
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 0}, 0)
	topic := kmsg.NewCreatePartitionsRequestTopic()
	topic.Topic, topic.Count = l.Name(schemas.Pairs), 3
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Topics = append(req.Topics, topic)
	must.Get(req.RequestWith(t.Context(), kgoClient(t, l)))(t)
	const want = "topic pairs has 3 partitions: LANES=1 wants 1"
	await(t, "the stage says that there are more partitions", func() bool {
		return strings.Contains(out.String(), want) && strings.Join(spec.Counters.States(), "") == want
	})
	put(t, l, pair(0, "two"))
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 1}, 0)
	r.stop(t)
}
