package main

import (
	"slices"
	"testing"
)

func TestEveryCommandWithTensorsHasAStandIn(t *testing.T) {
	var names []string
	for _, cmd := range tensorCommands() {
		names = append(names, cmd.Name())
	}
	slices.Sort(names)
	if !slices.Equal(names, tensorNames) {
		t.Errorf("commands %v, and without cgo %v", names, tensorNames)
	}
}
