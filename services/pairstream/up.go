//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
)

const withoutTrainerUsage = "leave the trainer to another program, such as one of the Python package"

func newUpCommand() *cobra.Command {
	var addr, dir string
	var withoutTrainer bool
	cmd := &cobra.Command{
		Use: "up",
		Long: "Runs all stages in this process, until every lane has ended if TRAIN_EXIT_AT_END is set. It prints the addresses of the\n" +
			"broker and the console, and what it waits for. LOG_LEVEL=debug also logs every setting.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			environ := config.Environ()
			p, err := config.Parse[pipeline.Settings](environ)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			rt := service.NewRuntime(p.Process.NewLogger(os.Stderr))
			if err := errors.Join(rt.LogStart(slog.LevelDebug, p, environ), rt.Registry.Register(p.Device.Info())); err != nil {
				return err
			}
			log, closeLog, err := pipeline.OpenLog(ctx, rt, p.Stream, addr, filepath.Join(dir, "broker"))
			if err != nil {
				return err
			}
			brokers := strings.Join(log.Config().Brokers, ",")
			fmt.Fprintf(cmd.OutOrStdout(), "broker: %s\n", brokers)
			if len(p.Stream.Brokers) == 0 { // the log lies in dir, and is locked by now: no other run has these settings
				if err := pipeline.LeaveChanges(ctx, log, dir, p.Stream, environ); err != nil {
					return errors.Join(err, closeLog())
				}
			}
			closeIngest, err := pipeline.StartIngest(ctx, cmd.OutOrStdout(), log, rt, p.Ingest)
			if err != nil {
				return errors.Join(err, closeLog())
			}
			s := pipeline.NewStages()
			closeConsole := pipeline.StartConsole(ctx, cmd.OutOrStdout(), log, rt, p, s, dir)
			fmt.Fprintf(cmd.OutOrStdout(), "waiting for pairs: KAFKA_BROKERS=%s pairstream produce DIR publishes those of a folder of tars\n", brokers)
			err = service.Serve(ctx, p.Process, rt, func(ctx context.Context) error {
				return pipeline.Run(ctx, log, rt, p, s, withoutTrainer)
			})
			closeConsole()
			closeIngest()
			return errors.Join(err, closeLog())
		},
	}
	cmd.Flags().StringVar(&addr, "addr", rundir.DefaultBroker, "address of the embedded broker, on loopback")
	cmd.Flags().StringVar(&dir, "data", "data", "folder of the embedded broker's log")
	cmd.Flags().BoolVar(&withoutTrainer, "without-trainer", false, withoutTrainerUsage)
	return cmd
}
