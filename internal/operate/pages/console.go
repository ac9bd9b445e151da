// Package pages shows a run as web pages: the console, which serves them, and the report, which is one file.
package pages

import (
	"context"
	"fmt"
	"net"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/operate/console/index"
)

// Serve serves the console until ctx ends. o holds the options that depend on stages in the same process.
func Serve(ctx context.Context, log *stream.Log, s Settings, listener net.Listener, o console.Options) error {
	err := withIndex(ctx, log, s, o, func(o console.Options) error {
		server, err := console.New(o, listener)
		if err != nil {
			return err
		}
		return server.Run(ctx)
	})
	_ = listener.Close() // the server closes it, unless it never started
	return err
}

// withIndex opens the index and the images of the console, and calls do with them.
func withIndex(ctx context.Context, log *stream.Log, s Settings, o console.Options, do func(console.Options) error) error {
	if err := log.EnsureTopics(ctx); err != nil { // the topic judgements may be missing
		return err
	}
	o.Settings, o.Log, o.GroupSize = s.Console, log, s.Group.GroupSize
	o.High, o.Low, o.LiveToken = s.Shown.High, s.Shown.Low, s.Shown.LiveToken
	if len(s.Shown.Roots) > 0 {
		bucket, err := shard.OpenBucket(ctx, s.Shown.Roots, nil)
		if err != nil {
			return fmt.Errorf("BUCKET_ROOTS: %w", err)
		}
		defer bucket.Close()
		o.Images = shard.NewImages(bucket, shard.ImagesOptions{MaxBytes: consoleImages})
	}
	x, err := index.Open(ctx, log, index.Options{Dir: s.Console.Dir, Pairs: s.Console.IndexPairs, High: o.High, Low: o.Low})
	if err != nil {
		return err
	}
	defer x.Close()
	o.Index = x
	return do(o)
}

// consoleImages bounds the decoded images that the console keeps besides thumbnails.
const consoleImages = 32 << 20
