package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/inspect"
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

// logCommand is a command that looks at an existing log.
type logCommand struct {
	*cobra.Command
	log  *stream.Log
	dir  string // of the embedded broker's log
	args []string
}

// looking lets a command look at an existing log.
func looking(cmd *cobra.Command, do func(logCommand) error) {
	dir := dataFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := settingsIn[stream.Config](*dir)
		if err != nil {
			return err
		}
		log, closeLog, err := openExisting(cmd.Context(), cfg, *dir)
		if err != nil {
			return err
		}
		return errors.Join(do(logCommand{cmd, log, *dir, args}), closeLog())
	}
}

const dataUsage = "folder of the embedded broker's log, read when no broker is running"

func dataFlag(cmd *cobra.Command) *string { return cmd.Flags().String("data", defaultData, dataUsage) }

// settingsIn returns settings of the environment, completed by those of the run whose log lies in dir.
func settingsIn[S any](dir string) (s S, err error) {
	environ, err := environIn(dir)
	if err != nil {
		return s, err
	}
	return config.Parse[S](environ)
}

// printJSON prints what a program is to read, for people as well.
func printJSON(w io.Writer, what any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(what)
}

func newStatusCommand() *cobra.Command {
	var watch, asJSON, retention bool
	var interval time.Duration
	cmd := &cobra.Command{
		Use: "status",
		Long: "Shows the lag of every stage in every lane, how full the open groups are, how many batches wait, dead letters by\n" +
			"reason and each stage's last progress. All of it is read from the log, so any machine that reaches it will do.",
		Args: cobra.NoArgs,
	}
	looking(cmd, func(at logCommand) error {
		if retention {
			return printRetention(at, asJSON)
		}
		o, err := settingsIn[groupSettings](at.dir)
		if err != nil {
			return err
		}
		s := statusPrinter{out: at.OutOrStdout(), collector: inspect.NewCollector(at.log, o.GroupSize), json: asJSON}
		if !watch {
			return s.print(at.Context())
		}
		return s.watch(at.Context(), interval)
	})
	f := cmd.Flags()
	f.BoolVar(&watch, "watch", false, "go on until interrupted")
	f.BoolVar(&retention, "retention", false, "show instead what may be deleted of every lane, and topics that delete what is needed")
	f.DurationVar(&interval, "interval", 2*time.Second, "pause of --watch")
	f.BoolVar(&asJSON, "json", false, "print JSON; with --watch an object a line")
	return cmd
}

// printRetention shows what is needed of every lane, by whom and why.
func printRetention(at logCommand, asJSON bool) error {
	r, err := inspect.CollectRetention(at.Context(), at.log, time.Now())
	if err != nil {
		return err
	}
	if !asJSON {
		return r.Print(at.OutOrStdout())
	}
	return printJSON(at.OutOrStdout(), r)
}

// groupSettings holds the indexer's settings that status needs. A build without cgo does not have the indexer's own.
type groupSettings struct {
	GroupSize int `env:"GROUP_SIZE" envDefault:"5000000" desc:"distinct pairs of a lane that are indexed and clustered together"`
}

// Validate refuses what the indexer would refuse.
func (s groupSettings) Validate() error {
	o := indexer.DefaultOptions()
	o.GroupSize = s.GroupSize
	return o.Validate()
}

type statusPrinter struct {
	out       io.Writer
	collector *inspect.Collector
	json      bool
	before    *inspect.Status
	watching  bool
}

func (s *statusPrinter) print(ctx context.Context) error {
	status, err := s.collector.Collect(ctx, time.Now())
	if err != nil {
		return err
	}
	before := s.before
	s.before = status
	if !s.json {
		return status.Print(s.out, before)
	}
	if s.watching {
		return json.NewEncoder(s.out).Encode(status)
	}
	return printJSON(s.out, status)
}

// watch prints the state again and again, on a terminal in the same place.
func (s *statusPrinter) watch(ctx context.Context, interval time.Duration) error {
	if interval < 100*time.Millisecond {
		return fmt.Errorf("--interval is %s, want at least 100ms", interval)
	}
	s.watching = true
	tick := time.NewTicker(interval)
	defer tick.Stop()
	file, ok := s.out.(*os.File)
	clear := ok && term.IsTerminal(int(file.Fd())) && !s.json
	for {
		if clear {
			fmt.Fprint(s.out, "\x1b[H\x1b[2J")
		}
		if err := s.print(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
