package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/operate/pages"
	"github.com/pairstream/pairstream/internal/operate/rundir"
)

func newConsoleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "console",
		Long: "Serves pages with pictures that show a run, at CONSOLE_ADDR, during the run and afterwards. It reads the log and the\n" +
			"bucket, and writes judgements only. `pairstream up` includes it.",
		Args: cobra.NoArgs,
	}
	looking(cmd, func(at logCommand) error {
		s, err := pages.SettingsIn(at.dir)
		if err != nil {
			return err
		}
		if s.Console.Off() {
			return errors.New("CONSOLE_ADDR is off: want an address such as 127.0.0.1:8090")
		}
		listener, err := console.Listen(s.Console)
		if err != nil {
			return err
		}
		ctx := at.Context()
		fmt.Fprintf(at.OutOrStdout(), "console: %s\n", console.Address(listener))
		o := console.Options{Logger: rundir.Logger(slog.LevelInfo).With(keyStage, "console")}
		if err := pages.Serve(ctx, at.log, s, listener, o); ctx.Err() == nil {
			return err
		}
		return nil
	})
	return cmd
}
