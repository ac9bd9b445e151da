//go:build cgo

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/console"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/stream"
)

// startConsole serves the console beside the stages and prints its address. The stages do not need it: when it cannot
// start, or ends, the log says why and they go on.
func startConsole(ctx context.Context, out io.Writer, log *stream.Log, rt service.Runtime, p pipeline, s *stages, dir string) (stop func()) {
	if p.Console.Off() {
		return func() {}
	}
	logger := rt.Log.With("stage", "console")
	listener, err := console.Listen(p.Console)
	if err != nil {
		logger.Warn("there is no console", "err", err)
		return func() {}
	}
	fmt.Fprintf(out, "console: %s\n", console.Address(listener))
	return beside(ctx, logger, "the console", func(ctx context.Context) error {
		o := console.Options{Logger: logger, Embedder: s.queries, Busy: func() map[string]time.Duration { return rt.Ready.Busy() }}
		return runConsole(ctx, log, p.forConsole(dir), listener, o)
	})
}

// forConsole returns what the console needs to know of the settings of the stages beside it.
func (p pipeline) forConsole(dir string) consoleSettings {
	ecm := p.Trainer.Options().ECM
	s := consoleSettings{
		Console: p.Console, Group: groupSettings{GroupSize: p.Indexer.Options().GroupSize},
		Shown: shownSettings{Roots: p.Encoder.Bucket.Roots, High: ecm.High, Low: ecm.Low, LiveToken: p.Indexer.LiveToken},
	}
	s.Console.Dir = consoleDir(config.Environ(), s.Console.Dir, dir)
	if host, port, err := net.SplitHostPort(p.Indexer.LiveAddr); err == nil && s.Console.LiveURL == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		s.Console.LiveURL = "http://" + net.JoinHostPort(host, port)
	}
	return s
}
