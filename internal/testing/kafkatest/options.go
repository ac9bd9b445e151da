package kafkatest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Options say what kind of cluster to start. The zero value is three brokers, replication 3, min.insync.replicas 2,
// without encryption or authentication.
type Options struct {
	Brokers int // 0: 3. Every broker is also a controller

	TLS        bool // the CLIENT listener speaks TLS, with a certificate for the name localhost only
	ClientAuth bool // with TLS: clients must show a certificate of the cluster's CA

	SASL  []string          // mechanisms of the CLIENT listener: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512
	Users map[string]string // user name to password, for every mechanism

	Settings map[string]string // overrides lines of every server.properties
	HeapMB   int               // 0: 320
}

const (
	plain      = "PLAIN"
	scramStart = "SCRAM-"
)

var mechanisms = []string{plain, "SCRAM-SHA-256", "SCRAM-SHA-512"}

func (o Options) withDefaults() Options {
	if o.Brokers == 0 {
		o.Brokers = 3
	}
	if o.HeapMB == 0 {
		o.HeapMB = 320
	}
	return o
}

func (o Options) validate() error {
	var problems []error
	if o.Brokers < 1 || o.Brokers > 9 {
		problems = append(problems, fmt.Errorf("Brokers is %d, want 1..9", o.Brokers))
	}
	if o.ClientAuth && !o.TLS {
		problems = append(problems, errors.New("ClientAuth has no effect without TLS"))
	}
	if len(o.SASL) > 0 && len(o.Users) == 0 {
		problems = append(problems, errors.New("SASL needs Users"))
	}
	for _, m := range o.SASL {
		if !slices.Contains(mechanisms, m) {
			problems = append(problems, fmt.Errorf("SASL mechanism %q, want one of %s", m, strings.Join(mechanisms, ", ")))
		}
	}
	for user, password := range o.Users {
		if strings.ContainsAny(user+password, "\"\\,;[]=\n") || user == "" || password == "" {
			problems = append(problems, fmt.Errorf("user %q: name or password is empty or holds a character that Kafka's own files cannot", user))
		}
	}
	return errors.Join(problems...)
}

// protocol returns Kafka's name for the security of the CLIENT listener.
func (o Options) protocol() string {
	switch {
	case o.TLS && len(o.SASL) > 0:
		return "SASL_SSL"
	case o.TLS:
		return "SSL"
	case len(o.SASL) > 0:
		return "SASL_PLAINTEXT"
	}
	return "PLAINTEXT"
}

// host returns the name under which clients reach the brokers.
func (o Options) host() string {
	if o.TLS {
		return certificateName
	}
	return loopback
}
