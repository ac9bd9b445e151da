package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/crawl/fetch"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/schemas"
)

const (
	fetchRowName  = "fetch" // its Python packages are no packages of Debian: a short run of all rows leaves it out
	fetchPhotos   = 128     // different ones
	fetchThreads  = 64      // downloads at once, of either side
	fetchPerShard = 500
)

// fetchRow downloads a list into tars, beside img2dataset. A third process plays the web.
func fetchRow(ctx context.Context, b *bench) (out *Result, err error) {
	n := b.size(2000, 200)
	j := job{Folder: filepath.Join(b.folder, fetchRowName), Options: map[string]float64{
		"images": float64(n), "threads": fetchThreads, "per_shard": fetchPerShard,
	}}
	if err := os.MkdirAll(j.Folder, 0o755); err != nil {
		return nil, err
	}
	bytesEach, err := writePhotos(j, min(n, fetchPhotos))
	if err != nil {
		return nil, err
	}
	web, err := b.ours(ctx, "web", j)
	if err != nil {
		return nil, err
	}
	defer closing(web, &err)
	out, err = duel{
		size:    fmt.Sprintf("%s JPEGs of %.0f KB from loopback, tars of %d, %d downloads at once", thousands(n), bytesEach/1000, fetchPerShard, fetchThreads),
		against: "img2dataset, resize_mode=no, skip_reencode, without its start", bound: "HTTP on loopback, and the server's share of the processors", least: 1,
		kind: fetchRowName, programs: []program{{script: "fetch_img2dataset.py"}}, oneHome: b.fetcher, job: j, unit: "images/s", warmUp: min(1, b.repeats-1), higher: true,
		value: func(a answer) float64 { return float64(n) / a.Seconds },
		check: func(ours, _ answer) ([]string, error) {
			return []string{fmt.Sprintf("both have the same %.0f images with the same captions", ours.Values["images"])}, nil
		},
	}.run(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("%w (`make bench` installs img2dataset; --fetcher names its Python)", err)
	}
	out.Notes = []string{fmt.Sprintf("a client that throws the bodies away gets %.0f images/s from the same server", out.Extra["bare"])}
	return out, nil
}

// newWebWorker serves pictures at /0.jpg, /1.jpg and so on, from memory. It writes the list of their addresses.
func newWebWorker(_ context.Context, j job) (worker, error) {
	n := j.option("images")
	var photos [][]byte
	for i := range min(n, fetchPhotos) {
		raw, err := os.ReadFile(photoFile(j, i))
		if err != nil {
			return nil, err
		}
		photos = append(photos, raw)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		i, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/"), ".jpg"))
		if err != nil || i < 0 || i >= n {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "image/jpeg")
		_, _ = rw.Write(photos[i%len(photos)]) // who does not get it counts it
	})}
	go func() { _ = server.Serve(l) }() // until the end
	var list strings.Builder
	list.WriteString("url,caption\n")
	for i := range n {
		fmt.Fprintf(&list, "http://%s/%d.jpg,a picture of noise with the number %d\n", l.Addr(), i, i)
	}
	return worker{atEnd: ending(server.Close)}, os.WriteFile(j.path("list.csv"), []byte(list.String()), 0o644)
}

// fetchWorker is pairstream's side.
type fetchWorker struct {
	job  job
	runs int
	out  string // of the last run
}

func newFetchWorker(_ context.Context, j job) (worker, error) {
	w := &fetchWorker{job: j}
	return worker{"run": w.run, "check": w.check}, nil
}

func (w *fetchWorker) run(ctx context.Context, _ *answer) error {
	w.runs++
	w.out = w.job.path(fmt.Sprintf("ours-%d", w.runs))
	o := fetch.Options{
		PerShard: w.job.option("per_shard"), Threads: w.job.option("threads"), Timeout: 30 * time.Second,
		MaxBytes: 16 << 20, Redirects: 5, PerHost: w.job.option("threads"), HostRate: 1e6, UserAgent: "pairstream/1", AllowLoopback: true,
	}
	list, err := table.Open(ctx, w.job.path("list.csv"), table.Columns{})
	if err != nil {
		return err
	}
	return fetch.Run(ctx, list, o, shard.Folder(w.out), func(context.Context, int, *fetch.Stats) error { return nil })
}

// check compares the tars of both sides. It measures what the server gives to a client that does nothing else.
func (w *fetchWorker) check(ctx context.Context, a *answer) error {
	ours, err := pairsIn(ctx, w.out)
	if err != nil {
		return err
	}
	theirs, err := pairsIn(ctx, w.job.path("img2dataset"))
	if err != nil {
		return err
	}
	if n := w.job.option("images"); len(ours) != n || len(theirs) != n {
		return fmt.Errorf("%d and %d images were fetched, want %d", len(ours), len(theirs), n)
	}
	for caption, image := range ours {
		if theirs[caption] != image {
			return fmt.Errorf("%q has another image", caption)
		}
	}
	a.Values["images"] = float64(len(ours))
	a.Values["bare"], err = w.bare(ctx)
	return err
}

func pairsIn(ctx context.Context, dir string) (map[string]schemas.ImageID, error) {
	found := map[string]schemas.ImageID{}
	_, err := shard.Scan(ctx, []string{dir}, shard.Visitor{
		Example: func(ex shard.Example) error {
			for _, caption := range ex.Captions {
				found[caption] = ex.ImageID
			}
			return nil
		},
		Problem: func(p shard.Problem) error { return fmt.Errorf("%v", p) },
	})
	return found, err
}

// bare downloads every image once and throws it away.
func (w *fetchWorker) bare(ctx context.Context) (perSecond float64, err error) {
	list, err := os.ReadFile(w.job.path("list.csv"))
	if err != nil {
		return 0, err
	}
	rows := strings.Split(strings.TrimSpace(string(list)), "\n")[1:]
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: fetchThreads}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	started := time.Now()
	var getting errgroup.Group
	for range fetchThreads {
		getting.Go(func() error {
			for i := next.Add(1) - 1; i < int64(len(rows)); i = next.Add(1) - 1 {
				address, _, _ := strings.Cut(rows[i], ",")
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
				if err != nil {
					return err
				}
				response, err := client.Do(r)
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, response.Body)
				if err = errors.Join(err, response.Body.Close()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = getting.Wait()
	return float64(len(rows)) / time.Since(started).Seconds(), err
}
