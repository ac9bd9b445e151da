package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pairstream/pairstream/schemas"
)

const (
	fetchWait     = 500 * time.Millisecond // how long a broker holds a fetch that has nothing to return
	maxFetchBytes = 1 << 20                // a broker still returns a first batch that is larger
	stallAfter    = 10 * time.Second       // without a record, while the broker has some
	batchRoom     = 1 << 20                // allowance for a decompressed batch over the size of a record
	maxBadSums    = 3                      // reads of a batch whose checksum does not match
)

// Fetcher reads one lane of a topic ahead of its user, within a budget of bytes. It ignores seqs.
type Fetcher struct {
	client *Client
	topic  schemas.Topic
	lane   int
	held   func(bytes int64)

	expect  int // number of records of the last fetch
	badSums int // fetches in a row that began with a wrong checksum

	high   atomic.Int64 // offset after the last record that the broker has, as of the last fetch
	passed atomic.Int64 // offset after all records put into chunk or skipped

	mu     sync.Mutex
	budget int64    // most bytes to hold, besides one fetch
	chunk  []Record // read, not yet taken
	bytes  int64    // in chunk and in the records last taken
	failed error

	ready  chan struct{} // signals that chunk or failed has changed
	space  chan struct{} // signals that bytes has shrunk
	cancel context.CancelFunc
	done   chan struct{}
}

// Fetch begins to read a lane from an offset. It calls held with every change of the bytes that the fetcher holds,
// which may exceed the budget by one fetch.
func (c *Client) Fetch(topic schemas.Topic, lane int, offset, budget int64, held func(bytes int64)) *Fetcher {
	ctx, cancel := context.WithCancel(context.Background()) // ends with Close: a reader outlives the call that opened it
	f := &Fetcher{
		client: c, topic: topic, lane: lane, budget: budget, held: held,
		ready: make(chan struct{}, 1), space: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{}),
	}
	f.high.Store(-1)
	go func() {
		defer close(f.done)
		if err := f.run(ctx, offset); err != nil && ctx.Err() == nil {
			f.mu.Lock()
			f.failed = err
			f.mu.Unlock()
			signal(f.ready)
		}
	}()
	return f
}

// Move closes the fetcher, and returns one that starts at another offset.
func (f *Fetcher) Move(offset int64) *Fetcher {
	f.Close()
	return f.client.Fetch(f.topic, f.lane, offset, f.budget, f.held)
}

// Topic returns the fetcher's topic.
func (f *Fetcher) Topic() schemas.Topic { return f.topic }

// Lane returns the fetcher's lane.
func (f *Fetcher) Lane() int { return f.lane }

// Ready signals that there may be something new to take.
func (f *Fetcher) Ready() <-chan struct{} { return f.ready }

// High returns the offset after the last record that the broker has, as of the last fetch; -1 before the first.
func (f *Fetcher) High() int64 { return f.high.Load() }

// Passed returns the offset after everything that can be taken or was passed over.
func (f *Fetcher) Passed() int64 { return f.passed.Load() }

// Close stops the fetcher, and drops the records read ahead.
func (f *Fetcher) Close() {
	f.cancel()
	<-f.done
	f.held(-f.bytes)
	f.bytes = 0
}

// Take returns the records read since the last Take, and frees the budget of the records taken before. It does not
// wait.
func (f *Fetcher) Take() ([]Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.chunk
	f.chunk = nil
	freed := f.bytes - sizeOf(got)
	f.bytes -= freed
	f.held(-freed)
	signal(f.space)
	if len(got) == 0 {
		return nil, f.failed
	}
	return got, nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (f *Fetcher) run(ctx context.Context, offset int64) error {
	var pause Backoff
	lastRecord := time.Now()
	for {
		if err := f.waitForSpace(ctx); err != nil {
			return err
		}
		records, next, err := f.fetch(ctx, offset)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !passes(err):
			return fmt.Errorf("reading %s, lane %d, from offset %d: %w", f.client.Name(f.topic), f.lane, offset, err)
		case err != nil:
			if err := f.client.pause(ctx, &pause, "fetching "+f.client.Name(f.topic), "fetching fails", err); err != nil {
				return err
			}
			continue
		}
		pause.Reset()
		if next == offset && f.high.Load() > offset {
			if time.Since(lastRecord) > stallAfter {
				f.client.reconnect("a fetch returns nothing although there are records")
				lastRecord = time.Now()
			}
			continue
		}
		lastRecord = time.Now()
		offset = next
		if len(records) > 0 {
			f.put(records)
		}
		f.passed.Store(offset)
		signal(f.ready)
	}
}

// Idle reports whether no records are at hand.
func (f *Fetcher) Idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.chunk) == 0
}

func (f *Fetcher) put(records []Record) {
	n := sizeOf(records)
	f.mu.Lock()
	if len(f.chunk) == 0 {
		f.chunk = records
	} else {
		f.chunk = append(f.chunk, records...)
	}
	f.bytes += n
	f.mu.Unlock()
	f.held(n)
}

// SetBudget changes the most bytes to hold.
func (f *Fetcher) SetBudget(budget int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.budget = budget
	signal(f.space)
}

// fetchBytes returns the number of bytes to ask for at once.
func (f *Fetcher) fetchBytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(maxFetchBytes, max(f.budget, 1))
}

func (f *Fetcher) waitForSpace(ctx context.Context) error {
	for {
		f.mu.Lock()
		full := f.bytes >= f.budget
		f.mu.Unlock()
		if !full {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.space:
		}
	}
}

// fetch reads the records from offset on. It returns the offset after them and after any control batches as next.
func (f *Fetcher) fetch(ctx context.Context, offset int64) (records []Record, next int64, err error) {
	rctx, cancel := context.WithTimeout(ctx, fetchWait+f.client.cfg.PerRequest())
	defer cancel()
	resp, err := f.client.fetchRaw(rctx, f.client.Name(f.topic), f.lane, offset, f.fetchBytes())
	if err != nil {
		return nil, offset, err
	}
	f.high.Store(resp.LastStableOffset)
	d := batchDecoder{
		topic: f.topic, lane: f.lane, offset: offset, limit: f.client.cfg.MaxMessageBytes + batchRoom,
		trusted: f.badSums >= maxBadSums, aborted: resp.AbortedTransactions, records: make([]Record, 0, min(f.expect, maxDecodedBytes/recordOverhead)),
	}
	if err := d.decode(resp.RecordBatches); err != nil && d.offset == offset {
		if errors.Is(err, errSum) {
			f.badSums++
		}
		return nil, offset, err
	}
	f.badSums = 0
	f.expect = len(d.records)
	return d.records, d.offset, nil
}
