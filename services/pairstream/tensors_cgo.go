//go:build cgo

package main

import (
	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/service/device"
)

// facts are what --version says besides.
func facts() []string { return device.Facts() }

// tensorCommands returns the commands that need libtorch or FAISS.
func tensorCommands() []*cobra.Command {
	return []*cobra.Command{
		newUpCommand(), newBatchesCommand(), newDemoCommand(), newBootstrapCommand(), newFineTuneCommand(), newEvalCommand(), newExperimentsCommand(), newCandidatesCommand(), newSettingsCommand(),
		newRunManifestCommand(), newReplayCommand(),
	}
}
