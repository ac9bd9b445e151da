package main

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

// defaultData is the folder in which `pairstream up` keeps its log.
const defaultData = "data"

// openExisting connects like [connect], for commands that look at an existing log. Without KAFKA_BROKERS, and with no
// embedded broker running on this machine, it runs one on the log that `pairstream up` has left in dir.
func openExisting(ctx context.Context, cfg stream.Config, dir string) (*stream.Log, func() error, error) {
	broker := broker.Options{}
	if len(cfg.Brokers) == 0 && !listens(ctx, defaultBroker) {
		data := filepath.Join(dir, "broker")
		if _, err := os.Stat(data); err != nil {
			hint := "name a broker, or the folder with --data"
			if filepath.Base(filepath.Clean(dir)) == "broker" {
				hint = "--data wants the folder above " + dir
			}
			return nil, nil, fmt.Errorf("KAFKA_BROKERS is empty, nothing listens on %s, and there is no log in %s: %s", defaultBroker, data, hint)
		}
		broker.DataDir = data
	} else if len(cfg.Brokers) == 0 {
		cfg.Brokers = []string{defaultBroker}
	}
	return open(ctx, cfg, broker, stream.Options{Logger: logFrom(slog.LevelWarn)}, (*stream.Log).CheckTopics)
}

// open connects to the brokers of cfg. If it names none, open starts an embedded one. ready prepares the topics.
func open(ctx context.Context, cfg stream.Config, embedded broker.Options, o stream.Options, ready func(*stream.Log, context.Context, ...schemas.Topic) error) (*stream.Log, func() error, error) {
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

func listens(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	_ = conn.Close() // opened only to see whether it can be
	return true
}

const dataUsage = "folder of the embedded broker's log, read when no broker is running"

// settingsIn returns settings of the environment, completed by those of the run whose log lies in dir.
func settingsIn[S any](dir string) (s S, err error) {
	environ, err := environIn(dir)
	if err != nil {
		return s, err
	}
	return config.Parse[S](environ)
}

// defaultBroker is the address where `pairstream broker` and `pairstream up` listen. The other commands look for them
// there.
const defaultBroker = "127.0.0.1:9092"

// connect opens the log that the environment names. Without KAFKA_BROKERS, it opens that of an embedded broker on
// this machine.
func connect(ctx context.Context) (*stream.Log, error) {
	cfg, err := config.Parse[stream.Config](config.Environ())
	if err != nil {
		return nil, err
	}
	if len(cfg.Brokers) == 0 {
		cfg.Brokers = []string{defaultBroker}
	}
	return stream.Connect(ctx, cfg, stream.Options{Logger: logFrom(slog.LevelWarn)})
}

// logFrom returns a logger for commands that print what they do themselves.
func logFrom(least slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: least, ReplaceAttr: display.Attr}))
}
