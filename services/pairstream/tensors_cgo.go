//go:build cgo

package main

import (
	"github.com/spf13/cobra"

	discriminatorservice "github.com/pairstream/pairstream/discriminator/service"
	encoderservice "github.com/pairstream/pairstream/encoder/service"
	grouperservice "github.com/pairstream/pairstream/grouper/service"
	indexerservice "github.com/pairstream/pairstream/indexer/service"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/process/service"
	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

// stageMains are what the program is under another name than its own: packages have a link of each name to it, and so
// one program in the place of six.
var stageMains = map[string]func(){
	encoderservice.Name:       func() { device.Main(encoderservice.Name, encoderservice.Run) },
	indexerservice.Name:       func() { device.Main(indexerservice.Name, indexerservice.Run) },
	grouperservice.Name:       func() { service.Main(grouperservice.Name, service.NoFacts, grouperservice.Run) },
	discriminatorservice.Name: func() { device.Main(discriminatorservice.Name, discriminatorservice.Run) },
	trainerservice.Name:       func() { device.Main(trainerservice.Name, trainerservice.Run) },
}

// facts are what --version says besides.
func facts() []string { return device.Facts() }

// tensorCommands returns the commands that need libtorch or FAISS.
func tensorCommands() []*cobra.Command {
	return []*cobra.Command{
		newUpCommand(), newBatchesCommand(), newDemoCommand(), newBootstrapCommand(), newFineTuneCommand(), newEvalCommand(), newSettingsCommand(),
		newRunManifestCommand(), newReplayCommand(), newPlanCommand(), newSearchCommand(), newFAISSCommand(),
	}
}
