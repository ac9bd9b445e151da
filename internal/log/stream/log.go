package stream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/pairstream/pairstream/internal/log/tracing"
	"github.com/pairstream/pairstream/schemas"
)

// header is one message header.
type header = protocol.Header

// Log is a connection to the topics of one namespace. It is safe for concurrent use.
type Log struct {
	cfg                                                       Config
	logger                                                    *slog.Logger
	metrics                                                   *metrics
	tracer                                                    *tracing.Tracer // nil: off
	addr                                                      net.Addr
	transport                                                 *kafka.Transport
	client                                                    *kafka.Client
	security                                                  *security
	limits                                                    sync.Map // max.message.bytes by topic, as the brokers say
	stamped                                                   sync.Map // topics whose records have the brokers\' time
	givenUp                                                   sync.Map // lost records that operators have given up, by lane
	parkedPause, saidAfter, topicsEvery, clockSkew, keepEvery time.Duration
	clock                                                     func() time.Time // stamps what is written; brokers replace it by their own time
}

// Options are what a Log shares with the rest of its process. Members that are nil are left out.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Patience replaces the minute after which a lane says what it waits for, a parked lane is tried again, and a stage
	// looks at its topics. Tests shorten it. 0: a minute.
	Patience time.Duration
}

// clientID is the name of this program for the brokers.
const clientID = "pairstream"

const spansAreLost = "spans of traces are lost: look at OTEL_EXPORTER_OTLP_ENDPOINT"

// Connect checks the configuration, and that it reaches a broker. It gives up within five seconds with one line that
// names the setting to look at.
func Connect(ctx context.Context, cfg Config, opts Options) (*Log, error) {
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
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	tracer, err := tracing.New(ctx, tracing.Config{Endpoint: cfg.TraceEndpoint, Ratio: cfg.TraceRatio, Lost: func(spans int, err error) {
		logger.Warn(spansAreLost, keyCount, spans, keyErr, err)
	}})
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(opts.Registerer)
	if err != nil {
		return nil, err
	}
	if cfg.SASL == saslPlain && !cfg.TLS {
		logger.Warn("KAFKA_SASL=PLAIN without KAFKA_TLS=true: the password goes over the network in clear text")
	}
	l := &Log{cfg: cfg, logger: logger, metrics: m, tracer: tracer, addr: kafka.TCP(cfg.Brokers...), security: sec, parkedPause: parkedPause, saidAfter: saidAfter, topicsEvery: topicsEvery, clockSkew: clockSkew, keepEvery: keepEvery, clock: time.Now}
	if p := opts.Patience; p > 0 {
		l.parkedPause, l.saidAfter, l.topicsEvery, l.keepEvery = p, p, p, p
		l.clockSkew = p / 100 // brokers of one machine have one clock
	}
	l.transport = newTransport(cfg, sec)
	l.client = &kafka.Client{Addr: l.addr, Transport: l.transport}
	return l, nil
}

func newTransport(cfg Config, sec *security) *kafka.Transport {
	var names []string
	for _, t := range schemas.Catalogue() {
		names = append(names, t.Topic.Name(cfg.Namespace))
	}
	return &kafka.Transport{
		ClientID: clientID, DialTimeout: dialTimeout + 2*aliveTimeout, IdleTimeout: time.Minute,
		// Until the cached metadata is refreshed, requests go to a leader that may be gone.
		MetadataTTL: 2 * time.Second, MetadataTopics: names,
		Dial: sec.dialAlive, SASL: sec.sasl,
	}
}

// Close frees the idle connections, and sends spans that have ended. Readers and publishers that are still open connect again.
func (l *Log) Close() {
	l.transport.CloseIdleConnections()
	if err := l.tracer.Close(); err != nil {
		l.logger.Warn(spansAreLost, keyErr, err)
	}
}

// Tracer returns what follows sampled pairs; nil: nobody does.
func (l *Log) Tracer() *tracing.Tracer { return l.tracer }

// Config returns the configuration that the log was opened with.
func (l *Log) Config() Config { return l.cfg }

// name returns the topic's name on the broker.
func (l *Log) name(t schemas.Topic) string { return t.Name(l.cfg.Namespace) }

// reconnect drops every connection and all cached metadata. This cures a client that hangs on to a broker which is
// gone (kafka-go #387, #955).
func (l *Log) reconnect(why string) {
	l.logger.Warn("reconnecting to the brokers", keyReason, why)
	l.metrics.reconnects.Inc()
	l.transport.CloseIdleConnections()
}

// request returns a context that ends after RequestTimeout. The deadline is also set on the socket, so that no read
// hangs.
func (l *Log) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.cfg.RequestTimeout)
}
