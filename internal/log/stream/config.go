package stream

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/schemas"
)

// Secret is a setting that is never printed: every way of formatting it shows asterisks.
type Secret string

const redacted = "***"

// String hides the secret.
func (Secret) String() string { return redacted }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return redacted }

// MarshalText hides the secret from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue hides the secret from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// Config says where the log is, how to connect to it and how much memory records in flight may take. A main parses it
// from the environment (caarlos0/env); tests fill it in.
type Config struct {
	Brokers   []string `env:"KAFKA_BROKERS" desc:"host:port, comma separated; empty: the embedded broker"`
	Namespace string   `env:"NAMESPACE" desc:"prefix of all topics and consumer groups"`
	Lanes     int      `env:"LANES" envDefault:"4" desc:"partitions of every lane topic"`

	TraceEndpoint string  `env:"OTEL_EXPORTER_OTLP_ENDPOINT" desc:"address of an OpenTelemetry collector to send traces of sampled pairs to by HTTP, such as http://jaeger:4318; empty: no traces. OpenTelemetry's other variables hold as well"`
	TraceRatio    float64 `env:"OTEL_TRACES_SAMPLER_ARG" envDefault:"0.001" desc:"OTEL_EXPORTER_OTLP_ENDPOINT: share of the pairs that are sampled, by their ids, so that all stages sample the same"`

	TLS           bool   `env:"KAFKA_TLS" envDefault:"false" desc:"encrypt connections to the brokers"`
	TLSCA         string `env:"KAFKA_TLS_CA" desc:"file of PEM certificates that sign the brokers'; empty: the system's"`
	TLSCert       string `env:"KAFKA_TLS_CERT" desc:"file of the client's PEM certificate"`
	TLSKey        string `env:"KAFKA_TLS_KEY" desc:"file of the client's PEM key"`
	TLSServerName string `env:"KAFKA_TLS_SERVER_NAME" desc:"name to expect in the brokers' certificates; empty: the host dialled"`

	SASL         string `env:"KAFKA_SASL" desc:"PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty: none"`
	SASLUser     string `env:"KAFKA_SASL_USER" desc:"user name for SASL"`
	SASLPassword Secret `env:"KAFKA_SASL_PASSWORD" desc:"password for SASL; never printed"`

	Replication     int `env:"KAFKA_REPLICATION" envDefault:"-1" desc:"replicas of topics that are created; -1: the brokers' default"`
	MinInsync       int `env:"KAFKA_MIN_INSYNC" envDefault:"0" desc:"min.insync.replicas of topics that are created; 0: the brokers' default"`
	MaxMessageBytes int `env:"KAFKA_MAX_MESSAGE_BYTES" envDefault:"23068672" desc:"max.message.bytes of topics that are created"`

	Retention      time.Duration `env:"KAFKA_RETENTION" envDefault:"0s" desc:"retention.ms of topics that are created; 0: records are kept for ever"`
	TopicRetention string        `env:"KAFKA_RETENTION_TOPICS" desc:"the same of single topics, such as batches=168h,scored=168h; topics that are not named have KAFKA_RETENTION"`

	MaxBytesInFlight int64         `env:"STREAM_MAX_BYTES_IN_FLIGHT" envDefault:"67108864" desc:"bytes of records read ahead or waiting for their acks, per stage and process"`
	BatchBytes       int           `env:"STREAM_BATCH_BYTES" envDefault:"786432" desc:"most bytes of records in one produce request (a larger record goes alone)"`
	Linger           time.Duration `env:"STREAM_LINGER" envDefault:"5ms" desc:"wait for more records before a produce request; as long as the last one took, up to 50ms, when that is longer"`
	FlushAfter       time.Duration `env:"STREAM_FLUSH_AFTER" envDefault:"20ms" desc:"wait for more input before a stage emits what it holds back for batching"`
	Compression      string        `env:"STREAM_COMPRESSION" envDefault:"none" desc:"none, gzip, snappy, lz4 or zstd"`
	RequestTimeout   time.Duration `env:"STREAM_REQUEST_TIMEOUT" envDefault:"10s" desc:"time after which a request to a broker is given up and tried again"`
	SessionTimeout   time.Duration `env:"STREAM_SESSION_TIMEOUT" envDefault:"10s" desc:"silence after which a process loses its lanes"`
	DrainTimeout     time.Duration `env:"STREAM_DRAIN_TIMEOUT" envDefault:"5s" desc:"longest time to finish work in hand before a lane is given up"`
	StallAfter       time.Duration `env:"STREAM_STALL_AFTER" envDefault:"10m" desc:"time without progress, with input at hand, after which a lane is reported as stalled"`
}

// DefaultConfig returns the configuration that an empty environment gives.
func DefaultConfig() Config {
	return Config{
		Lanes: 4, Replication: -1, MaxMessageBytes: 22 << 20,
		MaxBytesInFlight: 64 << 20, BatchBytes: 768 << 10, Linger: 5 * time.Millisecond,
		FlushAfter: 20 * time.Millisecond, Compression: "none", RequestTimeout: 10 * time.Second,
		SessionTimeout: 10 * time.Second, DrainTimeout: 5 * time.Second, StallAfter: 10 * time.Minute, TraceRatio: 0.001,
	}
}

const maxRetention = 100 * 365 * 24 * time.Hour

const maxNamespace = 100 // a Kafka topic name has at most 249 characters

// Validate reports every setting that is out of bounds, each with its variable, value and bound.
func (c Config) Validate() error {
	var problems []error
	bad := func(variable string, value any, want string) {
		problems = append(problems, fmt.Errorf("%s=%v: want %s", variable, value, want))
	}
	for _, b := range c.Brokers {
		if host, port, err := net.SplitHostPort(b); err != nil || host == "" || !isPort(port) {
			bad("KAFKA_BROKERS", display.Printable(b), "host:port")
		}
	}
	if !isTopicName(c.Namespace) {
		bad("NAMESPACE", strconv.Quote(c.Namespace), fmt.Sprintf("at most %d of a-z A-Z 0-9 . _ -", maxNamespace))
	}
	between := func(variable string, value, low, high int64) {
		if value < low || value > high {
			bad(variable, value, fmt.Sprintf("%d..%d", low, high))
		}
	}
	between("LANES", int64(c.Lanes), 1, 10_000)
	if c.Replication != -1 {
		between("KAFKA_REPLICATION", int64(c.Replication), 1, 100)
	}
	between("KAFKA_MIN_INSYNC", int64(c.MinInsync), 0, 100)
	if c.Replication > 0 && c.MinInsync > c.Replication {
		bad("KAFKA_MIN_INSYNC", c.MinInsync, fmt.Sprintf("at most KAFKA_REPLICATION=%d", c.Replication))
	}
	between("KAFKA_MAX_MESSAGE_BYTES", int64(c.MaxMessageBytes), 1<<20, 100<<20)
	between("STREAM_MAX_BYTES_IN_FLIGHT", c.MaxBytesInFlight, 1<<20, 1<<40)
	between("STREAM_BATCH_BYTES", int64(c.BatchBytes), 1, int64(c.MaxMessageBytes))
	if to, err := url.Parse(c.TraceEndpoint); c.TraceEndpoint != "" && (err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https") {
		bad("OTEL_EXPORTER_OTLP_ENDPOINT", strconv.Quote(c.TraceEndpoint), "http://host:port or https://host:port")
	}
	if !(c.TraceRatio >= 0 && c.TraceRatio <= 1) {
		bad("OTEL_TRACES_SAMPLER_ARG", c.TraceRatio, "a share from 0 to 1")
	}
	problems = append(problems, c.validateTimes()...)
	if _, err := c.topicRetention(); err != nil {
		problems = append(problems, err)
	}
	problems = append(problems, c.validateSecurity()...)
	if _, err := compression(c.Compression); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func (c Config) validateTimes() []error {
	var problems []error
	for _, t := range []struct {
		variable  string
		value     time.Duration
		low, high time.Duration
	}{
		{"KAFKA_RETENTION", c.Retention, 0, maxRetention},
		{"STREAM_LINGER", c.Linger, 0, time.Second},
		{"STREAM_FLUSH_AFTER", c.FlushAfter, 0, time.Minute},
		{"STREAM_REQUEST_TIMEOUT", c.RequestTimeout, 100 * time.Millisecond, 5 * time.Minute},
		{"STREAM_SESSION_TIMEOUT", c.SessionTimeout, time.Second, 30 * time.Minute},
		{"STREAM_DRAIN_TIMEOUT", c.DrainTimeout, 0, 10 * time.Minute},
		{"STREAM_STALL_AFTER", c.StallAfter, time.Millisecond, 24 * time.Hour},
	} {
		if t.value < t.low || t.value > t.high {
			problems = append(problems, fmt.Errorf("%s=%v: want %v..%v", t.variable, t.value, t.low, t.high))
		}
	}
	return problems
}

func (c Config) validateSecurity() []error {
	var problems []error
	need := func(ok bool, variable, why string) {
		if !ok {
			problems = append(problems, fmt.Errorf("%s: %s", variable, why))
		}
	}
	if !c.TLS {
		for variable, value := range map[string]string{
			"KAFKA_TLS_CA": c.TLSCA, "KAFKA_TLS_CERT": c.TLSCert, "KAFKA_TLS_KEY": c.TLSKey, "KAFKA_TLS_SERVER_NAME": c.TLSServerName,
		} {
			need(value == "", variable+"="+value, "has no effect without KAFKA_TLS=true")
		}
		slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	}
	need((c.TLSCert == "") == (c.TLSKey == ""), "KAFKA_TLS_CERT and KAFKA_TLS_KEY", "set both or none")
	switch c.SASL {
	case "":
		need(c.SASLUser == "" && c.SASLPassword == "", "KAFKA_SASL_USER, KAFKA_SASL_PASSWORD", "have no effect without KAFKA_SASL")
	case saslPlain, saslScram256, saslScram512:
		need(c.SASLUser != "", "KAFKA_SASL_USER", "is empty; KAFKA_SASL="+c.SASL+" needs it")
		need(c.SASLPassword != "", "KAFKA_SASL_PASSWORD", "is empty; KAFKA_SASL="+c.SASL+" needs it")
	default:
		need(false, "KAFKA_SASL="+c.SASL, "want PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or nothing")
	}
	return problems
}

func isPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 0 && n < 1<<16
}

func isTopicName(s string) bool {
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-') {
			return false
		}
	}
	return len(s) <= maxNamespace
}

func compression(name string) (kafka.Compression, error) {
	switch name {
	case "none", "":
		return 0, nil
	case "gzip":
		return kafka.Gzip, nil
	case "snappy":
		return kafka.Snappy, nil
	case "lz4":
		return kafka.Lz4, nil
	case "zstd":
		return kafka.Zstd, nil
	}
	return 0, fmt.Errorf("STREAM_COMPRESSION=%s: want none, gzip, snappy, lz4 or zstd", name)
}

// GroupID returns the name of the consumer group that shares out the lanes of a stage.
func (c Config) GroupID(stage string) string {
	return schemas.Topic("pairstream-" + stage).Name(c.Namespace)
}
