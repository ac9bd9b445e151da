package kafkatest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
)

const loopback = "127.0.0.1"

// properties returns the lines of one broker's server.properties.
func (c *Cluster) properties(b *broker) map[string]string {
	o := c.opts
	replicas := strconv.Itoa(min(3, o.Brokers))
	insync := strconv.Itoa(min(2, o.Brokers))
	var voters []string
	for _, v := range c.brokers {
		voters = append(voters, fmt.Sprintf("%d@%s:%d", v.id, loopback, v.ports.controller))
	}
	p := map[string]string{
		"process.roles":            "broker,controller",
		"node.id":                  strconv.Itoa(b.id),
		"controller.quorum.voters": strings.Join(voters, ","),
		"log.dirs":                 b.path("data"),

		"listeners": fmt.Sprintf("CLIENT://%[1]s:%[2]d,INTERNAL://%[1]s:%[3]d,CONTROLLER://%[1]s:%[4]d",
			loopback, b.ports.client, b.ports.internal, b.ports.controller),
		"advertised.listeners": fmt.Sprintf("CLIENT://%s:%d,INTERNAL://%s:%d",
			o.host(), b.ports.client, loopback, b.ports.internal),
		"listener.security.protocol.map": "CLIENT:" + o.protocol() + ",INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name":     "INTERNAL",
		"controller.listener.names":      "CONTROLLER",

		"default.replication.factor":               replicas,
		"min.insync.replicas":                      insync,
		"offsets.topic.replication.factor":         replicas,
		"offsets.topic.num.partitions":             "3",
		"transaction.state.log.replication.factor": replicas,
		"transaction.state.log.min.isr":            insync,
		"unclean.leader.election.enable":           "false",
		"auto.create.topics.enable":                "false",
		"message.max.bytes":                        "23068672",
		"group.initial.rebalance.delay.ms":         "0",

		// The cluster notices a lost broker after 5 s instead of 9 s: a suite takes down dozens.
		"broker.session.timeout.ms":    "5000",
		"broker.heartbeat.interval.ms": "1000",

		// Small machines need few threads, and 4 MiB instead of 128 MiB for the log cleaner, which comes out of the heap.
		"num.network.threads":             "2",
		"num.io.threads":                  "4",
		"background.threads":              "2",
		"log.cleaner.dedupe.buffer.size":  "4194304",
		"socket.listen.backlog.size":      "200",
		"controlled.shutdown.max.retries": "3",
	}
	c.addTLS(p)
	c.addSASL(p)
	maps.Copy(p, o.Settings)
	return p
}

func (c *Cluster) addTLS(p map[string]string) {
	if !c.opts.TLS {
		return
	}
	const listener = "listener.name.client."
	p[listener+"ssl.keystore.type"] = "PEM"
	p[listener+"ssl.keystore.location"] = c.certificates.brokerStore
	p[listener+"ssl.truststore.type"] = "PEM"
	p[listener+"ssl.truststore.location"] = c.certificates.ca
	p[listener+"ssl.client.auth"] = "none"
	if c.opts.ClientAuth {
		p[listener+"ssl.client.auth"] = "required"
	}
}

func (c *Cluster) addSASL(p map[string]string) {
	if len(c.opts.SASL) == 0 {
		return
	}
	const listener = "listener.name.client."
	p[listener+"sasl.enabled.mechanisms"] = strings.Join(c.opts.SASL, ",")
	for _, m := range c.opts.SASL {
		jaas := "org.apache.kafka.common.security.scram.ScramLoginModule required"
		if m == plain {
			jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required"
			for _, user := range slices.Sorted(maps.Keys(c.opts.Users)) {
				jaas += fmt.Sprintf(` user_%s="%s"`, user, c.opts.Users[user])
			}
		}
		p[listener+strings.ToLower(m)+".sasl.jaas.config"] = jaas + ";"
	}
}

// scramArguments returns arguments by which StorageTool writes the credentials for SCRAM into the metadata log.
func (o Options) scramArguments() []string {
	var args []string
	for _, m := range o.SASL {
		if !strings.HasPrefix(m, scramStart) {
			continue
		}
		for _, user := range slices.Sorted(maps.Keys(o.Users)) {
			args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", m, user, o.Users[user]))
		}
	}
	return args
}

func render(p map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", key, p[key])
	}
	return b.String()
}

// Ports are taken below the ranges for outgoing connections, which begin at 32768 on Linux and at 49152 elsewhere.
const (
	lowestPort  = 15_000
	highestPort = 32_000
)

type ports struct{ client, internal, controller int }

// freePorts finds the ports for n brokers. It holds them all open until it has found the last, so that it finds none
// twice. Another process might take one before the broker starts. Start then fails and says so.
func freePorts(n int) (found []ports, err error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			err = errors.Join(err, l.Close())
		}
	}()
	next := func() int {
		for range 1000 {
			port := lowestPort + rand.IntN(highestPort-lowestPort)
			l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
			if err == nil {
				held = append(held, l)
				return port
			}
		}
		return 0
	}
	for range n {
		p := ports{next(), next(), next()}
		if p.client == 0 || p.internal == 0 || p.controller == 0 {
			return nil, fmt.Errorf("no free port between %d and %d on %s", lowestPort, highestPort, loopback)
		}
		found = append(found, p)
	}
	return found, nil
}

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
