// Package service is what every pairstream process has around its stage: settings from the environment, a logger, an
// HTTP server for metrics and health, an end on SIGINT and SIGTERM, and one place that turns errors into an exit code.
//
// A main calls [Main] with the stage's configuration type and its run function; nothing else exits the process.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/version"
)

// Process holds the settings that every process has.
type Process struct {
	LogLevel  string `env:"LOG_LEVEL" envDefault:"info" desc:"debug, info, warn or error"`
	LogFormat string `env:"LOG_FORMAT" envDefault:"text" desc:"text or json"`
	HTTPAddr  string `env:"HTTP_ADDR" desc:"address of /metrics, /healthz and /readyz, such as :9090; empty: none"`
	Pprof     bool   `env:"HTTP_PPROF" envDefault:"false" desc:"serve profiles under /debug/pprof"`
}

// Validate joins all problems.
func (p Process) Validate() error {
	var problems []error
	var level slog.Level
	if err := level.UnmarshalText([]byte(p.LogLevel)); err != nil {
		problems = append(problems, fmt.Errorf("LOG_LEVEL is %q, want debug, info, warn or error", p.LogLevel))
	}
	if p.LogFormat != "text" && p.LogFormat != "json" {
		problems = append(problems, fmt.Errorf("LOG_FORMAT is %q, want text or json", p.LogFormat))
	}
	return errors.Join(problems...)
}

// NewLogger returns the logger that the settings ask for; they have been validated.
func (p Process) NewLogger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(p.LogLevel)) // Validate has refused what does not parse
	options := &slog.HandlerOptions{Level: level}
	if p.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// Runtime is what a run function gets besides its configuration.
type Runtime struct {
	Log      *slog.Logger
	Registry *prometheus.Registry
	Ready    *Readiness
}

// NewRuntime returns a runtime with an own registry that also reports the Go process.
func NewRuntime(log *slog.Logger) Runtime {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return Runtime{Log: log, Registry: r, Ready: new(Readiness)}
}

// Configuration is what a stage's settings must offer.
type Configuration interface {
	Common() Process
}

// Main parses the environment into C, runs the service until it ends or a signal comes, and exits: 0 after a clean end,
// 1 with one clear line a problem otherwise. `NAME --version` says which build it is.
func Main[C Configuration](name string, run func(context.Context, Runtime, C) error) {
	if version.Asked(os.Stdout, name, os.Args[1:]) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runMain(ctx, name, run)
	stop()
	Exit(name, err)
}

// Exit ends the process: with 0 when err is nil or the process was asked to stop, else with 1 after printing err, a line
// for each problem.
func Exit(name string, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		os.Exit(0)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, line)
	}
	os.Exit(1)
}

func runMain[C Configuration](ctx context.Context, name string, run func(context.Context, Runtime, C) error) error {
	cfg, err := config.Parse[C](config.Environ())
	if err != nil {
		return err
	}
	process := cfg.Common()
	rt := NewRuntime(process.NewLogger(os.Stderr).With("stage", name))
	rt.Log.Info("starting", "config", config.Redacted(cfg))
	return Serve(ctx, process, rt, func(ctx context.Context) error { return run(ctx, rt, cfg) })
}

// Serve runs work beside the HTTP server; the server ends when the work does.
func Serve(ctx context.Context, process Process, rt Runtime, work func(context.Context) error) error {
	if process.HTTPAddr == "" {
		return work(ctx)
	}
	server, err := newHTTPServer(process, rt)
	if err != nil {
		return err
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(server.serve)
	both.Go(func() error {
		defer server.close()
		return work(ctx)
	})
	return both.Wait()
}
