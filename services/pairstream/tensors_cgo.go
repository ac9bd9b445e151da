//go:build cgo

package main

import "github.com/spf13/cobra"

// tensorCommands returns the commands that need libtorch or FAISS.
func tensorCommands() []*cobra.Command {
	return []*cobra.Command{
		newUpCommand(), newBatchesCommand(), newDemoCommand(), newBootstrapCommand(), newFineTuneCommand(), newEvalCommand(), newExperimentsCommand(), newCandidatesCommand(), newSettingsCommand(),
		newRunManifestCommand(), newReplayCommand(),
	}
}
