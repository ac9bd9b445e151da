//go:build cgo

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The commands of a group stand between these marks of its page.
const (
	commandsBegin = "<!-- commands: begin -->\n"
	commandsEnd   = "<!-- commands: end -->"
)

// writeCommandPages writes the commands of every group between the marks of its page, ID.md in dir.
func writeCommandPages(dir string) error {
	root := newRoot()
	var errs []error
	for _, g := range groups {
		errs = append(errs, writeBetween(filepath.Join(dir, g.id+".md"), commandsBegin, commandsEnd, g.page(root)))
	}
	return errors.Join(errs...)
}

// page returns the reference of a group's commands in Markdown.
func (g group) page(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprint(&b, "\n| command | what it does |\n|---|---|\n")
	for _, e := range g.entries {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", e.name, e.name, inCell(e.short))
	}
	for _, cmd := range root.Commands() {
		if cmd.GroupID == g.id && cmd.Name() != "help" {
			writeCommand(&b, cmd, "##")
		}
	}
	b.WriteString("\n")
	return b.String()
}

// writeCommand writes a command, then its subcommands below it.
func writeCommand(b *strings.Builder, cmd *cobra.Command, heading string) {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	fmt.Fprintf(b, "\n%s `%s`\n", heading, name)
	if cmd.Runnable() {
		fmt.Fprintf(b, "\n    %s\n", cmd.UseLine())
	}
	about := cmd.Long
	if about == "" {
		about = strings.ToUpper(cmd.Short[:1]) + cmd.Short[1:] + "."
	}
	fmt.Fprintf(b, "\n%s\n", withCode(about))
	if cmd.HasExample() {
		fmt.Fprintf(b, "\nExample:\n\n    %s\n", strings.TrimSpace(cmd.Example))
	}
	if rows := flagRows(cmd); rows != "" {
		fmt.Fprintf(b, "\n| flag | default | meaning |\n|---|---|---|\n%s", rows)
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			writeCommand(b, sub, heading+"#")
		}
	}
}

// flagRows returns a row of a table for each flag of a command itself. A flag's zero value is no default.
func flagRows(cmd *cobra.Command) string {
	var b strings.Builder
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		flag, value := "--"+f.Name, ""
		if kind != "" {
			flag += " " + kind
		}
		if !slices.Contains([]string{"", "[]", "false", "0", "0s"}, f.DefValue) {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", flag, value, inCell(usage))
	})
	return b.String()
}

// markdown escapes what Markdown would take for marks.
var markdown = strings.NewReplacer("<", "&lt;", "*", `\*`, "[", `\[`)

// inProse escapes a text outside its code between backticks.
func inProse(text string) string {
	parts := strings.Split(text, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = markdown.Replace(parts[i])
	}
	return strings.Join(parts, "`")
}

// withCode escapes a text, and makes code of its indented lines.
func withCode(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if code, indented := strings.CutPrefix(line, "  "); indented {
			lines[i] = "    " + strings.TrimSpace(code)
		} else {
			lines[i] = inProse(line)
		}
	}
	return strings.Join(lines, "\n")
}

// inCell escapes a text for the cell of a table.
func inCell(text string) string { return strings.ReplaceAll(inProse(text), "|", `\|`) }
