// Package service surrounds the stage in every pairstream process: settings from the environment, a logger, an HTTP
// server for metrics and health, a clean end on SIGINT and SIGTERM, and one place that turns errors into an exit code.
//
// The main of a stage calls [Main] with the stage's run function, or the Main of internal/model/device if it needs
// tensors. Nothing else exits the process.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/base/version"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/recipe"
)

// Process holds the settings that every process has.
type Process struct {
	LogLevel   string `env:"LOG_LEVEL" envDefault:"info" desc:"debug, info, warn or error"`
	LogFormat  string `env:"LOG_FORMAT" envDefault:"text" desc:"text or json"`
	HTTPAddr   string `env:"HTTP_ADDR" desc:"address of /metrics, /healthz and /readyz, such as :9090; empty: none"`
	HealthAddr string `env:"HEALTH_ADDR" desc:"address of /healthz and /readyz alone, which readers of metrics cannot keep busy; empty: none"`
	Pprof      bool   `env:"HTTP_PPROF" envDefault:"false" desc:"serve profiles under /debug/pprof"`
	Recipe     string `env:"RECIPE" envDefault:"mafa" desc:"paper whose settings hold where nothing else is set: albef, tcl, grit-vlp, mafa, mafa-printed, gpn-s or gpn-s-tcl; pairstream settings --recipe NAME prints them"`
}

// Validate returns every invalid setting, joined.
func (p Process) Validate() error {
	var l invalid.List
	var level slog.Level
	if err := level.UnmarshalText([]byte(p.LogLevel)); err != nil {
		l.Add(fmt.Errorf("LOG_LEVEL is %q, want debug, info, warn or error", p.LogLevel))
	}
	l.Refuse(p.LogFormat != "text" && p.LogFormat != "json", "LOG_FORMAT is %q, want text or json", p.LogFormat)
	return l.Err()
}

// NewLogger returns the logger of validated settings.
func (p Process) NewLogger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(p.LogLevel)) // Validate has refused invalid levels
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: display.Attr}
	if p.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// Runtime is shared by the stages of a process: one logger, one registry of metrics, one answer to /readyz.
type Runtime struct {
	Log      *slog.Logger
	Registry *prometheus.Registry
	Ready    *Readiness
}

// NewRuntime returns a runtime whose registry also reports the build and the Go process.
func NewRuntime(log *slog.Logger) Runtime {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pairstream_build_info", Help: "1, with the version and the commit of the program in its labels.",
		ConstLabels: prometheus.Labels{"version": version.String(), "commit": version.Commit(), "goversion": runtime.Version()},
	})
	build.Set(1)
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return Runtime{Log: log, Registry: r, Ready: new(Readiness)}
}

// LogStart logs the effective settings, and at level info their differences from the recipe.
func (rt Runtime) LogStart(level slog.Level, cfg any, environ map[string]string) error {
	differences, err := recipe.Differences(environ)
	if err != nil {
		return err
	}
	rt.Log.Log(context.Background(), level, "starting", keyConfig, config.Redacted(cfg))
	if len(differences) > 0 {
		rt.Log.Info("settings differ from the recipe", keyDifferences, strings.Join(differences, "; "))
	}
	return nil
}

// Config holds the settings of the process of one stage; S are the stage's own settings.
type Config[S any] struct {
	Process Process
	Stream  stream.Config
	Stage   S
}

// Validate refuses settings of the stage that allow a record larger than its topic accepts.
func (c Config[S]) Validate() error { return ValidateRecords(c.Stage, c.Stream.MaxMessageBytes) }

// ValidateRecords refuses settings of a stage that allow a record larger than its topic accepts. It ignores settings
// without an effect on the size of records.
func ValidateRecords(stage any, most int) error {
	if s, ok := stage.(interface{ ValidateRecords(most int) error }); ok {
		return s.ValidateRecords(most)
	}
	return nil
}

// NoFacts are the facts of a program without tensors.
func NoFacts() []string { return nil }

// Main reads the settings from the environment and the file of --config, connects to the log and runs a stage as a process, until the stage ends or a signal
// comes. It exits with 0 after a clean end, otherwise with 1 and one clear line for each problem. `NAME --version`
// prints the build, with facts.
func Main[S any](name string, facts func() []string, run func(context.Context, *stream.Log, *Instruments, S) error) {
	if version.Asked(os.Stdout, name, os.Args[1:], facts) {
		return
	}
	LimitMemory(os.Stderr)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := useArgs(name, os.Args[1:])
	switch {
	case errors.Is(err, pflag.ErrHelp): // Parse has printed it
		err = nil
	case err == nil:
		err = runAlone(ctx, name, run)
	}
	stop()
	Exit(name, err)
}

// The flag of every program that names a file of settings.
const (
	ConfigFlag  = "config"
	ConfigUsage = "`FILE` of settings in TOML, below the environment"
)

// useArgs reads the arguments of a stage, which has one flag.
func useArgs(name string, args []string) error {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	path := flags.String(ConfigFlag, "", ConfigUsage)
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("got the argument %q, want: %s [--%s FILE]", flags.Arg(0), name, ConfigFlag)
	case flags.Changed(ConfigFlag):
		return config.Use(*path)
	}
	return nil
}

func runAlone[S any](ctx context.Context, name string, run func(context.Context, *stream.Log, *Instruments, S) error) error {
	environ := config.Environ()
	cfg, err := config.Parse[Config[S]](environ)
	if err != nil {
		return err
	}
	rt := NewRuntime(cfg.Process.NewLogger(os.Stderr).With(keyStage, name))
	if err := errors.Join(config.TellRemoved(os.Stderr, environ), rt.LogStart(slog.LevelInfo, cfg, environ)); err != nil {
		return err
	}
	return Serve(ctx, cfg.Process, rt, func(ctx context.Context) error {
		log, err := OpenLog(ctx, rt, cfg.Stream)
		if err != nil {
			return err
		}
		defer log.Close()
		instruments, err := rt.NewInstruments(name, nil)
		if err != nil {
			return err
		}
		return run(ctx, log, instruments, cfg.Stage)
	})
}

// Exit ends the process: with 0 if err is nil or only an interruption, otherwise with 1 after printing err, a line for
// each problem.
func Exit(name string, err error) { os.Exit(report(os.Stderr, name, err)) }

// report prints the problems of err, and returns the exit code.
func report(w io.Writer, name string, err error) int {
	if err = interrupt.Failure(err); err == nil {
		return 0
	}
	for line := range strings.SplitSeq(strings.TrimSpace(display.Redacted(err.Error())), "\n") {
		fmt.Fprintf(w, "%s: %s\n", name, line)
	}
	return 1
}

// Serve runs work beside the HTTP server; the server ends when the work does.
func Serve(ctx context.Context, process Process, rt Runtime, work func(context.Context) error) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // garbage of records and images adds half of the live memory, not all of it again
	}
	if process.HTTPAddr == "" && process.HealthAddr == "" {
		return work(ctx)
	}
	server, err := newHTTPServer(process, rt, DefaultHTTPLimits)
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

// OpenLog connects to the log and creates the topics that are missing.
func OpenLog(ctx context.Context, rt Runtime, cfg stream.Config) (*stream.Log, error) {
	if len(cfg.Brokers) == 0 {
		return nil, errors.New("KAFKA_BROKERS is empty: a stage on its own needs a broker, such as that of `pairstream broker` on 127.0.0.1:9092")
	}
	log, err := stream.Connect(ctx, cfg, stream.Options{Logger: rt.Log, Registerer: rt.Registry})
	if err != nil {
		return nil, err
	}
	if err := log.EnsureTopics(ctx); err != nil {
		log.Close()
		return nil, err
	}
	return log, nil
}

// Run holds the settings that the stages of a run share.
type Run struct {
	Seed uint64 `env:"SEED" envDefault:"0" desc:"seed of the run: keys every shuffle, mask, augmentation and initial weight"`
}
