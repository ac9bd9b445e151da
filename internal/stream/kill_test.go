package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pairstream/pairstream/schemas"
)

const killLanes = 4

// killConfig is the configuration of TestProcessesKilled and of its processes.
func killConfig(broker, namespace string) Config {
	cfg := testConfig(broker, namespace, killLanes)
	cfg.BatchBytes = 2000
	cfg.DrainTimeout = time.Second
	cfg.SessionTimeout = time.Second // the least that the embedded broker allows
	return cfg
}

// workerMain is a process that runs two stages until its standard input ends, or it is killed.
func workerMain(broker, namespace string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	logger := slog.New(slog.NewTextHandler(os.Stdout, nil))
	l, err := Connect(ctx, killConfig(broker, namespace), Options{Logger: logger})
	if err != nil {
		return err
	}
	runs := []*stageRun{start(l, batcherSpec()), start(l, grouperSpec())}
	_, _ = io.Copy(io.Discard, os.Stdin)
	for _, r := range runs {
		r.cancel()
		err = errors.Join(err, <-r.done)
	}
	return err
}

func startWorker(t *testing.T, broker, namespace string) (kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "STREAM_TEST_WORKER="+broker+" "+namespace)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var killed atomic.Bool
	done := make(chan struct{})
	t.Cleanup(func() {
		<-done
		if t.Failed() {
			t.Logf("a worker said\n%s", out.String())
		}
	})
	go func() {
		defer close(done)
		if err := cmd.Wait(); !killed.Load() {
			t.Errorf("a worker ended by itself: %v, %s", err, out.String())
		}
	}()
	return func() {
		t.Helper()
		killed.Store(true)
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-done
	}
}

// TestProcessesKilled kills the processes that run two stages, at random points under load.
func TestProcessesKilled(t *testing.T) {
	t.Parallel()
	kills := 8
	if os.Getenv("SOAK") != "" {
		kills = 200
	}
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d, %d kills", seed, kills)
	b := startBroker(t, BrokerOptions{})
	l := openLog(t, killConfig(b.Addr(), "killed"))
	workers := []func(){startWorker(t, b.Addr(), "killed"), startWorker(t, b.Addr(), "killed")}

	sent := 0
	send := func(l *Log, from, to int) {
		var m []message
		for i := from; i < to; i++ {
			value := fmt.Sprint("pair ", i)
			if i%97 == 0 {
				value = fmt.Sprint("late poison ", i)
			}
			m = append(m, pair(i%killLanes, value))
		}
		put(t, l, m...)
	}
	seqs := func() (sum int64) {
		for lane := range killLanes {
			seq, err := l.LastSeq(t.Context(), schemas.Neighbors, lane)
			if err != nil {
				t.Fatal(err)
			}
			sum += seq
		}
		return sum
	}
	for range kills {
		send(l, sent, sent+400)
		sent += 400
		target := seqs() + 1 + r.Int64N(100) // somewhere in the middle of the work
		await(t, "the stages go on", func() bool { return seqs() >= target })
		i := r.IntN(len(workers))
		workers[i]()
		workers[i] = startWorker(t, b.Addr(), "killed")
	}

	quiet := openLog(t, killConfig(b.Addr(), "quiet"))
	send(quiet, 0, sent)
	runs := []*stageRun{start(quiet, batcherSpec()), start(quiet, grouperSpec())}
	for lane := range killLanes {
		want := int64(len(lines(t, quiet, schemas.Pairs, lane)))
		for _, v := range lines(t, quiet, schemas.Pairs, lane) {
			if strings.HasPrefix(v, "late poison") {
				want--
			}
		}
		ends := map[schemas.Topic]int64{schemas.Embeddings: want - 1, schemas.Neighbors: want/3*3 - 1, schemas.Groups: want/3 - 1}
		awaitSeqs(t, quiet, ends, lane)
		awaitSeqs(t, l, ends, lane)
	}
	for _, r := range runs {
		r.stop(t)
	}
	for _, kill := range workers {
		kill()
	}
	records := 0
	for _, topic := range []schemas.Topic{schemas.Embeddings, schemas.Neighbors, schemas.Groups} {
		for lane := range killLanes {
			records += len(lines(t, l, topic, lane))
			if got, want := digest(t, l, topic, lane), digest(t, quiet, topic, lane); got != want {
				t.Errorf("%s, lane %d: %s\nundisturbed: %s", topic, lane, got, want)
			}
		}
	}
	if got, want := deadValues(t, l), deadValues(t, quiet); got != want {
		t.Errorf("dead letters: %s\nundisturbed: %s", got, want)
	}
	t.Logf("%d records compared", records)
}

// deadValues counts the dead letters, and sums up where they come from.
func deadValues(t *testing.T, l *Log) string {
	t.Helper()
	n, sum := 0, int64(0)
	for d, err := range l.DeadLetters(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		sum += d.Offset
	}
	return fmt.Sprintf("%d, offsets add up to %d", n, sum)
}
