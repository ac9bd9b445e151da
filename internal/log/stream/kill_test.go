package stream

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

const killLanes = 4

// killConfig returns the configuration of the scenario killed and of its processes.
func killConfig(brokers, namespace string) Config {
	cfg := testConfig(brokers, namespace, killLanes)
	cfg.BatchBytes = 2000
	cfg.SessionTimeout = time.Second // the least that the brokers of the tests allow
	if len(cfg.Brokers) > 1 {        // a cluster on one machine takes its time
		cfg.SessionTimeout = 3 * time.Second
	}
	return cfg
}

// workerMain runs two stages in a process until its standard input ends, or it is killed.
func workerMain(brokers, namespace string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	logger := slog.New(slog.NewTextHandler(os.Stdout, nil))
	l, err := Connect(ctx, killConfig(brokers, namespace), Options{Logger: logger})
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	g, ctx := errgroup.WithContext(ctx) // a stage that ends by itself ends the process
	for _, spec := range []StageSpec{batcherSpec(), grouperSpec()} {
		g.Go(func() error { return l.Run(ctx, spec) })
	}
	return g.Wait()
}

// workerProcess is a process of workerMain.
type workerProcess struct {
	cmd    *exec.Cmd
	out    strings.Builder
	killed atomic.Bool
	done   chan struct{}
}

func startWorker(t *testing.T, brokers, namespace string) *workerProcess {
	t.Helper()
	w := &workerProcess{cmd: exec.CommandContext(t.Context(), os.Args[0]), done: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), "STREAM_TEST_WORKER="+brokers+" "+namespace)
	w.cmd.Stdout, w.cmd.Stderr = &w.out, &w.out
	must.Get(w.cmd.StdinPipe())(t)
	must.Do(t, w.cmd.Start())
	t.Cleanup(func() {
		<-w.done
		if t.Failed() {
			t.Logf("a worker said\n%s", w.out.String())
		}
	})
	go func() {
		defer close(w.done)
		if err := w.cmd.Wait(); !w.killed.Load() && t.Context().Err() == nil {
			t.Errorf("a worker ended by itself: %v, %s", err, w.out.String())
		}
	}()
	return w
}

func (w *workerProcess) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	must.Check(t, w.cmd.Process.Signal(s))
}

func (w *workerProcess) kill(t *testing.T) {
	t.Helper()
	w.killed.Store(true)
	w.signal(t, syscall.SIGKILL)
	<-w.done
}

// killInput returns the i-th pair of the scenario killed.
func killInput(i int) message {
	if i%97 == 0 {
		return pair(i%killLanes, fmt.Sprint("late poison ", i))
	}
	return pair(i%killLanes, fmt.Sprint("pair ", i))
}

// killEnds returns the last seqs of a lane when so many of its pairs are processed.
func killEnds(lane, pairs int) map[schemas.Topic]int64 {
	good := int64(0)
	for k := range pairs {
		if (lane+k*killLanes)%97 != 0 {
			good++
		}
	}
	return map[schemas.Topic]int64{schemas.Embeddings: good - 1, schemas.Neighbors: good/3*3 - 1, schemas.Groups: good/3 - 1}
}

// killed kills processes that run two stages, at random points under load. It pauses some until others have taken
// their lanes over. Then they wake up and write on.
func killed(t *testing.T, b brokers) {
	faults := soak.Choose(8, 120)
	r := rand.New(rand.NewPCG(soak.Seed(t, 11), 0))
	l := openLog(t, killConfig(b.brokers, "killed"))
	workers := []*workerProcess{startWorker(t, b.brokers, "killed"), startWorker(t, b.brokers, "killed")}
	sent := 0
	send := func(n int) {
		var m []message
		for range n {
			m = append(m, killInput(sent))
			sent++
		}
		put(t, l, m...)
	}
	catchUp := func() time.Duration {
		since := time.Now()
		for lane := range killLanes {
			awaitSeqs(t, l, killEnds(lane, sent/killLanes), lane)
		}
		return time.Since(since)
	}
	send(100)
	catchUp()
	var longest time.Duration
	for fault := range faults {
		send(300)
		time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond) // somewhere in the middle of the work
		i := r.IntN(len(workers))
		if fault%4 == 3 {
			workers[i].signal(t, syscall.SIGSTOP)
			send(100)
			longest = max(longest, catchUp())
			workers[i].signal(t, syscall.SIGCONT)
			continue
		}
		workers[i].kill(t)
		send(100)
		workers[i] = startWorker(t, b.brokers, "killed")
		longest = max(longest, catchUp())
	}
	records := compareKilled(t, b, l, sent)
	for _, w := range workers {
		w.kill(t)
	}
	b.record(t, figures.Figures{
		Scenario: "kill -9 and SIGSTOP of two stages", Faults: faults, Records: records, Recovery: longest,
	})
}

// compareKilled compares the outcome with that of an undisturbed run on the same pairs. The pairs are those in the
// log. A batch may be there twice when its producer did not hear of the ack.
func compareKilled(t *testing.T, b brokers, l *Log, sent int) (records int) {
	quiet := openLog(t, killConfig(b.brokers, "killed-quiet"))
	var m []message
	distinct, good := make(map[string]bool), make([]int64, killLanes)
	for lane := range killLanes {
		for _, v := range lines(t, l, schemas.Pairs, lane) {
			m = append(m, pair(lane, v))
			distinct[v] = true
			if !strings.HasPrefix(v, "late poison") {
				good[lane]++
			}
		}
	}
	if len(distinct) != sent {
		t.Errorf("%d different pairs in the log, want %d", len(distinct), sent)
	}
	put(t, quiet, m...)
	runs := []*stageRun{start(quiet, batcherSpec()), start(quiet, grouperSpec())}
	for lane, n := range good {
		ends := map[schemas.Topic]int64{schemas.Embeddings: n - 1, schemas.Neighbors: n/3*3 - 1, schemas.Groups: n/3 - 1}
		awaitSeqs(t, quiet, ends, lane)
		awaitSeqs(t, l, ends, lane)
	}
	for _, r := range runs {
		r.stop(t)
	}
	for _, topic := range []schemas.Topic{schemas.Embeddings, schemas.Neighbors, schemas.Groups} {
		for lane := range killLanes {
			got, want := digest(t, l, topic, lane), digest(t, quiet, topic, lane)
			if got != want {
				t.Errorf("%s, lane %d: %s\nundisturbed: %s", topic, lane, got, want)
			}
			records += recordsOf(t, got)
		}
	}
	if got, want := deadValues(t, l), deadValues(t, quiet); got != want {
		t.Errorf("dead letters: %s\nundisturbed: %s", got, want)
	}
	return records
}

// deadValues counts the dead letters, and sums up where they come from.
func deadValues(t *testing.T, l *Log) string {
	t.Helper()
	n, sum := 0, int64(0)
	for d, err := range l.DeadLetters(t.Context()) {
		must.Do(t, err)
		n++
		sum += d.Offset
	}
	return fmt.Sprintf("%d, offsets add up to %d", n, sum)
}
