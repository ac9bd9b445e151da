package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/internal/operate/pages"
	"github.com/pairstream/pairstream/internal/operate/rundir"
)

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
		cfg, err := rundir.SettingsIn[stream.Config](*dir)
		if err != nil {
			return err
		}
		log, closeLog, err := rundir.OpenExisting(cmd.Context(), cfg, *dir)
		if err != nil {
			return err
		}
		return errors.Join(do(logCommand{cmd, log, *dir, args}), closeLog())
	}
}

func dataFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("data", rundir.DefaultData, rundir.DataUsage)
}

// printJSON prints indented JSON.
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
		Long: "Shows the lag of every stage in every lane, the sizes of the open groups, the waiting batches, dead letters by reason\n" +
			"and the last progress of each stage. It reads only the log, so it runs on any machine that reaches the log.",
		Args: cobra.NoArgs,
	}
	looking(cmd, func(at logCommand) error {
		if retention {
			return printRetention(at, asJSON)
		}
		o, err := rundir.SettingsIn[pages.Group](at.dir)
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
	f.BoolVar(&watch, "watch", false, "repeat until interrupted")
	f.BoolVar(&retention, "retention", false, "show instead which records of every lane may be deleted, and topics that delete needed ones")
	f.DurationVar(&interval, "interval", 2*time.Second, "pause of --watch")
	f.BoolVar(&asJSON, "json", false, "print JSON; with --watch an object a line")
	return cmd
}

// printRetention shows the needed records of every lane, and which stage needs them.
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

// watch prints the state repeatedly, on a terminal in the same place.
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
