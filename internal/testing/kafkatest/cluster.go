package kafkatest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// These bounds suit a machine that is busy with other things. A healthy cluster of three starts in a few seconds.
const (
	startTimeout = 3 * time.Minute
	stopTimeout  = time.Minute
)

// Cluster is a running Kafka cluster. Brokers are numbered from 0, and their number is their node id.
type Cluster struct {
	opts         Options
	dir          string
	install      installation
	certificates certificates
	launcher     *launcher
	brokers      []*broker

	mu     sync.Mutex
	closed bool
}

// broker is one server. The cluster's lock guards the last three members.
type broker struct {
	id      int
	dir     string
	ports   ports
	process *process // nil when it is down, or was told to end
	ending  *process // the one before, which may still be ending
	paused  bool
}

func (b *broker) path(name string) string { return filepath.Join(b.dir, name) }

// Start starts a cluster that is closed when the test ends. It fails the test with a clear message where Java or
// Maven is missing or a broker does not start.
func Start(t testing.TB, opts Options) *Cluster {
	t.Helper()
	found, err := install(t.Context())
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := newCluster(ctx, opts.withDefaults(), found)
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	t.Cleanup(func() { c.end(t) })
	if err := c.startAll(ctx); err != nil {
		t.Fatalf("kafkatest: starting the cluster: %v", err)
	}
	return c
}

// end follows the test. A broker that ended by itself fails the test, and a failed test shows the logs.
func (c *Cluster) end(t testing.TB) {
	for _, b := range c.brokers {
		if b.process != nil && !b.process.running() {
			t.Errorf("kafkatest: broker %d ended by itself: %v", b.id, b.process.err)
		}
	}
	if err := c.Close(); err != nil {
		t.Errorf("kafkatest: closing the cluster: %v", err)
	}
	if t.Failed() {
		c.showLogs(t)
		return
	}
	if err := os.RemoveAll(c.dir); err != nil {
		t.Errorf("kafkatest: removing the cluster's data: %v", err)
	}
}

// newCluster prepares everything but starts no broker.
func newCluster(ctx context.Context, opts Options, found installation) (*Cluster, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pairstream-kafka-")
	if err != nil {
		return nil, fmt.Errorf("making the cluster's folder: %w", err)
	}
	c := &Cluster{opts: opts, dir: dir, install: found, launcher: newLauncher()}
	if err := c.prepare(ctx); err != nil {
		c.launcher.close()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

func (c *Cluster) prepare(ctx context.Context) (err error) {
	if c.opts.TLS {
		if c.certificates, err = writeCertificates(c.dir); err != nil {
			return err
		}
	}
	taken, err := freePorts(c.opts.Brokers)
	if err != nil {
		return err
	}
	for id, p := range taken {
		b := &broker{id: id, dir: filepath.Join(c.dir, "broker-"+strconv.Itoa(id)), ports: p}
		if err := os.Mkdir(b.dir, 0o700); err != nil {
			return fmt.Errorf("making the folder of broker %d: %w", id, err)
		}
		c.brokers = append(c.brokers, b)
	}
	return c.format(ctx)
}

// format writes every broker's settings and prepares its data folder.
func (c *Cluster) format(ctx context.Context) error {
	id := make([]byte, 16)
	rand.Read(id)
	id[0] &= 0x7f // a cluster id that starts with '-' would look like an option
	clusterID := base64.RawURLEncoding.EncodeToString(id)
	for _, b := range c.brokers {
		if err := os.WriteFile(b.path("server.properties"), []byte(render(c.properties(b))), 0o600); err != nil {
			return fmt.Errorf("writing the settings of broker %d: %w", b.id, err)
		}
		args := append(c.javaArguments("-Xmx128m"), "kafka.tools.StorageTool", "format",
			"--cluster-id", clusterID, "--config", b.path("server.properties"))
		args = append(args, c.opts.scramArguments()...)
		out, err := exec.CommandContext(ctx, c.install.java, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("formatting the data folder of broker %d: %w: %s", b.id, err, lastLines(out, 20))
		}
	}
	return nil
}

// javaArguments returns arguments that favour a quick start over peak speed: servers of tests live for a minute or two.
func (c *Cluster) javaArguments(heap string) []string {
	args := []string{
		heap, "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError",
		"-Dlog4j2.configurationFile=" + c.install.logging, "-cp", filepath.Join(c.install.jars, "*"),
	}
	if c.install.classes != "" {
		args = append(args, c.install.classes)
	}
	return args
}

func (c *Cluster) startAll(ctx context.Context) error {
	for _, b := range c.brokers {
		if err := c.launch(b); err != nil {
			return err
		}
	}
	return c.waitReady(ctx)
}

// launch starts the broker's process; the caller holds the lock or is alone.
func (c *Cluster) launch(b *broker) error {
	if b.ending != nil {
		<-b.ending.done // two servers on one data folder would both fail
	}
	args := append(c.javaArguments(fmt.Sprintf("-Xmx%dm", c.opts.HeapMB)), "kafka.Kafka", b.path("server.properties"))
	p, err := c.launcher.start(b.path("log"), c.install.java, args...)
	if err != nil {
		return fmt.Errorf("starting broker %d: %w", b.id, err)
	}
	b.process = p
	return nil
}

// Brokers returns the addresses for clients, those of stopped brokers included.
func (c *Cluster) Brokers() []string {
	var addresses []string
	for _, b := range c.brokers {
		addresses = append(addresses, net.JoinHostPort(c.opts.host(), strconv.Itoa(b.ports.client)))
	}
	return addresses
}

// Size returns the number of brokers, those that are down included.
func (c *Cluster) Size() int { return len(c.brokers) }

// CA returns the file of the authority that signed the brokers' certificates.
func (c *Cluster) CA() string { return c.certificates.ca }

// OtherCA returns the file of a certificate authority that signed nothing here, and that the brokers do not know.
func (c *Cluster) OtherCA() string { return c.certificates.otherCA }

// ClientCertificate returns the files of a certificate that the brokers accept, and of its key.
func (c *Cluster) ClientCertificate() (cert, key string) {
	return c.certificates.clientCert, c.certificates.clientKey
}

// Close kills what is running. Further calls are allowed.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	var problems []error
	for _, b := range c.brokers {
		for _, p := range []*process{b.process, b.ending} {
			if p != nil && p.running() {
				problems = append(problems, p.signal(syscall.SIGKILL)) // ends a paused process too
				<-p.done
			}
		}
	}
	c.launcher.close()
	return errors.Join(problems...)
}

// logTail returns the end of the broker's log, or why it cannot be read.
func (b *broker) logTail(lines int) []byte {
	content, err := os.ReadFile(b.path("log"))
	if err != nil {
		return []byte(err.Error())
	}
	return lastLines(content, lines)
}

func (c *Cluster) showLogs(t testing.TB) {
	for _, b := range c.brokers {
		t.Logf("kafkatest: end of %s\n%s", b.path("log"), b.logTail(25))
		if err := os.RemoveAll(b.path("data")); err != nil {
			t.Logf("kafkatest: removing data: %v", err)
		}
	}
}

func lastLines(text []byte, n int) []byte {
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}
