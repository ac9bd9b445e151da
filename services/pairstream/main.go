// Command pairstream is the user's command. It runs the whole pipeline on one machine (up, demo) and feeds it (produce,
// ingest, synth, seal). It looks into it (console, status, dead-letters, topics, eval) and repeats it (run-manifest,
// replay).
//
// Settings come from the environment and from the file of --config, as for the services. Flags say what to do now. Under
// the name of a stage, as by a link, it is that stage.
//
// It is built twice. With CGO_ENABLED=0 it is pairstream: static, and running in milliseconds. With cgo it is
// pairstream-tensors, which loads libtorch. The former becomes the latter for the commands and stages that need
// tensors.
package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/base/version"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/crawl/shard/cloud"
	"github.com/pairstream/pairstream/internal/log/tracing/otlp"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
)

func main() {
	cloud.Use()
	otlp.Use()
	if run, ok := stageMains[filepath.Base(os.Args[0])]; ok {
		run()
		return
	}
	if version.Asked(os.Stdout, "pairstream", os.Args[1:], facts) {
		return
	}
	service.LimitMemory(os.Stderr)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	service.Exit("pairstream", interrupt.Unfinished(err))
}

// keyStage is the key of a log line that names who writes it.
const keyStage = "stage"

// anyNumber is the bound for commands that take any number of arguments.
const anyNumber = math.MaxInt

// wantArgs refuses another number of arguments, and says how to use the command.
func wantArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if n := len(args); n < least || n > most {
			return fmt.Errorf("got %d arguments, want: %s", n, cmd.UseLine())
		}
		return nil
	}
}

// require refuses a command without these flags.
func require(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the command has no such flag
		}
	}
}

func newRoot() *cobra.Command {
	var file string
	var root *cobra.Command
	root = &cobra.Command{
		Use:           "pairstream",
		Short:         "Stream image-text pairs into grouped mini-batches and train on them",
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			config.UseNone()
			if root.PersistentFlags().Changed(service.ConfigFlag) {
				if err := config.Use(file); err != nil {
					return err
				}
			}
			err := config.TellRemoved(cmd.ErrOrStderr(), config.Environ())
			if err != nil && onlyReads(cmd) {
				fmt.Fprintln(cmd.ErrOrStderr(), err)
				return nil
			}
			return err
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().StringVar(&file, service.ConfigFlag, "", service.ConfigUsage)
	addCommands(root, append(tensorCommands(),
		newBrokerCommand(), newTopicsCommand(), newProduceCommand(), newIngestCommand(), newFetchCommand(), newConnectionsCommand(),
		newSealCommand(), newSynthCommand(), newStatusCommand(), newDeadLettersCommand(), newLanesCommand(), newVocabCommand(),
		newHealthcheckCommand(), newConsoleCommand(), newReportCommand(), newForgetCommand(), newProgressCommand(), newCompareCommand())...)
	return root
}

// tarsUse is how commands call the tars that they read.
const tarsUse = "DIR|TAR|LIST.json|URL..."

// places returns the paths of a command, with the options of the roots in BUCKET_ROOTS that they lie under.
func places(paths []string) []string {
	return shard.WithOptions(paths, strings.Split(config.Environ()["BUCKET_ROOTS"], ","))
}
