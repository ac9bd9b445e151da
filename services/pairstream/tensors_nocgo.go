//go:build !cgo

package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	grouperservice "github.com/pairstream/pairstream/grouper/service"
	"github.com/pairstream/pairstream/internal/process/handover"
	"github.com/pairstream/pairstream/internal/process/service"
)

// stageMains are what the program is under another name than its own. The stages that compute with tensors are
// pairstream-tensors under their name.
var stageMains = map[string]func(){
	grouperservice.Name: func() { service.Main(grouperservice.Name, service.NoFacts, grouperservice.Run) },
	"encoder":           func() { becomeStage("encoder") },
	"indexer":           func() { becomeStage("indexer") },
	"discriminator":     func() { becomeStage("discriminator") },
	"trainer":           func() { becomeStage("trainer") },
}

func becomeStage(name string) { service.Exit(name, handOver(context.Background(), "the stage "+name)) }

// handOver turns this process into pairstream-tensors. It returns only if it cannot.
func handOver(ctx context.Context, what string) error {
	path, err := handover.Find(os.Environ())
	if err != nil {
		return err
	}
	return handover.Exec(ctx, what, path, os.Args, os.Environ())
}

// facts are what --version says besides. `pairstream-tensors --version` names its libtorch.
func facts() []string { return []string{"tensors by " + handover.Program} }

// tensorCommands stands in for the commands that need libtorch or FAISS. Each becomes that of pairstream-tensors, which
// reads the flags.
func tensorCommands() []*cobra.Command {
	var commands []*cobra.Command
	for _, name := range tensorNames() {
		cmd := &cobra.Command{
			Use: name, DisableFlagParsing: true,
			RunE:              func(cmd *cobra.Command, _ []string) error { return handOver(cmd.Context(), name) },
			PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // pairstream-tensors tells of settings
		}
		cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { // for `pairstream help NAME`
			service.Exit("pairstream", handOver(cmd.Context(), name))
		})
		commands = append(commands, cmd)
	}
	return commands
}
