// Command pairstream is the user's command: it runs the whole pipeline on one machine (up, demo), feeds it (produce,
// synth, seal), looks into it (status, dead-letters, topics, eval) and repeats it (run-manifest, replay).
//
// Settings come from the environment, as for the services; flags say what to do now. Built with CGO_ENABLED=0 it lacks
// the commands that need tensors and says so.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	service.Exit("pairstream", err)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "pairstream",
		Short:         "Stream image-text pairs into grouped mini-batches and train on them",
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newBrokerCommand(), newTopicsCommand(), newProduceCommand(), newSealCommand(), newSynthCommand(),
		newStatusCommand(), newDeadLettersCommand(), newVocabCommand(), newHealthcheckCommand())
	root.AddCommand(tensorCommands()...)
	return root
}
