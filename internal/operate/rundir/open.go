// Package rundir opens the log of a run, and reads and writes its settings in run.env. KAFKA_BROKERS names the log.
// Without it, the log is that of an embedded broker in the folder of --data.
package rundir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/schemas"
)

// DefaultData is the folder in which `pairstream up` keeps its log.
const DefaultData = "data"

// OpenExisting opens a log for commands that read it. If KAFKA_BROKERS is empty and no embedded broker runs on this
// machine, it starts one on the log that `pairstream up` has left in dir.
func OpenExisting(ctx context.Context, cfg stream.Config, dir string) (*stream.Log, func() error, error) {
	broker := broker.Options{}
	if len(cfg.Brokers) == 0 && !Listens(ctx, DefaultBroker) {
		data := filepath.Join(dir, "broker")
		if _, err := os.Stat(data); err != nil {
			hint := "name a broker, or the folder with --data"
			if filepath.Base(filepath.Clean(dir)) == "broker" {
				hint = "--data wants the folder above " + dir
			}
			return nil, nil, fmt.Errorf("KAFKA_BROKERS is empty, nothing listens on %s, and there is no log in %s: %s", DefaultBroker, data, hint)
		}
		broker.DataDir = data
	} else if len(cfg.Brokers) == 0 {
		cfg.Brokers = []string{DefaultBroker}
	}
	return Open(ctx, cfg, broker, stream.Options{Logger: Logger(slog.LevelWarn)}, (*stream.Log).CheckTopics)
}

// Open connects to the brokers of cfg, or to an embedded broker that it starts if cfg names none. ready prepares the
// topics.
func Open(ctx context.Context, cfg stream.Config, embedded broker.Options, o stream.Options, ready func(*stream.Log, context.Context, ...schemas.Topic) error) (*stream.Log, func() error, error) {
	closeBroker := func() error { return nil }
	if len(cfg.Brokers) == 0 {
		embedded.Logger = o.Logger
		broker, err := broker.Start(embedded)
		if err != nil {
			return nil, nil, err
		}
		cfg.Brokers, closeBroker = []string{broker.Addr()}, broker.Close
	}
	log, err := stream.Connect(ctx, cfg, o)
	if err == nil {
		if err = ready(log, ctx); err != nil {
			log.Close()
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, closeBroker())
	}
	return log, func() error {
		log.Close()
		return closeBroker()
	}, nil
}

// Listens reports whether a program accepts connections at addr.
func Listens(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	_ = conn.Close() // opened only to try
	return true
}

// DataUsage is the meaning of --data for commands that look at a run.
const DataUsage = "folder of the embedded broker's log, read when no broker is running"

// SettingsIn returns the settings of the environment and, where it has none, those of the run whose log is in dir.
func SettingsIn[S any](dir string) (s S, err error) {
	environ, err := EnvironIn(dir)
	if err != nil {
		return s, err
	}
	return config.Parse[S](environ)
}

// DefaultBroker is the address where `pairstream broker` and `pairstream up` listen. The other commands look for them
// there.
const DefaultBroker = "127.0.0.1:9092"

// Connect opens the log of KAFKA_BROKERS or, if that is empty, the log of the embedded broker on this machine.
func Connect(ctx context.Context) (*stream.Log, error) {
	cfg, err := config.Parse[stream.Config](config.Environ())
	if err != nil {
		return nil, err
	}
	if len(cfg.Brokers) == 0 {
		cfg.Brokers = []string{DefaultBroker}
	}
	return stream.Connect(ctx, cfg, stream.Options{Logger: Logger(slog.LevelWarn)})
}

// Logger returns a logger for commands that print their own messages.
func Logger(least slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: least, ReplaceAttr: display.Attr}))
}
