//go:build cgo

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/recipe"
)

// The table of settings stands between these marks.
const (
	settingsBegin = "<!-- settings: begin -->\n"
	settingsEnd   = "<!-- settings: end -->"
)

func newSettingsCommand() *cobra.Command {
	var file, name, papers, python string
	cmd := &cobra.Command{
		Use:   "settings",
		Short: "list every setting, its default and its meaning",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name != "" {
				table, err := recipe.Table(name, config.Environ())
				if err != nil {
					return err
				}
				fmt.Fprint(cmd.OutOrStdout(), table)
				return nil
			}
			if papers != "" && python != "" {
				return errors.Join(writeRecipes(papers), writeForPython(python))
			}
			table := config.Table(pipeline{})
			if file == "" {
				fmt.Fprint(cmd.OutOrStdout(), table)
				return nil
			}
			return writeBetween(file, settingsBegin, settingsEnd, table)
		},
	}
	cmd.Flags().StringVar(&name, "recipe", "", "list instead what a recipe sets, with the place in the paper: "+strings.Join(recipe.Names(), ", "))
	cmd.Flags().StringVar(&file, "write", "", "write the table into this file, between its marks")
	cmd.Flags().StringVar(&papers, "write-recipes", "", "write the table of every recipe into this file, between its marks")
	cmd.Flags().StringVar(&python, "write-python", "", "write what each recipe means to a trainer into this file, for the Python package")
	return cmd
}

// writeBetween replaces what stands between two marks of a file.
func writeBetween(path, begin, end, text string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s: no %q ... %q to write between", path, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}
