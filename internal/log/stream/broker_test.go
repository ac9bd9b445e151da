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
	"syscall"
	"testing"
	"time"

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
		b, err := StartBroker(BrokerOptions{Addr: os.Getenv("STREAM_TEST_BROKER_ADDR"), DataDir: dir})
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
		b := must.Get(StartBroker(BrokerOptions{DataDir: dir}))(t)
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

func TestStartBrokerRefuses(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, BrokerOptions{DataDir: dir})
	file := dir + "/file"
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		o    BrokerOptions
		want string
	}{
		"a port in use":           {BrokerOptions{Addr: b.Addr()}, b.Addr() + " is in use"},
		"a directory in use":      {BrokerOptions{DataDir: dir}, dir + " is in use"},
		"a file as directory":     {BrokerOptions{DataDir: file}, file},
		"an address without port": {BrokerOptions{Addr: "127.0.0.1"}, `"127.0.0.1"`},
		"a port out of range":     {BrokerOptions{Addr: "127.0.0.1:70000"}, "70000"},
		"the open network":        {BrokerOptions{Addr: "0.0.0.0:0"}, "loopback"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := StartBroker(c.o)
			if err == nil {
				_ = b.Close()
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line with %q", err, c.want)
			}
		})
	}
	if errno := syscall.EADDRINUSE; !errors.Is(explainStart(BrokerOptions{}, errno), errno) {
		t.Error("the cause is lost")
	}
}

// TestGarbageOnTheBrokersPort sends what is not the Kafka protocol. The broker must survive it and serve others.
func TestGarbageOnTheBrokersPort(t *testing.T) {
	b := startBroker(t, BrokerOptions{})
	for name, garbage := range map[string]string{
		"http":                  "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a tls greeting":        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"a length of 4 GiB":     "\xff\xff\xff\xff\x00\x12\x00\x00",
		"a length of nothing":   "\x00\x00\x00\x00\x00\x12\x00\x00",
		"an unknown request":    "\x00\x00\x00\x10\x7f\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"a negative request":    "\x00\x00\x00\x10\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"a request without end": "\x00\x00\x00\x10\x00\x03\x00\x00",
		"a version of tomorrow": "\x00\x00\x00\x10\x00\x03\x7f\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"a negative version":    "\x00\x00\x00\x10\x00\x03\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"nonsense for metadata": "\x00\x00\x00\x10\x00\x03\x00\x09\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff",
		"nonsense for produce":  "\x00\x00\x00\x10\x00\x00\x00\x08\x00\x00\x00\x00\xff\xff\x00\x00\x7f\xff\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			conn := must.Get(net.Dial("tcp", b.Addr()))(t)
			defer func() { _ = conn.Close() }()
			must.Get(io.WriteString(conn, garbage))(t)
			if name == "a request without end" {
				return // the broker waits for the rest
			}
			must.Do(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the broker neither answers nor hangs up")
			}
		})
	}
	l := openLog(t, testConfig(b.Addr(), "", 1))
	put(t, l, pair(0, "fine"))
	if got := lines(t, l, schemas.Pairs, 0); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

func FuzzGuard(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x10\x00\x03\x00\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 3)
	f.Add([]byte("\x00\x00\x00\x08\x00\x12\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x12\x00\x00\x00\x00\x00\x00"), 1)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), 7)
	f.Fuzz(func(t *testing.T, stream []byte, step int) {
		step = max(step, 1)
		whole, parts := newGuardedConn(nil, nil), newGuardedConn(nil, nil)
		want := whole.look(stream)
		var got error
		for rest := stream; len(rest) > 0 && got == nil; {
			n := min(step, len(rest))
			got = parts.look(rest[:n])
			rest = rest[n:]
		}
		if (want == nil) != (got == nil) {
			t.Errorf("read at once: %v; in parts of %d: %v", want, step, got)
		}
	})
}
