package stream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/internal/log/kafka"

	"github.com/pairstream/pairstream/internal/log/tracing"
)

// Log gives stages access to the topics of one namespace. It is safe for concurrent use.
type Log struct {
	*kafka.Client
	cfg                                                       Config
	logger                                                    *slog.Logger
	metrics                                                   *metrics
	tracer                                                    *tracing.Tracer // nil: off
	givenUp                                                   sync.Map        // lost records that operators have given up, by lane
	parkedPause, saidAfter, topicsEvery, clockSkew, keepEvery time.Duration
	clock                                                     func() time.Time // time stamp of written records; brokers may replace it by their own time
}

// Options are the facilities that a Log shares with the rest of its process. Nil members are unused.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Patience replaces the minute after which a waiting lane reports, a parked lane is tried again, and a stage checks
	// its topics. Tests shorten it. 0: a minute.
	Patience time.Duration
}

const spansAreLost = "spans of traces are lost: look at OTEL_EXPORTER_OTLP_ENDPOINT"

// Connect checks the configuration, and that it reaches a broker. It gives up within five seconds with one line that
// names the setting to look at.
func Connect(ctx context.Context, cfg Config, opts Options) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(opts.Registerer)
	if err != nil {
		return nil, err
	}
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	client, err := kafka.Connect(ctx, cfg.Config, kafka.Options{Logger: logger, Reconnected: m.reconnects.Inc})
	if err != nil {
		return nil, err
	}
	tracer, err := tracing.New(ctx, tracing.Config{Endpoint: cfg.TraceEndpoint, Ratio: cfg.TraceRatio, Lost: func(spans int, err error) {
		logger.Warn(spansAreLost, keyCount, spans, keyErr, err)
	}})
	if err != nil {
		return nil, err
	}
	l := &Log{Client: client, cfg: cfg, logger: logger, metrics: m, tracer: tracer, parkedPause: parkedPause, saidAfter: saidAfter, topicsEvery: topicsEvery, clockSkew: clockSkew, keepEvery: keepEvery, clock: time.Now}
	if p := opts.Patience; p > 0 {
		l.parkedPause, l.saidAfter, l.topicsEvery, l.keepEvery = p, p, p, p
		l.clockSkew = p / 100 // brokers of one machine have one clock
	}
	return l, nil
}

// Close closes the idle connections, and sends ended spans. Readers and publishers that are still open reconnect.
func (l *Log) Close() {
	l.Client.Close()
	if err := l.tracer.Close(); err != nil {
		l.logger.Warn(spansAreLost, keyErr, err)
	}
}

// Tracer returns the tracer of sampled pairs; nil: tracing is off.
func (l *Log) Tracer() *tracing.Tracer { return l.tracer }

// Config returns the configuration that the log was opened with.
func (l *Log) Config() Config { return l.cfg }
