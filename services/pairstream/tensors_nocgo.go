//go:build !cgo

package main

import (
	"errors"

	"github.com/spf13/cobra"

	grouperservice "github.com/pairstream/pairstream/grouper/service"
	"github.com/pairstream/pairstream/internal/process/service"
)

// stageMains are what the program is under another name than its own.
var stageMains = map[string]func(){
	grouperservice.Name: func() { service.Main(grouperservice.Name, service.NoFacts, grouperservice.Run) },
}

// facts are what --version says besides.
func facts() []string { return []string{"no libtorch"} }

// tensorCommands stands in for the commands that need libtorch or FAISS.
func tensorCommands() []*cobra.Command {
	var commands []*cobra.Command
	for _, name := range tensorNames() {
		commands = append(commands, &cobra.Command{Use: name, RunE: func(*cobra.Command, []string) error {
			return errors.New(name + " needs libtorch: build pairstream with CGO_ENABLED=1")
		}})
	}
	return commands
}
