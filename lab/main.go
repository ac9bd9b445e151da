// Command lab answers questions about pairstream that no run of the pipeline needs answered. It repeats findings of the
// papers where the truth is known (experiments), measures how many candidates Con-D has to score (candidates), and
// draws scenes whose captions are wrong, or true of other pictures, as often as the user asks (synth).
//
// Build and run it from the root of the repository: `make build-lab && bin/lab/lab --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/base/version"
	"github.com/pairstream/pairstream/internal/process/service"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	service.Exit("lab", interrupt.Unfinished(err))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "lab",
		Short:         "Repeat the papers' findings, and draw the scenes that they need",
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newExperimentsCommand(), newCandidatesCommand(), newSynthCommand())
	return root
}
