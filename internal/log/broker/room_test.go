package broker

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// record is what a broker logs.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

func (r *record) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

// fullDisk is a disk without room for as long as full is set.
func fullDisk(full *atomic.Bool) *testDisk {
	return &testDisk{before: func(op, path string) error {
		if full.Load() && op != opSync && op != opRemove && op != opTruncate {
			return &fsError{op, path}
		}
		return nil
	}}
}

type fsError struct{ op, path string }

func (e *fsError) Error() string { return e.op + " " + e.path + ": " + syscall.ENOSPC.Error() }
func (*fsError) Unwrap() error   { return syscall.ENOSPC }

// TestFullDiskIsNamed lets a disk be full for a while. Clients and the log hear the file and the cause. Then all goes
// on.
func TestFullDiskIsNamed(t *testing.T) {
	var full atomic.Bool
	var said record
	dir := t.TempDir()
	b := must.Get(Start(Options{DataDir: dir, disk: fullDisk(&full), Logger: said.logger()}))(t)
	c := must.Get(newAsker(b))(t)
	must.Do(t, c.create("pairs", nil))
	must.Get(c.produce("pairs", batchOf(nil, "before")))(t)

	full.Store(true)
	for range 3 {
		_, err := c.produce("pairs", batchOf(nil, "lost"))
		if !errors.Is(err, kerr.KafkaStorageError) || !strings.Contains(err.Error(), "0.dat: no space left on device: make room") {
			t.Errorf("a producer gets %v", err)
		}
		err = c.create("more", nil)
		if !errors.Is(err, kerr.KafkaStorageError) || !strings.Contains(err.Error(), "topics.json.tmp: no space left on device: make room") {
			t.Errorf("a maker of topics gets %v", err)
		}
	}
	if err := c.commit("readers", "pairs", 1); err == nil {
		t.Error("a commit was acknowledged")
	}
	c = must.Get(newAsker(b))(t)
	if got, _, err := c.read("pairs"); err != nil || len(got) != 1 {
		t.Errorf("a reader gets %d records, error %v", len(got), err)
	}
	const complaint = `level=ERROR msg="the embedded log cannot be written until there is room again" err="`
	for _, name := range []string{"0.dat", "topics.json.tmp", "groups.log"} {
		if n := strings.Count(said.String(), complaint); n != 3 || !strings.Contains(said.String(), name+": no space left on device") {
			t.Errorf("the log says %d times that there is no room, want once of records, topics and groups:\n%s", n, said.String())
		}
	}

	full.Store(false)
	must.Do(t, c.create("more", nil))
	must.Get(c.produce("pairs", batchOf(nil, "after")))(t)
	must.Get(c.produce("more", batchOf(nil, "there")))(t)
	must.Do(t, c.commit("readers", "pairs", 2))
	if !strings.Contains(said.String(), "there is room again") {
		t.Errorf("the log does not say that there is room again:\n%s", said.String())
	}
	killed := t.TempDir()
	must.Do(t, copyTo(killed, dir))
	must.Do(t, b.Close())
	want := acked{lines: map[string][]string{"pairs": {"before", "after"}, "more": {"there"}}, commits: map[string]int64{"pairs": 2}}
	must.Do(t, survives(killed, want))
	must.Do(t, survives(dir, want))
}

// TestTopicsOnAFullDiskAreNotThere makes topics while there is no room, kills the broker, and starts it again. The
// maker was told, so none of them is there, and whoever makes them then has them.
func TestTopicsOnAFullDiskAreNotThere(t *testing.T) {
	var full atomic.Bool
	dir := t.TempDir()
	b := startBroker(t, Options{DataDir: dir, disk: fullDisk(&full)})
	c := must.Get(newAsker(b))(t)
	full.Store(true)
	if err := c.create("pairs", nil); !errors.Is(err, kerr.KafkaStorageError) {
		t.Fatalf("got %v", err)
	}
	if _, err := c.produce("pairs", batchOf(nil, "a")); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("records for a topic that was not made: %v", err)
	}
	full.Store(false)
	killed := t.TempDir()
	must.Do(t, copyTo(killed, dir))
	again := startBroker(t, Options{DataDir: killed})
	c = must.Get(newAsker(again))(t)
	if _, _, err := c.read("pairs"); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("got %v", err)
	}
	must.Do(t, c.create("pairs", nil))
}

// TestFirstStartOnAFullDisk has no room for the first files. The start says so, and succeeds when there is room.
func TestFirstStartOnAFullDisk(t *testing.T) {
	var full atomic.Bool
	full.Store(true)
	o := Options{DataDir: filepath.Join(t.TempDir(), "broker"), disk: fullDisk(&full)}
	if b, err := Start(o); !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "\n") {
		if err == nil {
			must.Check(t, b.Close())
		}
		t.Fatalf("got %v, want one line that names the cause", err)
	}
	full.Store(false)
	b := must.Get(Start(o))(t)
	must.Do(t, b.Close())
	full.Store(true)
	for _, name := range []string{"log", "LOCK"} { // a first start that got further
		must.Do(t, os.RemoveAll(filepath.Join(o.DataDir, name)))
	}
	must.Do(t, os.MkdirAll(filepath.Join(o.DataDir, "log"), 0o755))
	if _, err := Start(o); !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v, want one line that names the cause", err)
	}
	full.Store(false)
	startBroker(t, o)
}

// TestClosedOnAFullDisk has no room for what an orderly end writes. Close says so, and nothing is lost.
func TestClosedOnAFullDisk(t *testing.T) {
	var full atomic.Bool
	dir := t.TempDir()
	b := must.Get(Start(Options{DataDir: dir, disk: fullDisk(&full)}))(t)
	c := must.Get(newAsker(b))(t)
	must.Do(t, c.create("pairs", nil))
	must.Get(c.produce("pairs", batchOf(nil, "a", "b")))(t)
	full.Store(true)
	if err := b.Close(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "acknowledged data is safe") {
		t.Errorf("got %v", err)
	}
	must.Do(t, survives(dir, acked{lines: map[string][]string{"pairs": {"a", "b"}}}))
}

// TestCompactionOnAFullDisk finds no room to compact in. The broker says so, and has all notes.
func TestCompactionOnAFullDisk(t *testing.T) {
	dir, want := told(t, true)
	var said record
	var compactions atomic.Int64
	disk := &testDisk{before: func(op, path string) error {
		if strings.HasSuffix(path, ".dat.tmp") {
			compactions.Add(1)
			return &fsError{op, path}
		}
		return nil
	}}
	b := startBroker(t, Options{DataDir: dir, disk: disk, compactMin: 1, Logger: said.logger()})
	must.Do(t, want.check(b))
	if compactions.Load() == 0 || !strings.Contains(said.String(), "no space left on device") {
		t.Errorf("%d compactions, and the log says %q", compactions.Load(), said.String())
	}
}

// TestKfakeDoesNotCompact asks for what would make kfake compact in place.
func TestKfakeDoesNotCompact(t *testing.T) {
	b := startBroker(t, Options{DataDir: t.TempDir()})
	c := must.Get(newAsker(b))(t)
	value := "100"
	rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	rc.Name, rc.Value = cleanerBackoff, &value
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName, rr.Configs = kmsg.ConfigResourceTypeBroker, "0", append(rr.Configs, rc)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, rr)
	resp := must.Get(c.ask(req))(t).(*kmsg.IncrementalAlterConfigsResponse)
	if got := kerr.ErrorForCode(resp.Resources[0].ErrorCode); !errors.Is(got, kerr.InvalidConfig) {
		t.Errorf("got %v", got)
	}
}

// outOfDescriptors is a listener that cannot accept for a while.
type outOfDescriptors struct {
	net.Listener
	fails atomic.Int64
}

func (l *outOfDescriptors) Accept() (net.Conn, error) {
	if l.fails.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// TestOutOfFileDescriptors lets the broker run out of file descriptors, for connections and for files. It says so, and
// goes on when there are some.
func TestOutOfFileDescriptors(t *testing.T) {
	var said record
	inner := &outOfDescriptors{Listener: must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)}
	inner.fails.Store(3)
	l := &patientListener{Listener: inner, logger: said.logger(), closed: make(chan struct{})}
	dialed := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	accepted := must.Get(l.Accept())(t)
	must.Do(t, errors.Join(dialed.Close(), accepted.Close()))
	if !strings.Contains(said.String(), "too many open files") {
		t.Errorf("the log says %q", said.String())
	}
	inner.fails.Store(1 << 40)
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	must.Do(t, l.Close())
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}

	var none atomic.Bool
	disk := &testDisk{before: func(op, path string) error {
		if none.Load() && op == opSync { // opening the file to sync it
			none.Store(false)
			return syscall.EMFILE
		}
		return nil
	}}
	b := startBroker(t, Options{DataDir: t.TempDir(), disk: disk, Logger: said.logger()})
	c := dial(t, b)
	c.create(t, "pairs", nil)
	c.put(t, "pairs", "before")
	none.Store(true)
	c.put(t, "pairs", "waits")
	if !strings.Contains(said.String(), "answers wait for a free file descriptor") {
		t.Errorf("the log says %q", said.String())
	}
}
