// Package fetch downloads the images of a list into WebDataset tars.
//
// A list has a URL and a caption in every row. Rows go into shards in their order: N.tar has the images with their
// captions and columns, N.parquet the outcome of every row, N_stats.json the counts. Fetch writes N_stats.json last: a
// shard that has it is complete, and a later run fetches any other shard again. So every row has one outcome, even when
// the run is killed.
//
// Fetch trusts no server. It connects only to addresses of the public internet, bounds sizes, times, redirects and
// requests, and obeys robots.txt and X-Robots-Tag.
package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/schemas"
)

// Options bound the downloads.
type Options struct {
	PerShard      int // rows of a shard
	Threads       int // downloads at once
	Timeout       time.Duration
	MaxBytes      int64
	Redirects     int
	PerHost       int     // downloads from one host at once
	HostRate      float64 // requests to one host a second
	UserAgent     string  // begins with our name in robots.txt
	IgnoreRobots  bool
	AllowLoopback bool   // treat 127.0.0.1 as public, for servers on this machine
	Proxy         string // URL of scheme http, https or socks5, or "". Requests to addresses inside a network never reach it

	// SetAside, if not nil, is called when a host gets no requests for a while: it has timed out too often, or asks for a
	// pause.
	SetAside func(host string, pause time.Duration)
}

// Validate returns every invalid option, joined.
func (o Options) Validate() error {
	var l invalid.List
	invalid.AtLeast(&l, "--per-shard", o.PerShard, 1)
	invalid.AtLeast(&l, "--threads", o.Threads, 1)
	invalid.AtLeast(&l, "--per-host", o.PerHost, 1)
	invalid.AtLeast(&l, "--redirects", o.Redirects, 0)
	invalid.Within(&l, "--max-bytes", o.MaxBytes, 1, int64(schemas.MaxImageBytes))
	invalid.Within(&l, "--host-rate", o.HostRate, 0.001, 1e6)
	err := l.Err()
	if o.Timeout <= 0 || o.UserAgent == "" {
		err = errors.Join(err, errors.New("--timeout must be above 0, and --user-agent must not be empty"))
	}
	_, wrong := o.proxy()
	return errors.Join(err, wrong)
}

// Store stores the files of shards. A file appears when it is complete.
type Store interface {
	Has(ctx context.Context, name string) (bool, error)
	Put(ctx context.Context, name string, from *os.File) error
}

// Stats counts the outcomes of rows. N_stats.json contains it.
type Stats struct {
	Rows    int            `json:"count"`
	Success int            `json:"successes"`
	Reasons map[string]int `json:"status_dict"` // of the others
}

// outcome is a row of N.parquet, with the column names of img2dataset.
type outcome struct {
	Key     string  `parquet:"key"`
	URL     string  `parquet:"url"`
	Caption string  `parquet:"caption"`
	Status  string  `parquet:"status"`
	Error   *string `parquet:"error_message"`
	SHA256  *string `parquet:"sha256"`
}

// fetched is the result for a row.
type fetched struct {
	row   table.Row
	image []chunk // in the spool
	err   error   // instead: a *failure
}

// Bounds of concurrent work. While the last rows of a shard wait for slow hosts, fetch continues with the next shards.
const (
	shardsAtOnce = 8
	// shardsWritten bounds the tars that are written at once, with an image in memory each.
	shardsWritten = 2
	// maxShardBytes ends a shard before its rows take more.
	maxShardBytes = 64 << 20
	// maxRowsBytes bounds the rows that wait.
	maxRowsBytes = 128 << 20
	// maxRowBytes bounds a row. Fetch drops the columns of a larger one.
	maxRowBytes = 1 << 20
)

// Run fetches all shards of a list that the store does not have. done is called for every shard, in order, with its
// number and its counts; counts are nil where the store had the shard.
func Run(ctx context.Context, list *table.List, o Options, store Store, done func(ctx context.Context, shard int, s *Stats) error) error {
	if err := o.Validate(); err != nil {
		return err
	}
	c, err := newClient(o)
	if err != nil {
		return err
	}
	defer c.http.CloseIdleConnections()
	if err := c.reachProxy(ctx); err != nil {
		return err
	}
	dispatching, stop := context.WithCancel(ctx)
	var dispatched sync.WaitGroup
	dispatched.Go(func() { c.dispatch(dispatching) })
	defer dispatched.Wait()
	defer stop()
	return c.shards(ctx, list, store, done)
}

// shards fetches the shards of a list, several at a time, and calls done for each in order.
func (c *client) shards(ctx context.Context, list *table.List, store Store, done func(ctx context.Context, shard int, s *Stats) error) error {
	working, ctx := errgroup.WithContext(ctx)
	working.SetLimit(shardsAtOnce)
	room := semaphore.NewWeighted(maxRowsBytes)
	before := make(chan struct{}) // closed when done has returned for the shard before
	close(before)
	err := readShards(ctx, list, c.o.PerShard, func(n int, rows []table.Row, size int64) error {
		if err := room.Acquire(ctx, size); err != nil {
			return err
		}
		turn, after := before, make(chan struct{})
		before = after
		working.Go(func() error {
			defer room.Release(size)
			s, err := c.shard(ctx, n, rows, list.Columns, store)
			if err != nil {
				return err
			}
			select {
			case <-turn:
			case <-ctx.Done():
				return ctx.Err()
			}
			defer close(after)
			return done(ctx, n, s)
		})
		return ctx.Err()
	})
	if failed := working.Wait(); failed != nil {
		return failed // it has ended the reading
	}
	return err
}

// readShards calls each with the rows of every shard of a list, and with the bytes that they take. A shard ends at
// --per-shard rows, or where its rows would take more than maxShardBytes. So the shards are a function of the list.
func readShards(ctx context.Context, list *table.List, perShard int, each func(number int, rows []table.Row, size int64) error) error {
	number := 0
	var rows []table.Row
	var size int64
	flush := func() error {
		part, taken := rows, size
		rows, size = nil, 0
		number++
		return each(number-1, part, taken)
	}
	err := list.Read(ctx, func(r table.Row) error {
		more := rowBytes(r)
		if more > maxRowBytes {
			r, more = nil, 0
		}
		if len(rows) == perShard || size+more > maxShardBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		rows, size = append(rows, r), size+more
		return nil
	})
	if err == nil && len(rows) > 0 {
		err = flush()
	}
	return err
}

// rowBytes estimates the memory of a row.
func rowBytes(r table.Row) int64 {
	size := int64(48)
	for name, value := range r {
		text, _ := value.(string)
		size += int64(64 + len(name) + len(text))
	}
	return size
}

// Name returns the name of a shard's file.
func Name(number int, suffix string) string { return fmt.Sprintf("%05d%s", number, suffix) }

// shard fetches the rows of a shard, unless the store has it.
func (c *client) shard(ctx context.Context, number int, rows []table.Row, of table.Columns, store Store) (*Stats, error) {
	mark := Name(number, "."+digest(rows, of)+".rows")
	if found, err := complete(ctx, store, number, mark); err != nil || found {
		return nil, err
	}
	if err := unclaimed(ctx, store, number, mark); err != nil {
		return nil, err
	}
	file, err := scratch()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s, outcomes, err := c.fill(ctx, number, rows, of, file)
	if err != nil {
		return nil, err
	}
	var report bytes.Buffer
	if err := parquet.Write(&report, outcomes, parquet.Compression(&parquet.Snappy)); err != nil {
		return nil, fmt.Errorf("writing the outcomes of shard %d: %w", number, err)
	}
	stats, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	// The mark comes first: without it, a table or a tar by these names is not ours. The table comes before the tar, since
	// a watcher publishes a tar as soon as it appears.
	err = putBytes(ctx, store, mark, nil)
	if err == nil {
		err = putBytes(ctx, store, Name(number, ".parquet"), report.Bytes())
	}
	if err == nil {
		err = store.Put(ctx, Name(number, ".tar"), file)
	}
	if err == nil {
		err = putBytes(ctx, store, Name(number, "_stats.json"), stats)
	}
	return s, err
}

// digest identifies the rows of a shard by their URLs and captions.
func digest(rows []table.Row, of table.Columns) string {
	h := sha256.New()
	for _, r := range rows {
		fmt.Fprintf(h, "%q %q\n", r.Text(of.URL), r.Text(of.Caption))
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// fill downloads the rows, each at its host's turn, and writes them in their order.
func (c *client) fill(ctx context.Context, number int, rows []table.Row, of table.Columns, file *os.File) (s *Stats, outcomes []outcome, err error) {
	images, err := newSpool()
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, images.close()) }()
	found, err := c.fetch(ctx, number, rows, of, images)
	if err != nil {
		return nil, nil, err
	}
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	defer func() { <-c.writing }()
	w := &shardWriter{of: of, tar: shard.NewWriter(file), images: images, stats: &Stats{Reasons: map[string]int{}}}
	for _, f := range found {
		if err := w.add(fmt.Sprintf("%05d%04d", number, w.stats.Rows), f); err != nil {
			return nil, nil, err
		}
	}
	return w.stats, w.outcomes, w.tar.Close()
}

// fetch queues the rows and waits until each has its image in the spool, or a reason why not.
func (c *client) fetch(ctx context.Context, number int, rows []table.Row, of table.Columns, to *spool) ([]fetched, error) {
	found := make([]fetched, len(rows))
	var left atomic.Int64
	left.Store(int64(len(rows)))
	ended, failed := make(chan struct{}), make(chan error, 1)
	for i, row := range rows {
		done := func(image []chunk, err error) {
			if _, local := errors.AsType[*localError](err); local {
				select {
				case failed <- err:
				default: // another row has failed before
				}
			}
			found[i] = fetched{row, image, err}
			if left.Add(-1) == 0 {
				close(ended)
			}
		}
		switch {
		case row == nil:
			done(nil, &failure{reasonRow, "the row cannot be read, or is too large"})
		case row.Text(of.Caption) == "":
			done(nil, &failure{reasonCaption, "the row has no caption"})
		default:
			c.get(&task{order: int64(number)<<32 | int64(i), to: to, done: done}, row.Text(of.URL))
		}
	}
	select {
	case err := <-failed:
		return nil, err
	case <-ended:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case err := <-failed:
		return nil, err
	default:
		return found, nil
	}
}

// shardWriter writes the outcomes of a shard.
type shardWriter struct {
	of       table.Columns
	tar      *shard.Writer
	images   *spool
	stats    *Stats
	outcomes []outcome
}

func (w *shardWriter) add(key string, from fetched) error {
	o := outcome{Key: key, URL: from.row.Text(w.of.URL), Caption: from.row.Text(w.of.Caption), Status: "success"}
	if reason := Reason(from.err); reason != "" {
		o.Status, o.Error = "failed_to_download", &reason
		w.stats.Reasons[reason]++
	} else {
		data, err := w.images.read(from.image)
		if err != nil {
			return err
		}
		o.SHA256 = new(fmt.Sprintf("%x", sha256.Sum256(data)))
		if err := w.write(key, o, from.row, data); err != nil {
			return err
		}
		w.stats.Success++
	}
	w.stats.Rows++
	w.outcomes = append(w.outcomes, o)
	return nil
}

func (w *shardWriter) write(key string, o outcome, row table.Row, data []byte) error {
	columns := maps.Clone(row)
	delete(columns, w.of.URL)
	delete(columns, w.of.Caption)
	columns["key"], columns["url"], columns["caption"], columns["status"], columns["sha256"] = key, o.URL, o.Caption, o.Status, *o.SHA256
	raw, err := json.Marshal(columns)
	if err != nil {
		return fmt.Errorf("encoding row %s: %w", key, err)
	}
	_, err = w.tar.Write(key, shard.File{Ext: shard.Extension(data), Data: data}, shard.File{Ext: "txt", Data: []byte(o.Caption)}, shard.File{Ext: "json", Data: raw})
	return err
}
