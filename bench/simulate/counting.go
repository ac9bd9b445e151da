package main

import (
	"context"
	"io"
	"time"

	"github.com/pairstream/pairstream/internal/machine"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

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
