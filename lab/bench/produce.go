package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/crawl/shard/cloud"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

const (
	produceS3RowName = "produce-s3" // its server is no package of Debian: a short run of all rows leaves it out
	producePerTar    = 10_000
	produceImage     = 1200 // bytes
	produceGoal      = 100_000
	produceTars      = 30
	produceTarsShort = 2
)

func produceRow(ctx context.Context, b *bench) (*Result, error) {
	out, err := produced(ctx, b, "")
	if err != nil {
		return nil, err
	}
	out.Bound = "the processors: about three quarters of their time is scanning"
	out.Met = out.Ours.Value >= produceGoal
	return out, nil
}

func produceS3Row(ctx context.Context, b *bench) (*Result, error) {
	out, err := produced(ctx, b, b.s3)
	if err != nil {
		return nil, fmt.Errorf("%w (`make bench` builds versitygw; --s3 names it)", err)
	}
	out.Bound = "the processors, which the S3 server shares"
	out.Met = true // there is nothing to reach
	out.Notes = []string{fmt.Sprintf("a listing of the prefix takes %.1f ms of it", out.Extra["listing_ms"])}
	return out, nil
}

func produced(ctx context.Context, b *bench, server string) (*Result, error) {
	tars := b.size(produceTars, produceTarsShort)
	pairs := tars * producePerTar
	j := job{Folder: filepath.Join(b.folder, "produce"), Server: server, Options: map[string]float64{"tars": float64(tars)}}
	if server != "" {
		j.Folder += "-s3"
	}
	if err := os.MkdirAll(j.Folder, 0o755); err != nil {
		return nil, err
	}
	answers, err := b.alone(ctx, "produce", j, min(1, b.repeats-1))
	if err != nil {
		return nil, err
	}
	out := &Result{
		Size:    fmt.Sprintf("%s pairs in %d tars, images of %.1f KB, %d lanes, embedded broker", thousands(pairs), tars, produceImage/1000., plumbingLanes),
		Against: "none", Unit: "pairs/s", Ours: figure(answers, func(a answer) float64 { return float64(pairs) / a.Seconds }),
		Checks: []string{"every pair on the log, once"}, Extra: medians(answers, ""),
	}
	out.Extra["cpu_us_per_pair"] = out.Ours.CPU / float64(pairs) * 1e6
	return out, nil
}

// produceWorker publishes the same tars in every turn, to a log that is new.
type produceWorker struct {
	job job
	turnLog
	place  string
	server *exec.Cmd
}

func newProduceWorker(ctx context.Context, j job) (worker, error) {
	w := &produceWorker{job: j, place: j.path("buckets/crawl")}
	_, err := writeTars(w.place, j.option("tars"))
	if err == nil && j.Server != "" {
		cloud.Use()
		err = w.serve(ctx)
	}
	return worker{"run": w.run, "check": w.check, atEnd: ending(w.close)}, err
}

// writeTars makes a folder of tars and returns their paths.
func writeTars(folder string, tars int) (paths []string, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	for n := range tars {
		paths = append(paths, filepath.Join(folder, fmt.Sprintf("%05d.tar", n)))
		if err := writeTar(paths[n], n); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// writeTar writes small images, with a caption and the columns that img2dataset writes.
func writeTar(path string, n int) error {
	picture := make([]byte, produceImage)
	var buf bytes.Buffer
	t := shard.NewWriter(&buf)
	for i := range producePerTar {
		binary.LittleEndian.PutUint64(picture, uint64(n*producePerTar+i))
		meta := fmt.Appendf(nil, `{"url":"https://example.org/%d/%d.jpg","width":256,"height":256,"similarity":0.31,"punsafe":0.001}`, n, i)
		if _, err := t.Write(fmt.Sprintf("%09d", i), shard.File{Ext: "jpg", Data: picture},
			shard.File{Ext: "txt", Data: fmt.Appendf(nil, "a photograph of number %d in tar %d", i, n)}, shard.File{Ext: "json", Data: meta}); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, buf.Bytes(), 0o600)
}

// serve starts the S3 server.
func (w *produceWorker) serve(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	const name, secret = "bench", "not-a-secret"
	if err := errors.Join(os.Setenv("AWS_ACCESS_KEY_ID", name), os.Setenv("AWS_SECRET_ACCESS_KEY", secret)); err != nil {
		return err
	}
	w.server = exec.CommandContext(ctx, w.job.Server, "--quiet", "--port", addr, "--access", name, "--secret", secret, "posix", w.job.path("buckets"))
	w.server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := w.server.Start(); err != nil {
		return err
	}
	w.place = "s3://crawl/?" + url.Values{"endpoint": {"http://" + addr}, "region": {"us-east-1"}, "use_path_style": {"true"}}.Encode()
	for range 100 {
		var d net.Dialer
		if conn, err := d.DialContext(ctx, "tcp", addr); err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s does not answer at %s", w.job.Server, addr)
}

// close ends the server and the broker.
func (w *produceWorker) close() error {
	err := w.turnLog.close()
	if w.server != nil {
		err = errors.Join(err, w.server.Process.Kill())
	}
	return err
}

func (w *produceWorker) run(ctx context.Context, a *answer) error {
	if err := w.renew(ctx, w.job.Folder); err != nil {
		return err
	}
	started := time.Now()
	publisher := w.last.NewPublisher(stream.PublisherOptions{})
	_, _, err := dataset.Produce(ctx, []string{w.place}, dataset.ProduceOptions{Lanes: plumbingLanes}, onlog.New(w.last, publisher))
	err = errors.Join(err, publisher.Close(ctx))
	a.Seconds = time.Since(started).Seconds()
	if err != nil || w.server == nil {
		return err
	}
	listing := time.Now()
	found, err := shard.Find(ctx, []string{w.place}, nil)
	if err != nil {
		return err
	}
	a.Values["listing_ms"] = float64(time.Since(listing).Microseconds()) / 1000
	return found.Close()
}

// check reads what the last turn has published.
func (w *produceWorker) check(ctx context.Context, _ *answer) error {
	seen := map[schemas.PairID]bool{}
	n := 0
	for lane := range plumbingLanes {
		for p, err := range stream.Values[*schemas.Pair](ctx, w.last, schemas.Pairs, lane) {
			if err != nil {
				return err
			}
			seen[p.ID] = true
			n++
		}
	}
	if want := w.job.option("tars") * producePerTar; n != want || len(seen) != want {
		return fmt.Errorf("%d records of %d pairs, want %d", n, len(seen), want)
	}
	return nil
}
