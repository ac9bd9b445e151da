package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"

	"github.com/pairstream/pairstream/internal/log/broker"
)

const (
	saslPlain    = "PLAIN"
	saslScram256 = "SCRAM-SHA-256"
	saslScram512 = "SCRAM-SHA-512"
)

const (
	dialTimeout  = 3 * time.Second
	probeTimeout = 3500 * time.Millisecond // leaves time for the second look at a broker that does not answer
)

// aliveTimeout bounds the time of a broker's first answer.
const aliveTimeout = 1500 * time.Millisecond

// aliveFor is the time for which an answer proves that a broker is alive.
const aliveFor = 5 * time.Second

// security makes connections. Every connection goes through dial.
type security struct {
	tls  *tls.Config
	sasl sasl.Mechanism
	many bool // there are several brokers to choose from

	mu    sync.Mutex
	alive map[string]time.Time // the time of each broker's last answer
}

func newSecurity(cfg Config) (*security, error) {
	s := &security{many: len(cfg.Brokers) > 1, alive: make(map[string]time.Time)}
	if cfg.TLS {
		var err error
		if s.tls, err = newTLS(cfg); err != nil {
			return nil, err
		}
	}
	switch cfg.SASL {
	case saslPlain:
		s.sasl = plain.Mechanism{Username: cfg.SASLUser, Password: string(cfg.SASLPassword)}
	case saslScram256, saslScram512:
		var err error
		if s.sasl, err = newScram(cfg.SASL, cfg.SASLUser, cfg.SASLPassword); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func newTLS(cfg Config) (*tls.Config, error) {
	c := &tls.Config{ServerName: cfg.TLSServerName, MinVersion: tls.VersionTLS12}
	if cfg.TLSCA != "" {
		pem, err := os.ReadFile(cfg.TLSCA)
		if err != nil {
			return nil, fmt.Errorf("KAFKA_TLS_CA: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("KAFKA_TLS_CA=%s: holds no PEM certificate", cfg.TLSCA)
		}
	}
	if cfg.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("KAFKA_TLS_CERT=%s, KAFKA_TLS_KEY=%s: %w", cfg.TLSCert, cfg.TLSKey, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// dial connects. It reaches a broker of this process through memory. With TLS it completes the handshake, so that a
// refused certificate is reported as such, not as a broken connection later.
func (s *security) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s.tls == nil {
		if conn, err := broker.DialInProcess(ctx, address); conn != nil || err != nil {
			return conn, err
		}
	}
	d := net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil || s.tls == nil {
		return conn, err
	}
	c := s.tls
	if c.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("splitting broker address %q: %w", address, err), conn.Close())
		}
		c = c.Clone()
		c.ServerName = host
	}
	hctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	tc := tls.Client(conn, c)
	if err := tc.HandshakeContext(hctx); err != nil {
		return nil, errors.Join(&handshakeError{err}, conn.Close())
	}
	return tc, nil
}

// dialAlive dials a broker and checks that it answers. kafka-go takes the first of several brokers that accepts a
// connection. But a hanging broker still accepts some, and would keep a client from finding its leaders or its group.
func (s *security) dialAlive(ctx context.Context, network, address string) (net.Conn, error) {
	if s.many && !s.answered(address) {
		actx, cancel := context.WithTimeout(ctx, aliveTimeout)
		defer cancel()
		if err := probeBroker(actx, address, s); err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.alive[address] = time.Now()
		s.mu.Unlock()
	}
	return s.dial(ctx, network, address)
}

func (s *security) answered(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.alive[address]) < aliveFor
}

type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// probe asks all brokers for the cluster's members, until one answers. With explain, it takes at most five seconds.
func probe(caller context.Context, cfg Config, sec *security) error {
	ctx, cancel := context.WithTimeout(caller, probeTimeout)
	defer cancel() // also ends the requests that are still open
	results := make(chan error, len(cfg.Brokers))
	for _, broker := range cfg.Brokers {
		go func() { results <- probeBroker(ctx, broker, sec) }()
	}
	var first error
	for range cfg.Brokers {
		select {
		case err := <-results:
			if err == nil {
				return nil
			}
			if first == nil {
				first = err
			}
		case <-ctx.Done():
			if caller.Err() != nil {
				return caller.Err()
			}
			if first == nil {
				first = ctx.Err()
			}
			return explain(cfg, first)
		}
	}
	return explain(cfg, first)
}

func probeBroker(ctx context.Context, broker string, sec *security) error {
	d := kafka.Dialer{ClientID: clientID, SASLMechanism: sec.sasl}
	d.DialFunc = func(dctx context.Context, network, address string) (net.Conn, error) {
		conn, err := sec.dial(dctx, network, address)
		if err == nil {
			// kafka-go waits without a limit while it authenticates, and clears deadlines that are set here.
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
	conn, err := d.DialContext(ctx, "tcp", broker)
	if err != nil {
		return &brokerError{broker, err}
	}
	defer func() { _ = conn.Close() }() // nothing was written, so nothing can be lost
	if _, err := conn.Brokers(); err != nil {
		return &brokerError{broker, err}
	}
	return nil
}

type brokerError struct {
	broker string
	err    error
}

func (e *brokerError) Error() string { return e.broker + ": " + e.err.Error() }
func (e *brokerError) Unwrap() error { return e.err }

// explain turns a failed connection into one line that names the setting to check.
func explain(cfg Config, err error) error {
	broker, cause := strings.Join(cfg.Brokers, ","), err
	if be, ok := errors.AsType[*brokerError](err); ok {
		broker, cause = be.broker, be.err
	}
	var (
		ca       x509.UnknownAuthorityError
		host     x509.HostnameError
		invalid  x509.CertificateInvalidError
		greeting *handshakeError
		dns      *net.DNSError
		setting  string
		sentence string
	)
	switch {
	case errors.As(err, &ca):
		setting, sentence = "KAFKA_TLS_CA="+cfg.TLSCA, "the broker's certificate is signed by an authority that is not in it"
	case errors.As(err, &host):
		setting, sentence = "KAFKA_TLS_SERVER_NAME="+cfg.TLSServerName, "the broker's certificate is for another name"
	case errors.As(err, &invalid):
		setting, sentence = "KAFKA_TLS=true", "the broker's certificate is not valid"
	case isAlert(err):
		setting, sentence = "KAFKA_TLS_CERT="+cfg.TLSCert, "the broker refused the TLS connection"
	case errors.As(err, &greeting):
		setting, sentence = "KAFKA_TLS=true", "the broker's port does not speak TLS"
	case errors.Is(err, kafka.SASLAuthenticationFailed):
		setting, sentence = fmt.Sprintf("KAFKA_SASL=%s, KAFKA_SASL_USER=%s, KAFKA_SASL_PASSWORD", cfg.SASL, cfg.SASLUser), "the broker refused them"
	case errors.Is(err, kafka.UnsupportedSASLMechanism):
		setting, sentence = "KAFKA_SASL="+cfg.SASL, "the broker does not offer this mechanism"
	case errors.As(err, &dns):
		setting, sentence = "KAFKA_BROKERS="+broker, "the host is not known"
	case errors.Is(err, syscall.ECONNREFUSED):
		setting, sentence = "KAFKA_BROKERS="+broker, "nothing listens there"
	default:
		setting, sentence = explainSilence(cfg, broker, err)
	}
	if !strings.Contains(setting+cause.Error(), broker) {
		cause = &brokerError{broker, cause}
	}
	return fmt.Errorf("connecting to Kafka: %s: %s (%w)", setting, sentence, oneLine(cause))
}

// explainSilence connects once more to a broker that hung up or did not answer. The cause depends on the protocol that
// the other side expects.
func explainSilence(cfg Config, broker string, err error) (setting, sentence string) {
	switch {
	case !cfg.TLS && speaksTLS(broker):
		return "KAFKA_TLS=false", "the broker's port speaks TLS"
	case cfg.SASL != "" && isHangUp(err):
		return "KAFKA_SASL=" + cfg.SASL, "the broker hung up during authentication"
	case cfg.SASL == "" && isHangUp(err):
		return "KAFKA_SASL", "is empty, and the broker hung up: it may want authentication"
	}
	return "KAFKA_BROKERS=" + broker, "no broker answers"
}

func isHangUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// isAlert reports whether the other side ended a TLS connection with an alert. crypto/tls has no better name for it.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

func speaksTLS(broker string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 800*time.Millisecond)
	defer cancel()
	// The certificate does not matter, only whether there is one. Nothing is sent over the connection.
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := d.DialContext(ctx, "tcp", broker)
	if err != nil {
		return isAlert(err)
	}
	_ = conn.Close() // only opened to see whether it can be
	return true
}

type line struct{ err error }

func (l line) Error() string { return strings.Join(strings.Fields(l.err.Error()), " ") }
func (l line) Unwrap() error { return l.err }

func oneLine(err error) error { return line{err} }
