package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Options tune the embedded broker.
type Options struct {
	Addr    string // host:port on loopback to listen on; port 0, or empty: any free port
	DataDir string // where the log is kept; empty: in memory only

	TLS  *tls.Config // serve TLS when set
	SASL string      // demand this mechanism when set
	User string
	Pass string

	sync func(*os.File) error // nil: that of the file; tests hold it up
}

// Broker is a Kafka-protocol broker in this process, for one machine. With a data directory, what it has acknowledged
// is on disk and survives a kill and a loss of power. When it starts, it reads all of its log, 1 GB in 2 s. Meanwhile it takes about as
// much memory as the log is large.
type Broker struct {
	cluster *kfake.Cluster
	addr    string
	lock    *os.File
	durable *durable // nil: in memory only
}

// maxRequestBytes bounds the length that one request may claim.
const maxRequestBytes = 128 << 20

// Start starts the embedded broker.
func Start(o Options) (*Broker, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	host, portText, err := net.SplitHostPort(o.Addr)
	port, perr := strconv.Atoi(portText)
	if err != nil || perr != nil || port < 0 || port >= 1<<16 {
		return nil, fmt.Errorf("broker address %q: want host:port", o.Addr)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("broker address %q: the embedded broker serves one machine, want a loopback address", o.Addr)
	}
	b := &Broker{}
	if o.DataDir != "" {
		if b.lock, err = lockDir(o.DataDir); err != nil {
			return nil, err
		}
		b.durable = newDurable(filepath.Join(o.DataDir, "log"), o.sync)
	}
	opts := []kfake.Opt{
		kfake.NumBrokers(1), kfake.Ports(port), kfake.ClusterID("pairstream"),
		kfake.GroupMinSessionTimeout(time.Second),
		kfake.BrokerConfigs(map[string]string{
			"message.max.bytes": strconv.Itoa(maxRequestBytes), "log.retention.ms": "-1", "log.retention.bytes": "-1",
		}),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) {
			ln, err := net.Listen(network, o.Addr)
			if err != nil {
				return nil, err
			}
			if o.TLS != nil {
				ln = tls.NewListener(ln, o.TLS)
			} else {
				ln = newPipeListener(ln)
			}
			return &guardedListener{ln, b.durable}, nil
		}),
	}
	if o.DataDir != "" {
		opts = append(opts, kfake.DataDir(b.durable.dir))
	}
	if o.SASL != "" {
		opts = append(opts, kfake.EnableSASL(), kfake.Superuser(o.SASL, o.User, o.Pass))
	}
	if b.cluster, err = kfake.NewCluster(opts...); err != nil {
		return nil, errors.Join(explainStart(o, err), b.unlock())
	}
	guardBatches(b.cluster)
	b.addr = b.cluster.ListenAddrs()[0]
	return b, nil
}

func explainStart(o Options, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("starting the embedded broker: %s is in use by another process: %w", o.Addr, err)
	case o.DataDir != "":
		return fmt.Errorf("starting the embedded broker on %s with data directory %s: %w", o.Addr, o.DataDir, err)
	}
	return fmt.Errorf("starting the embedded broker on %s: %w", o.Addr, err)
}

// Addr returns the host:port that clients connect to.
func (b *Broker) Addr() string { return b.addr }

// Cluster returns the broker that is behind the guards, for tests that inject faults.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// Close stops the broker. Its data directory can be opened again afterwards.
func (b *Broker) Close() error {
	b.cluster.Close()
	var err error
	if b.durable != nil {
		err = b.durable.settleAll()
	}
	return errors.Join(err, b.unlock())
}

func (b *Broker) unlock() error {
	if b.lock == nil {
		return nil
	}
	return b.lock.Close() // which also gives up the lock
}

// lockDir keeps a second broker from writing to the same files.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s is in use by another process: %w", dir, err), f.Close())
	}
	return f, nil
}
