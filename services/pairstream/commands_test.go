package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestEveryCommandWithTensorsHasAStandIn(t *testing.T) {
	var names []string
	for _, cmd := range tensorCommands() {
		names = append(names, cmd.Name())
	}
	if want := tensorNames(); !slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(want))) {
		t.Errorf("commands %v, and without cgo %v", names, want)
	}
}

func TestHelpFitsOnAScreen(t *testing.T) {
	said := mustCommand(t, "--help")
	lines := strings.Split(strings.TrimRight(said, "\n"), "\n")
	if len(lines) > 49 { // and the prompt
		t.Errorf("--help has %d lines, want at most 49", len(lines))
	}
	for _, line := range lines {
		if n := len(line); n > 105 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// Every command stands in one group, and a rare one only in the help of its group.
func TestCommandsStandInGroups(t *testing.T) {
	said, listed := mustCommand(t, "--help"), map[string]bool{"help": true, "completion": true}
	for _, g := range groups {
		listed[g.id] = true
		if !strings.Contains(said, "\n"+g.title+":\n") {
			t.Errorf("--help has no heading %q", g.title)
		}
		of := mustCommand(t, "help", g.id)
		for _, e := range g.entries {
			row := "\n  " + e.name + " "
			if listed[e.name] {
				t.Errorf("%s is listed twice", e.name)
			}
			listed[e.name] = true
			if strings.Contains(said, row) == e.rare {
				t.Errorf("--help lists %s: %v, and it is rare: %v", e.name, !e.rare, e.rare)
			}
			if !strings.Contains(of, row) || !strings.Contains(of, e.short) {
				t.Errorf("help %s does not list %s:\n%s", g.id, e.name, of)
			}
		}
	}
	found := map[string]bool{}
	for _, cmd := range newRoot().Commands() {
		found[cmd.Name()] = true
		if !listed[cmd.Name()] {
			t.Errorf("no group has the command %s", cmd.Name())
		}
	}
	for name := range listed {
		if !found[name] && name != "completion" {
			t.Errorf("a group has %s, which is no command", name)
		}
	}
}

// TestEveryCommandHasAnExample has every flag of an example read by the command that it names.
func TestEveryCommandHasAnExample(t *testing.T) {
	for _, g := range groups {
		for _, e := range g.entries {
			cmd, rest, err := newRoot().Find(strings.Fields(e.example))
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil {
				err = errors.Join(cmd.ValidateRequiredFlags(), cmd.ValidateArgs(cmd.Flags().Args()))
			}
			if err != nil || !strings.HasPrefix(cmd.CommandPath()+" ", "pairstream "+e.name+" ") || !cmd.Runnable() {
				t.Errorf("the example of %s is %q, which is %s: %v", e.name, e.example, cmd.CommandPath(), err)
			}
			if said := mustCommand(t, e.name, "--help"); !strings.Contains(said, "Examples:\n  pairstream "+e.example+"\n") {
				t.Errorf("%s --help does not show %q:\n%s", e.name, e.example, said)
			}
		}
	}
}
