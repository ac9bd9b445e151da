package stream

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"
)

// Config says where the log is, how to connect to it and how much memory records in flight may take. A main parses it
// from the environment (caarlos0/env); tests fill it in.
type Config struct {
	kafka.Config

	TraceEndpoint string  `env:"OTEL_EXPORTER_OTLP_ENDPOINT" desc:"address of an OpenTelemetry collector to send traces of sampled pairs to by HTTP, such as http://jaeger:4318; empty: no traces. OpenTelemetry's other variables also apply"`
	TraceRatio    float64 `env:"OTEL_TRACES_SAMPLER_ARG" envDefault:"0.001" desc:"OTEL_EXPORTER_OTLP_ENDPOINT: share of the pairs that are sampled, by their ids, so that all stages sample the same"`

	MaxBytesInFlight int64 `env:"STREAM_MAX_BYTES_IN_FLIGHT" envDefault:"67108864" desc:"bytes of records read ahead or waiting for their acks, per stage and process"`

	// No variable sets these; tests do.
	BatchBytes int           `envDefault:"786432"` // of records in one produce request; a larger record goes alone
	Linger     time.Duration `envDefault:"5ms"`    // wait for more records before a produce request; see lingerAfter
	FlushAfter time.Duration `envDefault:"20ms"`   // wait for more input before a stage emits its held records
	StallAfter time.Duration `envDefault:"10m"`    // time without progress, with input at hand, after which a lane is reported as stalled
}

// DefaultConfig returns the configuration that an empty environment gives.
func DefaultConfig() Config {
	return Config{
		Config: kafka.DefaultConfig(), TraceRatio: 0.001, MaxBytesInFlight: 64 << 20, BatchBytes: 768 << 10,
		Linger: 5 * time.Millisecond, FlushAfter: 20 * time.Millisecond, StallAfter: 10 * time.Minute,
	}
}

// Validate reports every setting that is out of bounds, each with its variable, value and bound.
func (c Config) Validate() error {
	problems := []error{c.Config.Validate()}
	bad := func(variable string, value any, want string) {
		problems = append(problems, fmt.Errorf("%s=%v: want %s", variable, value, want))
	}
	if c.MaxBytesInFlight < 1<<20 || c.MaxBytesInFlight > 1<<40 {
		bad("STREAM_MAX_BYTES_IN_FLIGHT", c.MaxBytesInFlight, fmt.Sprintf("%d..%d", 1<<20, 1<<40))
	}
	if to, err := url.Parse(c.TraceEndpoint); c.TraceEndpoint != "" && (err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https") {
		bad("OTEL_EXPORTER_OTLP_ENDPOINT", strconv.Quote(c.TraceEndpoint), "http://host:port or https://host:port")
	}
	if !(c.TraceRatio >= 0 && c.TraceRatio <= 1) {
		bad("OTEL_TRACES_SAMPLER_ARG", c.TraceRatio, "a share from 0 to 1")
	}
	return errors.Join(problems...)
}
