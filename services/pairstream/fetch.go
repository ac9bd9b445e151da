package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/crawl/fetch"
	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
)

type fetchJob struct {
	fetch.Options
	columns table.Columns
	out     string
	publish bool
}

func newFetchCommand() *cobra.Command {
	var j fetchJob
	cmd := &cobra.Command{
		Use: "fetch LIST",
		Long: "Downloads the images that a list names (.parquet, .csv, .tsv, .jsonl or .json, or a folder of these) into WebDataset tars\n" +
			"as img2dataset writes them, and publishes each tar when it is complete. It knows the columns of LAION, COYO, DataComp, WIT\n" +
			"and RedCaps. Where the first line of CSV or TSV is a row already, as in CC3M and CC12M, numbers name the columns:\n" +
			"--url-col=2 --caption-col=1.\n\n" +
			"It refuses addresses of private networks, also after redirects. It honours robots.txt and X-Robots-Tag (noai, noimageai,\n" +
			"noindex, noimageindex).\n\n" +
			"'LIST?sample=0.25&seed=7' downloads a quarter of the rows, drawn by the seed.\n" +
			"An interrupted run continues with the first tar that is not complete. Video and audio are not downloaded.",
		Args: wantArgs(1, 1),
	}
	f := cmd.Flags()
	f.StringVar(&j.out, "out", "", "folder or URL such as s3://bucket/prefix/ for the tars")
	f.BoolVar(&j.publish, "publish", false, "publish the tars; the default is to publish if KAFKA_BROKERS is set")
	f.StringVar(&j.columns.URL, "url-col", "", "column of the addresses (default: as data sets are published: image_url, url, ...)")
	f.StringVar(&j.columns.Caption, "caption-col", "", "column of the captions (default: caption, text, ...)")
	f.IntVar(&j.PerShard, "per-shard", 10_000, "rows of a tar")
	f.IntVar(&j.Threads, "threads", 32, "simultaneous downloads, besides slow ones that wait")
	f.DurationVar(&j.Timeout, "timeout", 30*time.Second, "longest time of a download")
	f.Int64Var(&j.MaxBytes, "max-bytes", 16<<20, "limit of the bytes of an image")
	f.IntVar(&j.Redirects, "redirects", 5, "limit of the redirects of a download")
	f.IntVar(&j.PerHost, "per-host", 4, "downloads from one host at once")
	f.Float64Var(&j.HostRate, "host-rate", 10, "requests for images to one host, a second")
	f.StringVar(&j.UserAgent, "user-agent", "pairstream/1", "name that servers see; rules in robots.txt apply to the part before the slash")
	f.BoolVar(&j.IgnoreRobots, "ignore-robots", false, "ignore robots.txt and X-Robots-Tag, for your own servers")
	f.StringVar(&j.Proxy, "proxy", "", "proxy of all requests, such as http://proxy.example.org:3128; HTTP_PROXY and the like are not used")
	f.BoolVar(&j.AllowLoopback, "allow-loopback", false, "also download from 127.0.0.1, for your own servers on this machine")
	require(cmd, "out")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !f.Changed("publish") {
			j.publish = config.Environ()["KAFKA_BROKERS"] != ""
		}
		return j.run(cmd, args[0])
	}
	return cmd
}

// open opens the place of the tars, and returns how paths name them.
func (j *fetchJob) open(ctx context.Context) (store fetch.Store, tar func(shard int) string, stop func() error, err error) {
	out := places([]string{j.out})[0]
	place, err := shard.OpenPlace(ctx, out, nil)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("--out=%s: %w", j.out, err)
	}
	if folder, ok := place.(shard.Folder); ok {
		return place, func(n int) string { return filepath.Join(string(folder), fetch.Name(n, ".tar")) }, place.Close, nil
	}
	root, err := url.Parse(out)
	return place, func(n int) string { return root.JoinPath(fetch.Name(n, ".tar")).String() }, place.Close, err
}

func (j *fetchJob) run(cmd *cobra.Command, path string) (err error) {
	ctx := cmd.Context()
	if err := j.Validate(); err != nil {
		return err
	}
	list, err := table.Open(ctx, path, j.columns)
	if err != nil {
		return err
	}
	said := cmd.ErrOrStderr()
	if list.URL != j.columns.URL || list.Caption != j.columns.Caption {
		fmt.Fprintf(said, "addresses are in column %q (--url-col), captions in %q (--caption-col)\n", list.URL, list.Caption)
	}
	if name := unusedProxy(); name != "" && j.Proxy == "" {
		fmt.Fprintf(said, "%s is set, and is not used: --proxy sends requests through a proxy\n", name)
	}
	store, tar, stop, err := j.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	published := func(context.Context, string) error { return nil }
	if j.publish {
		var end func() error
		if published, end, err = openPublishing(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	o := j.Options
	o.SetAside = func(host string, pause time.Duration) {
		fmt.Fprintf(said, "%s has timed out too often, or asks for a pause: it is set aside for %s\n", host, pause)
	}
	sum, before := fetch.Stats{Reasons: map[string]int{}}, 0
	err = fetch.Run(ctx, list, o, store, func(ctx context.Context, n int, s *fetch.Stats) error {
		if s == nil {
			before++
			return published(ctx, tar(n)) // the run before may have ended between the two
		}
		sum.Rows, sum.Success = sum.Rows+s.Rows, sum.Success+s.Success
		for reason, k := range s.Reasons {
			sum.Reasons[reason] += k
		}
		fmt.Fprintf(said, "%s: %d of %d images\n", fetch.Name(n, ".tar"), s.Success, s.Rows)
		return published(ctx, tar(n))
	})
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "fetched %d images of %d rows\n", sum.Success, sum.Rows)
	if before > 0 {
		fmt.Fprintf(out, "  %6d  tars were complete before\n", before)
	}
	for _, reason := range slices.Sorted(maps.Keys(sum.Reasons)) {
		fmt.Fprintf(out, "  %6d  %s\n", sum.Reasons[reason], reason)
	}
	return err
}

// unusedProxy returns the variable that names a proxy, or "".
func unusedProxy() string {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		if os.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

// openPublishing returns a function that publishes what is new of a tar.
func openPublishing(ctx context.Context) (publish func(context.Context, string) error, end func() error, err error) {
	log, err := rundir.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := log.EnsureTopics(ctx, producerTopics...); err != nil {
		log.Close()
		return nil, nil, err
	}
	publisher := log.NewPublisher(stream.PublisherOptions{Name: "producer"})
	notes := producer.Remember(onlog.New(log, publisher))
	publish = func(ctx context.Context, tar string) error {
		o := dataset.ProduceOptions{Lanes: log.Config().Lanes, Arriving: func(shard.Tar) bool { return true }}
		_, _, err := dataset.Produce(ctx, []string{tar}, o, notes)
		return err
	}
	return publish, func() error {
		defer log.Close()
		return producer.ClosePublisher(publisher)
	}, nil
}
