package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/grouper/service"
	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/schemas"
)

// childCommand is the argument by which this program is a grouper.
const childCommand = "grouper"

// Kill is what a kill -9 of the grouper of all lanes costs.
type Kill struct {
	Epoch   int     `json:"epoch"`           // whose batches were due
	Records float64 `json:"records"`         // read again in a lane, on average, before its next batch
	Bytes   float64 `json:"bytes"`           // of them
	Seconds float64 `json:"seconds"`         // from taking a lane up to its next batch, the slowest lane
	Down    float64 `json:"down"`            // from the kill to the next batch, the slowest lane
	CPU     float64 `json:"cpu"`             // processor seconds of the grouper, until every lane has made its next batch
	Kept    float64 `json:"kept_epochs"`     // epochs of features that were in the log when all was deleted that may go
	Deleted int64   `json:"deleted_records"` // of all topics, before the grouper was started again
}

// job is what a grouper is told.
type job struct {
	Fleet  fleet
	Broker string
}

// report is what a grouper says of a lane that has made its first new batch.
type report struct {
	Lane, Records int
	Bytes         int64
	Seconds, CPU  float64
}

// kills ends the grouper of all lanes at the ends of epochs, with SIGKILL. Before it is started again, everything is
// deleted that `pairstream status --retention` calls free.
func kills(ctx context.Context, s sizes) (any, error) {
	f := s.fleet()
	log, err := f.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer log.end()
	t := f.newTrainer(log.Log)
	due := make(chan int, f.Epochs)
	last := -1
	t.took = func(b *schemas.Batch) {
		if int(b.Epoch) > last && b.Sequence == b.Batches-1 {
			last = int(b.Epoch)
			due <- last + 1
		}
	}
	var out []Kill
	err = f.run(ctx, log.Log, t, func(ctx context.Context) error {
		child, err := startGrouper(ctx, job{f, log.Config().Brokers[0]})
		if err != nil {
			return err
		}
		defer func() { child.kill() }()
		for {
			select {
			case <-ctx.Done():
				return nil
			case epoch := <-due:
				if !s.killsIn(epoch) {
					continue
				}
				child.kill()
				k, next, err := f.again(ctx, log, epoch)
				if err != nil {
					return fmt.Errorf("a kill in epoch %d: %w", epoch, err)
				}
				child, out = next, append(out, k)
				s.say("kills: epoch %d: %.0f records, %.1f MB a lane, %.2f s after the lane was taken up, %.2f s after the kill, %.2f s of processor; %.1f epochs of features kept",
					epoch, k.Records, k.Bytes/1e6, k.Seconds, k.Down, k.CPU, k.Kept)
			}
		}
	})
	return out, err
}

// again deletes what may go, starts another grouper, and waits for its reports.
func (f fleet) again(ctx context.Context, log *cluster, epoch int) (k Kill, child *groupingChild, err error) {
	killed := time.Now()
	k.Epoch = epoch
	if k.Deleted, k.Kept, err = f.deleteFree(ctx, log); err != nil {
		return k, nil, err
	}
	child, err = startGrouper(ctx, job{f, log.Config().Brokers[0]})
	if err != nil {
		return k, nil, err
	}
	for range f.Crawl.Lanes {
		select {
		case r, ok := <-child.reports:
			if !ok {
				return k, child, fmt.Errorf("the grouper has ended: %w", child.wait())
			}
			k.Records += float64(r.Records) / float64(f.Crawl.Lanes)
			k.Bytes += float64(r.Bytes) / float64(f.Crawl.Lanes)
			k.Seconds, k.CPU = max(k.Seconds, r.Seconds), max(k.CPU, r.CPU)
		case <-ctx.Done():
			return k, child, ctx.Err()
		}
	}
	k.Down = time.Since(killed).Seconds()
	return k, child, nil
}

// deleteFree deletes what may be deleted of the topics that grow with the epochs. It returns how many epochs of
// features are left.
func (f fleet) deleteFree(ctx context.Context, log *cluster) (deleted int64, kept float64, err error) {
	r, err := inspect.CollectRetention(ctx, log.Log, time.Now())
	if err != nil {
		return 0, 0, err
	}
	for _, n := range r.Lanes {
		if n.TooLate {
			return 0, 0, fmt.Errorf("%s, lane %d: the %s needs what was deleted", n.Topic, n.Lane, n.By)
		}
		if n.Topic == schemas.Features {
			kept += float64(n.End-n.First) / float64(f.Crawl.Lanes) / float64(f.Crawl.Pairs/f.Batch)
		}
		if n.Topic != schemas.Features && n.Topic != schemas.Batches && n.Topic != schemas.Scored {
			continue
		}
		deleted += n.Free
		if err := kafka.DeleteRecords(ctx, log.Config().Brokers, n.Topic.Name(r.Namespace), n.Lane, n.First); err != nil {
			return deleted, kept, err
		}
	}
	return deleted, kept, nil
}

// groupingChild is a process that groups all lanes.
type groupingChild struct {
	cmd     *exec.Cmd
	reports chan report
	once    sync.Once
	err     error
}

func startGrouper(ctx context.Context, j job) (*groupingChild, error) {
	raw, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g := &groupingChild{cmd: exec.CommandContext(ctx, self, childCommand, string(raw)), reports: make(chan report, j.Fleet.Crawl.Lanes)}
	g.cmd.Stderr = os.Stderr
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(g.reports)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var r report
			if json.Unmarshal(lines.Bytes(), &r) == nil {
				g.reports <- r
			}
		}
	}()
	return g, nil
}

// kill ends the process at once.
func (g *groupingChild) kill() {
	if g == nil {
		return
	}
	_ = g.cmd.Process.Kill() // it may have ended
	_ = g.wait()             // it was killed
}

func (g *groupingChild) wait() error {
	g.once.Do(func() { g.err = g.cmd.Wait() })
	return g.err
}

// lastBatch returns the seq of the last batch of a lane, also when all were deleted.
func lastBatch(ctx context.Context, log *stream.Log, lane int) (int64, error) {
	last, err := log.LastSeq(ctx, schemas.Batches, lane)
	if !errors.Is(err, stream.ErrGap) {
		return last, err
	}
	kept, err := log.Kept(ctx)
	return kept[stream.KeptPlace{Stage: service.Name, Topic: schemas.Batches, Lane: lane}], err
}

// serve is the process of a grouper. It says what each lane has read when that makes its first new batch.
func serve(ctx context.Context, raw string, out io.Writer) error {
	var j job
	if err := json.Unmarshal([]byte(raw), &j); err != nil {
		return err
	}
	log, err := j.Fleet.open(ctx, j.Broker)
	if err != nil {
		return err
	}
	defer log.Close()
	spec, err := j.Fleet.grouper(ctx, log)
	if err != nil {
		return err
	}
	reports := make(chan report)
	newStage := spec.New
	spec.New = func(lane int, state []byte) (stream.Stage, error) {
		begun := time.Now()
		last, err := lastBatch(ctx, log, lane)
		if err != nil {
			return nil, err
		}
		core, err := newStage(lane, state)
		return &counting{Stage: core, last: last, lane: lane, begun: begun, reports: reports}, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	var all errgroup.Group
	all.Go(func() error {
		defer stop()
		return log.Run(running, spec)
	})
	for lines := json.NewEncoder(out); ; {
		select {
		case r := <-reports:
			if err := lines.Encode(r); err != nil {
				stop()
			}
		case <-running.Done():
			return all.Wait()
		}
	}
}

// counting counts what a stage reads until it makes its first record that is not in the log.
type counting struct {
	stream.Stage
	last    int64 // seq of the last record in the log
	lane    int
	begun   time.Time
	records int
	bytes   int64
	said    bool
	reports chan<- report
}

// Process implements [stream.Stage].
func (c *counting) Process(ctx context.Context, rec stream.Record, out stream.Output) error {
	c.records++
	c.bytes += int64(len(rec.Value))
	return c.Stage.Process(ctx, rec, &noticing{out, c, rec})
}

// Close implements [io.Closer].
func (c *counting) Close() error {
	if closer, ok := c.Stage.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// noticing notices the first new record.
type noticing struct {
	stream.Output
	c   *counting
	rec stream.Record
}

// Emit implements [stream.Output].
func (n *noticing) Emit(topic schemas.Topic, rec schemas.Record, resume stream.Mark) error {
	if c := n.c; !c.said && n.Before(n.rec, nil).Seqs[0].Seq > c.last {
		c.said = true
		c.reports <- report{c.lane, c.records, c.bytes, time.Since(c.begun).Seconds(), machine.ProcessorTime().Seconds()}
	}
	return n.Output.Emit(topic, rec, resume)
}
