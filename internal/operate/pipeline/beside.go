package pipeline

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/crawl/ingest"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/operate/pages"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
)

// beside runs a server beside the stages, which do not need it. If the server ends before stop is called, beside logs
// why.
func beside(ctx context.Context, logger *slog.Logger, what string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := run(ctx)
		if ctx.Err() != nil {
			err = interrupt.Failure(err)
		}
		if err != nil {
			logger.Error("it has ended; the stages go on", keyWhat, what, keyErr, err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// StartIngest serves the HTTP front door beside the stages, if INGEST_ADDR is set. Since the user asked for it, a
// failure to start is an error.
func StartIngest(ctx context.Context, out io.Writer, log *stream.Log, rt service.Runtime, s ingest.Settings) (stop func(), err error) {
	if s.Addr == "" {
		return func() {}, nil
	}
	listener, err := ingest.Listen(s)
	if err != nil {
		return nil, err
	}
	server, err := ingest.OnLog(log, rt, s, listener)
	if err != nil {
		_ = listener.Close() // nothing was served
		return nil, err
	}
	fmt.Fprintf(out, "ingest: %s\n", server.Address())
	return beside(ctx, rt.Log.With(keyStage, ingest.Name), "the front door", server.Run), nil
}

// StartConsole serves the console beside the stages and prints its address. If it cannot start, or ends, the stages
// continue and the log has the reason.
func StartConsole(ctx context.Context, out io.Writer, log *stream.Log, rt service.Runtime, p Settings, s *Stages, dir string) (stop func()) {
	if p.Console.Off() {
		return func() {}
	}
	logger := rt.Log.With(keyStage, "console")
	listener, err := console.Listen(p.Console)
	if err != nil {
		logger.Warn("there is no console", keyErr, err)
		return func() {}
	}
	fmt.Fprintf(out, "console: %s\n", console.Address(listener))
	return beside(ctx, logger, "the console", func(ctx context.Context) error {
		o := console.Options{Logger: logger, Embedder: s.Queries, Busy: func() map[string]time.Duration { return rt.Ready.Busy() }}
		return pages.Serve(ctx, log, p.ForConsole(dir), listener, o)
	})
}

// ForConsole returns the console's settings, with those of the stages in the same process.
func (p Settings) ForConsole(dir string) pages.Settings {
	ecm := p.Trainer.Options().ECM
	s := pages.Settings{
		Console: p.Console, Group: pages.Group{GroupSize: p.Indexer.Options().GroupSize},
		Shown: pages.Shown{Roots: p.Encoder.Bucket.Roots, High: ecm.High, Low: ecm.Low, LiveToken: p.Indexer.LiveToken},
	}
	s.Console.Dir = pages.IndexDir(config.Environ(), s.Console.Dir, dir)
	if host, port, err := net.SplitHostPort(p.Indexer.LiveAddr); err == nil && s.Console.LiveURL == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		s.Console.LiveURL = "http://" + net.JoinHostPort(host, port)
	}
	return s
}

// Keys of log lines.
const (
	keyErr   = "err"
	keyStage = "stage"
	keyWhat  = "what"
)
