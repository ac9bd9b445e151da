package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/stream"
)

// defaultData is the folder in which `pairstream up` keeps its log.
const defaultData = "data"

// openExisting connects like [connect], for commands that look at an existing log. Without KAFKA_BROKERS, and with no
// embedded broker running on this machine, it runs one on the log that `pairstream up` has left in dir.
func openExisting(ctx context.Context, cfg stream.Config, dir string) (*stream.Log, func() error, error) {
	closeBroker := func() error { return nil }
	if len(cfg.Brokers) == 0 && !listens(ctx, defaultBroker) {
		data := filepath.Join(dir, "broker")
		if _, err := os.Stat(data); err != nil {
			hint := "name a broker, or the folder with --data"
			if filepath.Base(filepath.Clean(dir)) == "broker" {
				hint = "--data wants the folder above " + dir
			}
			return nil, nil, fmt.Errorf("KAFKA_BROKERS is empty, nothing listens on %s, and there is no log in %s: %s", defaultBroker, data, hint)
		}
		broker, err := stream.StartBroker(stream.BrokerOptions{DataDir: data})
		if err != nil {
			return nil, nil, err
		}
		cfg.Brokers, closeBroker = []string{broker.Addr()}, broker.Close
	}
	log, err := connectTo(ctx, cfg)
	if err == nil {
		if err = log.CheckTopics(ctx); err != nil {
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

// looking runs a command on an existing log.
func looking(dir *string, do func(cmd *cobra.Command, log *stream.Log, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		environ, err := environIn(*dir)
		if err != nil {
			return err
		}
		cfg, err := config.Parse[stream.Config](environ)
		if err != nil {
			return err
		}
		log, closeLog, err := openExisting(cmd.Context(), cfg, *dir)
		if err != nil {
			return err
		}
		return errors.Join(do(cmd, log, args), closeLog())
	}
}

func dataFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "data", defaultData, "folder of the embedded broker's log, read when no broker is running")
}
