//go:build kafka

package kafkatest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/kafkatest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

const smokeLanes = 3

func config(c *kafkatest.Cluster) stream.Config {
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Lanes, cfg.Namespace = c.Brokers(), smokeLanes, "smoke"
	cfg.RequestTimeout = 5 * time.Second
	return cfg
}

func connect(t *testing.T, cfg stream.Config) *stream.Log {
	t.Helper()
	log := must.Get(stream.Connect(t.Context(), cfg, stream.Options{}))(t)
	t.Cleanup(log.Close)
	return log
}

// writer numbers the records of every lane.
type writer struct {
	*stream.Publisher
	next [smokeLanes]int64
}

func (w *writer) write(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	for lane := range smokeLanes {
		for range n {
			seal := &schemas.Seal{Note: fmt.Sprintf("lane %d, %d", lane, w.next[lane])}
			must.Do(t, w.PublishSeq(ctx, schemas.Embeddings, lane, w.next[lane], stream.Mark{}, seal))
			w.next[lane]++
		}
	}
	must.Do(t, w.Flush(ctx))
}

// A cluster goes through every fault, one after the other. Every acknowledged record is there at the end.
func TestClusterSurvivesItsFaults(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{})
	log := connect(t, config(cluster))
	ctx := t.Context()
	must.Do(t, log.EnsureTopics(ctx))
	w := &writer{Publisher: log.NewPublisher(stream.PublisherOptions{})}
	w.write(ctx, t, 20)
	topic := schemas.Embeddings.Name("smoke")
	down := map[string]func(int) error{"kill": cluster.Kill, "stop": cluster.Stop, "pause": cluster.Pause}
	up := map[string]func(int) error{"kill": cluster.Restart, "stop": cluster.Restart, "pause": cluster.Resume}
	for lane, fault := range []string{"kill", "stop", "pause"} {
		leader := must.Get(cluster.Leader(topic, lane))(t)
		must.Do(t, down[fault](leader))
		w.write(ctx, t, 20)
		must.Do(t, up[fault](leader))
		must.Do(t, cluster.WaitInSync(ctx))
	}
	must.Do(t, w.Close(ctx))
	for lane := range smokeLanes {
		r := log.OpenReader(schemas.Embeddings, lane, stream.Position{}, stream.ReaderOptions{})
		for seq := range w.next[lane] {
			rec := must.Get(r.Next(ctx))(t)
			if rec.Seq != seq {
				t.Fatalf("lane %d: got record %d, want %d", lane, rec.Seq, seq)
			}
		}
		r.Close()
	}
}

func TestSecureListener(t *testing.T) {
	const user, password = "alice", "open sesame"
	cluster := kafkatest.Start(t, kafkatest.Options{
		Brokers: 1, TLS: true, ClientAuth: true,
		SASL:  []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"},
		Users: map[string]string{user: password, "bob": "other"},
	})
	cert, key := cluster.ClientCertificate()
	good := config(cluster)
	good.TLS, good.TLSCA, good.TLSCert, good.TLSKey = true, cluster.CA(), cert, key
	good.SASL, good.SASLUser, good.SASLPassword = "SCRAM-SHA-512", user, password
	tests := map[string]struct {
		change  func(*stream.Config)
		refused bool
	}{
		"SCRAM-SHA-512":  {func(*stream.Config) {}, false},
		"SCRAM-SHA-256":  {func(c *stream.Config) { c.SASL = "SCRAM-SHA-256" }, false},
		"PLAIN":          {func(c *stream.Config) { c.SASL = "PLAIN" }, false},
		"wrong password": {func(c *stream.Config) { c.SASLPassword = "guess" }, true},
		"another CA":     {func(c *stream.Config) { c.TLSCA = cluster.OtherCA() }, true},
		"another name":   {func(c *stream.Config) { c.TLSServerName = "kafka.example.org" }, true},
		"plaintext": {func(c *stream.Config) {
			c.TLS, c.TLSCA, c.TLSCert, c.TLSKey = false, "", "", ""
		}, true},
		"no client certificate": {func(c *stream.Config) { c.TLSCert, c.TLSKey = "", "" }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := good
			test.change(&cfg)
			log, err := stream.Connect(t.Context(), cfg, stream.Options{})
			if err == nil {
				defer log.Close()
				err = log.EnsureTopics(t.Context())
			}
			if (err != nil) != test.refused {
				t.Errorf("refused: %v (%v), want %v", err != nil, err, test.refused)
			}
		})
	}
}

const childVariable = "KAFKATEST_CHILD"

// A test process that is killed takes its brokers with it.
func TestNoBrokerIsLeftBehind(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		cluster := kafkatest.Start(t, kafkatest.Options{Brokers: 1})
		fmt.Println("serving", cluster.Brokers()[0])
		select {} // until it is killed
	}
	child := exec.Command(os.Args[0], "-test.run=^TestNoBrokerIsLeftBehind$")
	child.Env = append(os.Environ(), childVariable+"=1", "TMPDIR="+t.TempDir())
	out := must.Get(child.StdoutPipe())(t)
	must.Do(t, child.Start())
	var addr string
	if _, err := fmt.Fscanf(out, "serving %s\n", &addr); err != nil {
		t.Errorf("reading from the child: %v", err)
	}
	servers := kafkaServers(t, child.Process.Pid)
	if len(servers) == 0 {
		t.Error("the child has no Kafka server to leave behind")
	}
	must.Do(t, child.Process.Kill())
	_ = child.Wait() // killed
	for _, pid := range servers {
		for running(pid) {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// kafkaServers lists the children of a process that run kafka.Kafka.
func kafkaServers(t *testing.T, parent int) (pids []string) {
	t.Helper()
	tasks := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/task", parent)))(t)
	for _, task := range tasks {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", parent, task.Name()))
		if err != nil {
			continue // the thread has ended
		}
		for pid := range strings.FieldsSeq(string(children)) {
			if running(pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func running(pid string) bool {
	command, err := os.ReadFile("/proc/" + pid + "/cmdline")
	return err == nil && strings.Contains(string(command), "kafka.Kafka")
}
