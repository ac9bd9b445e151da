package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Options tune the embedded broker.
type Options struct {
	Addr    string // host:port on loopback to listen on; port 0, or empty: any free port
	DataDir string // folder of the log; empty: in memory only
	Logger  *slog.Logger

	// SetAsideDamage moves damaged bytes of the log to separate files, and starts without their records. Otherwise the
	// broker does not start on a damaged log.
	SetAsideDamage bool

	TLS  *tls.Config // serve TLS if set
	SASL string      // require this mechanism if set
	User string
	Pass string

	disk       disk  // nil: the machine's; tests have others
	compactMin int64 // 0: the constant compactMin; tests compact less
}

// Broker is a Kafka-protocol broker in this process, for one machine. With a data directory, acknowledged records are
// on disk and survive a kill and a loss of power. It reads all of its log when it starts, 1 GB in 2 s, and needs about
// as much memory as the log is large meanwhile.
type Broker struct {
	cluster *kfake.Cluster
	addr    string
	lock    *os.File
	storage *storage // nil: in memory only
	closed  chan struct{}
	others  sync.WaitGroup
	closing sync.Once
	ended   error // error of closing
}

// maxRequestBytes bounds the claimed length of a request.
const maxRequestBytes = 128 << 20

// Start starts the embedded broker. For a damaged log it returns a [DamageError].
func Start(o Options) (*Broker, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	port, err := checkAddr(o.Addr)
	if err != nil {
		return nil, err
	}
	b := &Broker{closed: make(chan struct{})}
	opts := append(b.options(o), kfake.Ports(port))
	if o.DataDir != "" {
		b.storage = newStorage(o.disk, filepath.Join(o.DataDir, "log"), o.Logger)
		if b.lock, err = b.storage.lockDir(o.DataDir); err != nil {
			return nil, err
		}
		if err := b.storage.prepare(o); err != nil {
			return nil, errors.Join(explainStart(o, err), b.unlock())
		}
		opts = append(opts, kfake.DataDir(b.storage.root), withFS(b.storage), withoutCleaner)
	}
	if err := b.start(opts); err != nil {
		return nil, errors.Join(explainStart(o, err), b.unlock())
	}
	guardBatches(b.cluster)
	b.addr = b.cluster.ListenAddrs()[0]
	if b.storage != nil {
		guardCleaner(b.cluster)
		b.others.Go(b.retain)
	}
	return b, nil
}

// checkAddr returns the port of an address that the broker may listen on.
func checkAddr(addr string) (port int, err error) {
	host, portText, err := net.SplitHostPort(addr)
	port, perr := strconv.Atoi(portText)
	if err != nil || perr != nil || port < 0 || port >= 1<<16 {
		return 0, fmt.Errorf("broker address %q: want host:port", addr)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return 0, fmt.Errorf("broker address %q: the embedded broker serves one machine, want a loopback address", addr)
	}
	return port, nil
}

const clusterID = "pairstream"

func (b *Broker) options(o Options) []kfake.Opt {
	opts := []kfake.Opt{
		kfake.NumBrokers(1), kfake.ClusterID(clusterID), kfake.WithLogger(kfakeLog{o.Logger}),
		kfake.GroupMinSessionTimeout(time.Second),
		kfake.BrokerConfigs(map[string]string{
			"message.max.bytes": strconv.Itoa(maxRequestBytes), "log.retention.ms": "-1", "log.retention.bytes": "-1",
		}),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) {
			ln, err := net.Listen(network, o.Addr)
			if err != nil {
				return nil, err
			}
			ln = &patientListener{Listener: ln, logger: o.Logger, closed: make(chan struct{})}
			if o.TLS != nil {
				ln = tls.NewListener(ln, o.TLS)
			} else {
				ln = newPipeListener(ln, b.failure)
			}
			return &guardedListener{ln, b}, nil
		}),
	}
	if o.SASL != "" {
		opts = append(opts, kfake.EnableSASL(), kfake.Superuser(o.SASL, o.User, o.Pass))
	}
	return opts
}

// start starts kfake. It leaves a log unchanged in which kfake finds damage.
func (b *Broker) start(opts []kfake.Opt) (err error) {
	s := b.storage
	if s == nil {
		b.cluster, err = kfake.NewCluster(opts...)
		return err
	}
	s.set(func() { s.loading = true })
	b.cluster, err = kfake.NewCluster(opts...)
	var damage error
	s.set(func() {
		s.loading, damage = false, s.damage
		s.frozen = damage != nil
	})
	if err == nil && damage != nil {
		b.cluster.Close()
	}
	s.set(func() { s.own, s.indexes = nil, make(map[string][]byte) })
	if damage != nil {
		return damage
	}
	return err
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

// Cluster returns the kfake cluster behind the guards, for tests that inject faults.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// Wait returns when ctx has ended, or when the disk has stopped the broker. In the latter case it returns the cause.
func (b *Broker) Wait(ctx context.Context) error {
	if b.storage == nil {
		<-ctx.Done()
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-b.storage.done:
		return b.failure()
	}
}

func (b *Broker) failure() error {
	if b.storage == nil {
		return nil
	}
	return b.storage.failure()
}

// Close stops the broker. Its data directory can be opened again afterwards. Further calls return the result of the
// first.
func (b *Broker) Close() error {
	b.closing.Do(func() { b.ended = b.stop() })
	return b.ended
}

func (b *Broker) stop() error {
	s := b.storage
	if s == nil {
		b.cluster.Close()
		return nil
	}
	close(b.closed)
	b.others.Wait()
	s.set(func() { s.closing, s.frozen = true, s.failed != nil })
	b.cluster.Close()
	err := s.settleAll()
	s.set(func() {
		if err == nil && s.unkept != nil {
			err = fmt.Errorf("closing the embedded broker: acknowledged data is safe, and the next start takes longer: %w", s.unkept)
		}
	})
	return errors.Join(err, b.unlock())
}

func (b *Broker) unlock() error {
	if b.lock == nil {
		return nil
	}
	return b.lock.Close() // which also gives up the lock
}

// lockDir keeps a second broker from writing to the same files.
func (s *storage) lockDir(dir string) (*os.File, error) {
	if err := makeFolders(s.disk, dir, 0o755); err != nil {
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

// set changes the state of storage.
func (s *storage) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}
