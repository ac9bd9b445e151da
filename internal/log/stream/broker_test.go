package stream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

// TestMain runs the tests. In other processes it is the broker of the tests, or the stages of a scenario.
func TestMain(m *testing.M) {
	if slow := strings.Fields(os.Getenv("STREAM_TEST_SLOW")); len(slow) == 3 {
		pause, err := time.ParseDuration(slow[1])
		lasts, err2 := time.ParseDuration(slow[2])
		if err = errors.Join(err, err2); err == nil {
			err = slowMain(slow[0], pause, lasts)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if broker, namespace, ok := strings.Cut(os.Getenv("STREAM_TEST_WORKER"), " "); ok {
		if err := workerMain(broker, namespace); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir, ok := os.LookupEnv("STREAM_TEST_BROKER_DIR"); ok {
		b, err := broker.Start(broker.Options{Addr: os.Getenv("STREAM_TEST_BROKER_ADDR"), DataDir: dir})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(b.Addr())
		_, _ = io.Copy(io.Discard, os.Stdin) // lives as long as the test does
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// brokerProcess is an embedded broker in a process of its own, in memory only when dir is empty.
type brokerProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	addr  string
}

func startBrokerProcess(t *testing.T, dir, addr string) *brokerProcess {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "STREAM_TEST_BROKER_DIR="+dir, "STREAM_TEST_BROKER_ADDR="+addr)
	stdin := must.Get(cmd.StdinPipe())(t)
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	line = strings.TrimSpace(line)
	if _, _, aerr := net.SplitHostPort(line); err != nil || aerr != nil {
		t.Fatalf("starting a broker process: %q, %v", line, err)
	}
	return &brokerProcess{cmd, stdin, line}
}

func (b *brokerProcess) kill(t *testing.T) {
	t.Helper()
	must.Do(t, b.cmd.Process.Kill())
	var exit *exec.ExitError
	if err := b.cmd.Wait(); !errors.As(err, &exit) {
		t.Fatal(err)
	}
}

// TestBrokerKilled kills the broker again and again under load, without a warning, and starts it again on its data
// directory and port. In the end every record that was acknowledged is there, and a stage that never stopped has
// processed it.
func TestBrokerKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startBrokerProcess(t, dir, "")
	cfg := testConfig(b.addr, "", 2)
	cfg.BatchBytes, cfg.RequestTimeout = 2000, 2*time.Second
	l := openLog(t, cfg)
	var c Counters
	spec := batcherSpec()
	spec.Counters = &c
	r := start(l, spec)
	p := l.NewPublisher(PublisherOptions{})
	sent := 0
	rounds := soak.Choose(3, 40)
	var longest time.Duration
	for round := range rounds + 1 {
		for range 300 {
			must.Do(t, p.enqueue(t.Context(), pair(sent%2, fmt.Sprint("pair ", sent))))
			sent++
		}
		seen, since := c.Out.Load(), time.Now()
		await(t, "the stage goes on", func() bool { return c.Out.Load() > seen })
		if round > 0 {
			longest = max(longest, time.Since(since))
		}
		if round < rounds {
			b.kill(t)
			b = startBrokerProcess(t, dir, b.addr)
		}
	}
	must.Do(t, p.Close(t.Context()))
	end := make([]int64, 2)
	for lane := range end {
		bounds := must.Get(l.Bounds(t.Context(), schemas.Pairs, lane))(t)
		end[lane] = bounds.End
		awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: end[lane] - 1}, lane)
	}
	r.stop(t)
	found := make(map[string]bool)
	for lane := range end {
		embeddings := lines(t, l, schemas.Embeddings, lane)
		for i, v := range lines(t, l, schemas.Pairs, lane) {
			found[v] = true
			if embeddings[i] != "embedding of "+v {
				t.Fatalf("lane %d: record %d is %q, its input %q", lane, i, embeddings[i], v)
			}
		}
	}
	if len(found) != sent {
		t.Errorf("%d different pairs in the log, want %d", len(found), sent)
	}
	b.kill(t)
	figures.Record(t, figures.Figures{
		Scenario: "broker killed, restarted on its directory", Broker: "embedded", Faults: rounds, Records: len(found), Recovery: longest,
	})
}

func TestBrokerReopensItsDataDirectory(t *testing.T) {
	dir := t.TempDir()
	want := ""
	for range 3 {
		b := must.Get(broker.Start(broker.Options{DataDir: dir}))(t)
		l := openLog(t, testConfig(b.Addr(), "", 1))
		if got := strings.Join(lines(t, l, schemas.Pairs, 0), ","); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		put(t, l, pair(0, "more"))
		want = strings.TrimPrefix(want+",more", ",")
		l.Close()
		must.Do(t, b.Close())
	}
}
