package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

const (
	plumbingLanes      = 4
	recordBytes        = 1000
	plumbingGoal       = 100_000
	plumbingPairs      = 300_000
	plumbingPairsShort = 20_000
)

// plumbingRow sends pairs through stages over the embedded broker, and in turns over one of Apache Kafka where its jars
// are.
func plumbingRow(ctx context.Context, b *bench) (out *Result, err error) {
	pairs := b.size(plumbingPairs, plumbingPairsShort)
	j := job{Options: map[string]float64{"pairs": float64(pairs)}}
	j.Server, err = kafkaJars()
	if err != nil {
		return nil, err
	}
	version, err := kafkaVersion(j.Server)
	if err != nil && !b.short {
		return nil, err
	}
	kinds := []string{"plumbing", "plumbing-kafka"}
	if err != nil {
		kinds = kinds[:1]
	}
	var sides []*side
	for _, kind := range kinds {
		s, err := b.ours(ctx, kind, j)
		if err != nil {
			return nil, err
		}
		defer closing(s, &err)
		sides = append(sides, s)
	}
	answers, err := race(min(1, b.repeats-1), b.repeats, "run", sides...)
	if err != nil {
		return nil, err
	}
	for _, s := range sides {
		if _, err := s.ask("check"); err != nil {
			return nil, err
		}
	}
	d := duel{unit: "pairs/s", higher: true, value: func(a answer) float64 { return float64(pairs) / a.Seconds }}
	if len(sides) == 1 {
		out = &Result{Against: "none", Unit: d.unit, Ours: figure(answers[0], d.value)}
	} else {
		out = d.compare(answers[0], answers[1])
		out.Against = "Apache Kafka " + version + ", one broker, its default flush settings: it acknowledges before the disk has the record"
		out.Tried = []Entrant{{Home: "Maven", Program: "Apache Kafka", About: map[string]string{"kafka": version}, Value: out.Peer.Value, CPU: out.Peer.CPU, Won: true}}
	}
	out.Size = fmt.Sprintf("%s pairs of 1 KB, %d lanes, embedded broker", thousands(pairs), plumbingLanes)
	out.Checks = []string{"every pair in scored, once and in order"}
	out.Bound = "the processors: the broker's files, allocating and copying"
	out.Extra = medians(answers[0], "")
	out.Extra["cpu_us_per_pair"] = out.Ours.CPU / float64(pairs) * 1e6
	out.Met = out.Ours.Value >= plumbingGoal
	return out, nil
}

// plumbingWorker sends pairs through four stages that only pass them on. Every turn has a broker and a folder of its
// own. A turn writes 1.5 GB; with the files of earlier turns beside it, the row would measure the disk.
type plumbingWorker struct {
	job job
	turnLog
}

func newPlumbingWorker(_ context.Context, j job) (worker, error) {
	w := &plumbingWorker{job: j}
	return worker{"run": w.run, "check": w.check, atEnd: ending(w.close)}, nil
}

// turnLog is the log of one turn, on an embedded broker of its own.
type turnLog struct {
	folder string
	broker *broker.Broker
	last   *stream.Log
}

// renew ends the broker of the last turn, removes its files, and starts another.
func (w *turnLog) renew(ctx context.Context, parent string) (err error) {
	if err := w.close(); err != nil {
		return err
	}
	if w.folder, err = os.MkdirTemp(parent, "broker-"); err != nil {
		return err
	}
	if w.broker, err = broker.Start(broker.Options{DataDir: w.folder}); err != nil {
		return err
	}
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Lanes = []string{w.broker.Addr()}, plumbingLanes
	if w.last, err = stream.Connect(ctx, cfg, stream.Options{}); err != nil {
		return err
	}
	return w.last.EnsureTopics(ctx)
}

// close ends the broker.
func (w *turnLog) close() (err error) {
	if w.last != nil {
		w.last.Close()
	}
	if w.broker != nil {
		err = w.broker.Close()
	}
	w.last, w.broker = nil, nil
	return errors.Join(err, os.RemoveAll(w.folder))
}

func (w *plumbingWorker) check(ctx context.Context, _ *answer) error {
	return passedOn(ctx, w.last, w.job.option("pairs"))
}

// chain lists the topics that the pairs go through.
var chain = []schemas.Topic{schemas.Pairs, schemas.Embeddings, schemas.Groups, schemas.Batches, schemas.Scored}

func (w *plumbingWorker) run(ctx context.Context, a *answer) error {
	if err := w.renew(ctx, w.job.Folder); err != nil {
		return err
	}
	if err := passOn(ctx, w.last, w.job.option("pairs"), a); err != nil {
		return err
	}
	size, err := logBytes(w.folder)
	a.Values["log_bytes"] = size
	return err
}

// logBytes returns the size of a broker's segments.
func logBytes(folder string) (size float64, err error) {
	segments, err := filepath.Glob(filepath.Join(folder, "log", "partitions", "*", "*.dat"))
	for _, path := range segments {
		info, serr := os.Stat(path)
		if serr != nil {
			return 0, serr
		}
		size += float64(info.Size())
	}
	return size, err
}

// passOn publishes n pairs, and waits until four stages have passed them on.
func passOn(ctx context.Context, l *stream.Log, n int, a *answer) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	var stages errgroup.Group
	counters := make([]stream.Counters, len(chain)-1)
	for i := range counters {
		in, out := chain[i], chain[i+1]
		spec := stream.StageSpec{
			Name: fmt.Sprint("stage-", i), Inputs: []schemas.Topic{in}, Outputs: []schemas.Topic{out}, Counters: &counters[i],
			New: func(int, []byte) (stream.Stage, error) { return passing{in, out}, nil },
		}
		stages.Go(func() error { return l.Run(running, spec) })
	}
	started := time.Now()
	err := publish(ctx, l, n)
	if err == nil {
		err = reached(ctx, &counters[len(counters)-1], int64(n))
	}
	a.Seconds = time.Since(started).Seconds()
	stop()
	return errors.Join(err, stages.Wait())
}

// publish writes pairs to the lanes in turn, with a number in their first bytes.
func publish(ctx context.Context, l *stream.Log, n int) error {
	p := l.NewPublisher(stream.PublisherOptions{})
	for i := range n {
		value := make([]byte, recordBytes)
		binary.LittleEndian.PutUint64(value, uint64(i))
		if err := p.PublishBytes(ctx, schemas.Pairs, i%plumbingLanes, schemas.SchemaPair, value); err != nil {
			return errors.Join(err, p.Close(ctx))
		}
	}
	return p.Close(ctx)
}

// reached waits until a stage has written n records.
func reached(ctx context.Context, c *stream.Counters, n int64) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for c.Out.Load() < n {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// passedOn reads what the last stage wrote of n pairs.
func passedOn(ctx context.Context, l *stream.Log, n int) error {
	for lane := range plumbingLanes {
		next := lane
		for rec, err := range l.Records(ctx, schemas.Scored, lane, stream.Position{}, -1) {
			if err != nil {
				return err
			}
			if got := int(binary.LittleEndian.Uint64(rec.Value)); got != next {
				return fmt.Errorf("lane %d of scored has pair %d, want %d", lane, got, next)
			}
			next += plumbingLanes
		}
		if next < n {
			return fmt.Errorf("lane %d of scored ends before pair %d", lane, next)
		}
	}
	return nil
}

// raw is a record of any bytes.
type raw struct {
	schema string
	value  []byte
}

// Schema implements [schemas.Record].
func (r raw) Schema() string { return r.schema }

// Validate implements [schemas.Record].
func (raw) Validate() error { return nil }

// EncodeMsgpack writes the bytes as they are.
func (r raw) EncodeMsgpack(e *msgpack.Encoder) error {
	_, err := e.Writer().Write(r.value)
	return err
}

// passing is a stage that passes records on.
type passing struct{ in, out schemas.Topic }

// Input implements [stream.Stage].
func (s passing) Input() schemas.Topic { return s.in }

// Process implements [stream.Stage].
func (s passing) Process(_ context.Context, rec stream.Record, out stream.Output) error {
	return out.Emit(s.out, raw{rec.Schema, rec.Value}, out.After(rec, nil))
}

// Flush implements [stream.Stage]; nothing is held back.
func (s passing) Flush(context.Context, stream.Output) error { return nil }
