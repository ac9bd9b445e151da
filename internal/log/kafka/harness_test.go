package kafka

import (
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// testConfig returns a configuration that points at a broker.
func testConfig(broker, namespace string, lanes int) Config {
	cfg := DefaultConfig()
	cfg.Brokers, cfg.Namespace, cfg.Lanes, cfg.SessionTimeout = []string{broker}, namespace, lanes, 2*time.Second
	return cfg
}

func startBroker(t *testing.T, o broker.Options) *broker.Broker {
	t.Helper()
	b := must.Get(broker.Start(o))(t)
	t.Cleanup(func() { must.Check(t, b.Close()) })
	return b
}

// connect connects, and makes the topics that are missing.
func connect(t *testing.T, cfg Config) *Client {
	t.Helper()
	c := must.Get(Connect(t.Context(), cfg, Options{}))(t)
	t.Cleanup(c.Close)
	must.Do(t, c.MakeTopics(t.Context(), must.Get(c.MissingTopics(t.Context()))(t)))
	return c
}

// messages is a batch for tests.
type messages []Message

func (b messages) Len() int               { return len(b) }
func (b messages) Message(i int) *Message { return &b[i] }

// write writes values to a lane of pairs, and returns the offset of the first.
func write(t *testing.T, c *Client, lane int, values ...string) int64 {
	t.Helper()
	var batch messages
	for _, v := range values {
		batch = append(batch, Message{Topic: schemas.Pairs, Lane: lane, Value: []byte(v), Headers: []Header{{Key: schemas.HeaderSchema, Value: []byte(schemas.SchemaPair)}}})
	}
	return must.Get(c.Deliver(t.Context(), Delivery{Topic: schemas.Pairs, Lane: lane, Batch: batch, Clock: time.Now}))(t)
}
