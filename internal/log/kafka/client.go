package kafka

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// Client talks to the brokers about the topics of one namespace. It is safe for concurrent use.
type Client struct {
	cfg         Config
	logger      *slog.Logger
	reconnected func()
	compression kafka.Compression
	addr        net.Addr
	transport   *kafka.Transport
	client      *kafka.Client
	security    *security
	limits      sync.Map // max.message.bytes by topic, as reported by the brokers
	stamped     sync.Map // topics whose records have the brokers' time
}

// Options are the facilities that a Client shares with the rest of its process. Nil members are unused.
type Options struct {
	Logger *slog.Logger
	// Reconnected is called after all connections were dropped to end a stall.
	Reconnected func()
}

// clientID is the name of this program for the brokers.
const clientID = "pairstream"

// Connect checks the configuration, and that it reaches a broker. It gives up within five seconds with one line that
// names the setting to look at.
func Connect(ctx context.Context, cfg Config, opts Options) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if len(cfg.Brokers) == 0 {
		return nil, errors.New("KAFKA_BROKERS is empty: no broker to connect to")
	}
	sec, err := newSecurity(cfg)
	if err != nil {
		return nil, err
	}
	if err := probe(ctx, cfg, sec); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, logger: opts.Logger, reconnected: opts.Reconnected, addr: kafka.TCP(cfg.Brokers...), security: sec}
	if c.compression, err = compression(cfg.Compression); err != nil {
		return nil, err
	}
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
	if c.reconnected == nil {
		c.reconnected = func() {}
	}
	if cfg.SASL == saslPlain && !cfg.TLS {
		c.logger.Warn("KAFKA_SASL=PLAIN without KAFKA_TLS=true: the password goes over the network in clear text")
	}
	c.transport = newTransport(cfg, sec)
	c.client = &kafka.Client{Addr: c.addr, Transport: c.transport}
	return c, nil
}

func newTransport(cfg Config, sec *security) *kafka.Transport {
	var names []string
	for _, t := range schemas.Catalogue() {
		names = append(names, t.Topic.Name(cfg.Namespace))
	}
	return &kafka.Transport{
		ClientID: clientID, DialTimeout: dialTimeout + 2*aliveTimeout, IdleTimeout: time.Minute,
		// Until the cached metadata is refreshed, requests may go to a leader that is gone.
		MetadataTTL: 2 * time.Second, MetadataTopics: names,
		Dial: sec.dialAlive, SASL: sec.sasl,
	}
}

// Close frees the idle connections. A client that is used afterwards connects again.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Name returns the topic's name on the brokers.
func (c *Client) Name(t schemas.Topic) string { return t.Name(c.cfg.Namespace) }

// Compresses reports whether batches are compressed. The size of a batch is then known only after compression.
func (c *Client) Compresses() bool { return c.compression != 0 }

// reconnect drops every connection and all cached metadata, because a client may hang on to a broker that is gone
// (kafka-go #387, #955).
func (c *Client) reconnect(why string) {
	c.logger.Warn("reconnecting to the brokers", keyReason, why)
	c.reconnected()
	c.transport.CloseIdleConnections()
}

// request returns a context that ends after [Config.PerRequest]. The deadline is also set on the socket, so that no read
// hangs.
func (c *Client) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.cfg.PerRequest())
}
