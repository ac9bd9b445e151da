//go:build cgo

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

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
		Use:  "up",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			environ := config.Environ()
			p, err := config.Parse[pipeline.Settings](environ)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			rt := service.NewRuntime(p.Process.NewLogger(os.Stderr))
			if err := errors.Join(rt.LogStart(p, environ), rt.Registry.Register(p.Device.Info())); err != nil {
				return err
			}
			log, closeLog, err := pipeline.OpenLog(ctx, rt, p.Stream, addr, filepath.Join(dir, "broker"))
			if err != nil {
				return err
			}
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
