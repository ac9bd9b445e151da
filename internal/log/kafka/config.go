package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/schemas"
)

// Config tells where the brokers are, how to connect to them, and how long they may take. A main parses it from the
// environment (caarlos0/env); tests fill it in.
type Config struct {
	Brokers   []string `env:"KAFKA_BROKERS" desc:"host:port, comma separated; empty: the embedded broker"`
	Namespace string   `env:"NAMESPACE" desc:"prefix of all topics and consumer groups"`
	Lanes     int      `env:"LANES" envDefault:"4" desc:"partitions of every lane topic"`

	TLS           bool   `env:"KAFKA_TLS" envDefault:"false" desc:"encrypt connections to the brokers"`
	TLSCA         string `env:"KAFKA_TLS_CA" desc:"file of PEM certificates that sign the brokers'; empty: the system's"`
	TLSCert       string `env:"KAFKA_TLS_CERT" desc:"file of the client's PEM certificate"`
	TLSKey        string `env:"KAFKA_TLS_KEY" desc:"file of the client's PEM key"`
	TLSServerName string `env:"KAFKA_TLS_SERVER_NAME" desc:"name to expect in the brokers' certificates; empty: the host dialled"`

	SASL         string         `env:"KAFKA_SASL" desc:"PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty: none"`
	SASLUser     string         `env:"KAFKA_SASL_USER" desc:"user name for SASL"`
	SASLPassword display.Secret `env:"KAFKA_SASL_PASSWORD" desc:"password for SASL; never printed"`

	Replication     int `env:"KAFKA_REPLICATION" envDefault:"-1" desc:"replicas of topics that are created; -1: the brokers' default"`
	MinInsync       int `env:"KAFKA_MIN_INSYNC" envDefault:"0" desc:"min.insync.replicas of topics that are created; 0: the brokers' default"`
	MaxMessageBytes int `env:"KAFKA_MAX_MESSAGE_BYTES" envDefault:"23068672" desc:"max.message.bytes of topics that are created"`

	Retention string `env:"KAFKA_RETENTION" envDefault:"0s" desc:"retention.ms of topics that are created, and of single ones, such as 0s,batches=168h,scored=168h; 0s: records are kept for ever"`

	Compression    string        `env:"STREAM_COMPRESSION" envDefault:"none" desc:"none, gzip, snappy, lz4 or zstd"`
	SessionTimeout time.Duration `env:"STREAM_SESSION_TIMEOUT" envDefault:"10s" desc:"silence after which a process loses its lanes; a request to a broker may take as long, and at least 10s, before it is tried again"`

	RequestTimeout time.Duration // after which a request to a broker is given up; 0: derived from SessionTimeout
	DrainTimeout   time.Duration `envDefault:"5s"` // longest time to finish work in hand before a lane is given up
}

// DefaultConfig returns the configuration that an empty environment gives.
func DefaultConfig() Config {
	return Config{
		Lanes: 4, Replication: -1, MaxMessageBytes: 22 << 20, Retention: "0s", Compression: "none",
		SessionTimeout: 10 * time.Second, DrainTimeout: 5 * time.Second,
	}
}

const maxRetention = 100 * 365 * 24 * time.Hour

const maxNamespace = 100 // a Kafka topic name has at most 249 characters

// leastRequestTimeout is the minimum that a broker gets to answer, however short a session is.
const leastRequestTimeout = 10 * time.Second

// PerRequest returns the time after which a request to a broker is given up.
func (c Config) PerRequest() time.Duration {
	return cmp.Or(c.RequestTimeout, max(c.SessionTimeout, leastRequestTimeout))
}

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
	if !IsTopicName(c.Namespace) {
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
	if least, most := time.Second, 30*time.Minute; c.SessionTimeout < least || c.SessionTimeout > most {
		bad("STREAM_SESSION_TIMEOUT", c.SessionTimeout, fmt.Sprintf("%v..%v", least, most))
	}
	if _, _, err := c.retention(); err != nil {
		problems = append(problems, err)
	}
	problems = append(problems, c.validateSecurity()...)
	if _, err := compression(c.Compression); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
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

// IsTopicName reports whether s may be a topic's name, or the beginning of one.
func IsTopicName(s string) bool {
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

// GroupID returns the name of the consumer group that assigns the lanes of a stage.
func (c Config) GroupID(stage string) string {
	return schemas.Topic("pairstream-" + stage).Name(c.Namespace)
}
