package stream

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
	maxFetchBytes = 1 << 20                // a broker still returns a larger batch when it is the first
	stallAfter    = 10 * time.Second       // without a record fetched, though there are records to fetch
	maxBadSums    = 3                      // times that a batch is read whose checksum does not match
)

// fetcher reads one lane of a topic ahead of its user, within a budget of bytes. It knows nothing of seqs.
type fetcher struct {
	log         *Log
	topic       schemas.Topic
	lane        int
	instruments *instruments

	expect  int // how many records the last fetch had
	badSums int // how many fetches in a row began with a checksum that does not match

	high   atomic.Int64 // offset after the last record that the broker has, as of the last fetch
	passed atomic.Int64 // offset after all that was put into chunk or passed over

	mu     sync.Mutex
	budget int64    // most bytes to hold, besides one fetch
	chunk  []Record // read, not yet taken
	bytes  int64    // in chunk and in what was taken last
	failed error

	ready  chan struct{} // signals that chunk or failed has changed
	space  chan struct{} // signals that bytes has shrunk
	cancel context.CancelFunc
	done   chan struct{}
}

func (l *Log) startFetcher(topic schemas.Topic, lane int, offset, budget int64, m *instruments) *fetcher {
	ctx, cancel := context.WithCancel(context.Background()) // ends with close: a reader outlives the call that opened it
	f := &fetcher{
		log: l, topic: topic, lane: lane, budget: budget, instruments: m,
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

// close stops the fetcher. It forgets what it read ahead.
func (f *fetcher) close() {
	f.cancel()
	<-f.done
	f.instruments.addBytes(-f.bytes)
	f.bytes = 0
}

// take returns what was read since the last take, and frees the budget of the records taken before. It returns
// nothing when nothing is at hand.
func (f *fetcher) take() ([]Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.chunk
	f.chunk = nil
	freed := f.bytes - size(got)
	f.bytes -= freed
	f.instruments.addBytes(-freed)
	signal(f.space)
	if len(got) == 0 {
		return nil, f.failed
	}
	return got, nil
}

func size(records []Record) int64 {
	var n int64
	for i := range records {
		n += records[i].size()
	}
	return n
}

const (
	recordOverhead = 256     // what a record takes besides its bytes, roughly
	headerOverhead = 64      // what a header takes besides its bytes
	batchRoom      = 1 << 20 // how much larger than a record a decompressed batch may be
)

func (r *Record) size() int64 {
	n := int64(len(r.Value)) + int64(len(r.key)) + recordOverhead
	for _, h := range r.headers {
		n += int64(len(h.Key)) + int64(len(h.Value)) + headerOverhead
	}
	return n
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (f *fetcher) run(ctx context.Context, offset int64) error {
	var pause backoff
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
			return fmt.Errorf("reading %s, lane %d, from offset %d: %w", f.log.name(f.topic), f.lane, offset, err)
		case err != nil:
			pause.warn(f.log.logger, "fetching "+f.log.name(f.topic), err)
			if pause.tries == reconnectAfter {
				f.log.reconnect("fetching fails")
			}
			if err := pause.wait(ctx); err != nil {
				return err
			}
			continue
		}
		pause.reset()
		if next == offset && f.high.Load() > offset {
			if time.Since(lastRecord) > stallAfter {
				f.log.reconnect("a fetch returns nothing although there are records")
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

// idle reports whether there is nothing to take.
func (f *fetcher) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.chunk) == 0
}

func (f *fetcher) put(records []Record) {
	n := size(records)
	f.mu.Lock()
	if len(f.chunk) == 0 {
		f.chunk = records
	} else {
		f.chunk = append(f.chunk, records...)
	}
	f.bytes += n
	f.mu.Unlock()
	f.instruments.addBytes(n)
}

// setBudget changes the most bytes to hold.
func (f *fetcher) setBudget(budget int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.budget = budget
	signal(f.space)
}

// fetchBytes returns the number of bytes to ask for at once.
func (f *fetcher) fetchBytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(maxFetchBytes, max(f.budget, 1))
}

func (f *fetcher) waitForSpace(ctx context.Context) error {
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

// fetch reads the records at offset and after. It returns as next the offset after them, which lies further when
// fetch passed over control batches.
func (f *fetcher) fetch(ctx context.Context, offset int64) (records []Record, next int64, err error) {
	rctx, cancel := context.WithTimeout(ctx, fetchWait+f.log.cfg.RequestTimeout)
	defer cancel()
	resp, err := f.log.fetchRaw(rctx, f.log.name(f.topic), f.lane, offset, f.fetchBytes())
	if err != nil {
		return nil, offset, err
	}
	f.high.Store(resp.LastStableOffset)
	d := batchDecoder{
		topic: f.topic, lane: f.lane, offset: offset, limit: f.log.cfg.MaxMessageBytes + batchRoom,
		trusted: f.badSums >= maxBadSums, aborted: resp.AbortedTransactions, records: make([]Record, 0, min(f.expect, maxDecodedBytes/recordOverhead)),
	}
	if err := d.decode(resp.Records); err != nil && d.offset == offset {
		if errors.Is(err, errSum) {
			f.badSums++
		}
		return nil, offset, err
	}
	f.badSums = 0
	f.expect = len(d.records)
	return d.records, d.offset, nil
}
