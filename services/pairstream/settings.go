//go:build cgo

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/recipe"
	"github.com/pairstream/pairstream/trainer"
)

// The table of settings stands between these marks.
const (
	settingsBegin = "<!-- settings: begin -->\n"
	settingsEnd   = "<!-- settings: end -->"
)

func newSettingsCommand() *cobra.Command {
	var file, names, name, papers, python, checked, commands string
	var asTOML bool
	cmd := &cobra.Command{
		Use: "settings",
		Long: "Prints every setting with its default and meaning. --toml prints them as a file for --config; with --recipe the settings\n" +
			"of the recipe have its values, and those that it derives from others are comments. --check FILE prints everything that is\n" +
			"wrong with a file, with line numbers. The environment adds the settings that the file does not have.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sections := config.Sections(pipeline.Settings{})
			if cmd.Flags().Changed("check") {
				return checkSettings(cmd, checked)
			}
			if asTOML {
				text, err := config.File(sections, name, config.Environ())
				fmt.Fprint(cmd.OutOrStdout(), text)
				return err
			}
			if name != "" {
				table, err := recipe.Table(name, config.Environ())
				if err != nil {
					return err
				}
				fmt.Fprint(cmd.OutOrStdout(), table)
				return nil
			}
			if commands != "" {
				return writeCommandPages(commands)
			}
			if papers != "" && python != "" {
				return errors.Join(writeRecipes(papers), writeForPython(python))
			}
			tables := config.Tables(sections)
			if file == "" {
				fmt.Fprint(cmd.OutOrStdout(), tables)
				return nil
			}
			return errors.Join(os.WriteFile(names, []byte(config.Names(sections)), 0o644), writeBetween(file, settingsBegin, settingsEnd, tables))
		},
	}
	cmd.Flags().StringVar(&checked, "check", "", "print everything that is wrong with this file of settings, and nothing else")
	cmd.Flags().BoolVar(&asTOML, "toml", false, "print a file of settings for --config")
	cmd.Flags().StringVar(&name, "recipe", "", "list instead the settings of a recipe, with their sections in the paper: "+strings.Join(recipe.Names(), ", "))
	cmd.Flags().StringVar(&file, "write", "", "write the tables into this file, between its marks")
	cmd.Flags().StringVar(&names, "write-names", "", "with --write: write the names that every program knows into this file")
	cmd.Flags().StringVar(&papers, "write-recipes", "", "write the table of every recipe into this file, between its marks")
	cmd.Flags().StringVar(&python, "write-python", "", "write the trainer's settings of each recipe into this file, for the Python package")
	cmd.Flags().StringVar(&commands, "write-commands", "", "write the reference of all commands into the pages in this folder, between their marks")
	cmd.MarkFlagsRequiredTogether("write", "write-names")
	cmd.MarkFlagsMutuallyExclusive("check", "toml", "write")
	return cmd
}

// checkSettings prints what is wrong with a file of settings, a line for each finding.
func checkSettings(cmd *cobra.Command, path string) error {
	n, err := config.Check[pipeline.Settings](path)
	if err == nil {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %d settings, nothing is wrong\n", path, n)
		return nil
	}
	fmt.Fprintln(cmd.OutOrStdout(), err)
	return fmt.Errorf("findings in %s: %d", path, 1+strings.Count(err.Error(), "\n"))
}

// writeBetween replaces the text between two marks of a file.
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

// The table of every recipe stands between these marks.
const (
	recipesBegin = "<!-- recipes: begin -->\n"
	recipesEnd   = "<!-- recipes: end -->"
)

// The table of departures stands between these marks.
const (
	departuresBegin = "<!-- departures: begin -->\n"
	departuresEnd   = "<!-- departures: end -->"
)

// writeRecipes writes the tables of recipes and of departures between their marks.
func writeRecipes(path string) error {
	table, err := recipe.PapersTable()
	if err != nil {
		return err
	}
	return errors.Join(writeBetween(path, recipesBegin, recipesEnd, table), writeBetween(path, departuresBegin, departuresEnd, recipe.DeparturesTable()))
}

// recipesForPython returns the trainer's settings of each recipe, including defaults and the sizes of an epoch.
func recipesForPython() ([]byte, error) {
	all := map[string]map[string]string{}
	for _, name := range recipe.Names() {
		means, err := recipe.Overlay(map[string]string{recipe.Variable: name})
		if err != nil {
			return nil, err
		}
		settings := map[string]string{}
		for _, s := range config.Settings(trainer.Options{}, dataset.Augmentation{}) {
			settings[s.Variable] = s.Default
		}
		for _, variable := range []string{"LANES", "GROUP_SIZE", "BATCH_SIZE", "EPOCHS"} {
			settings[variable] = recipe.Size(name, variable)
		}
		for variable := range settings {
			if value, ok := means[variable]; ok {
				settings[variable] = value
			}
		}
		all[name] = maps.Clone(settings)
	}
	text, err := json.MarshalIndent(all, "", " ")
	return append(text, '\n'), err
}

// writeForPython writes the file that the Python package reads.
func writeForPython(path string) error {
	text, err := recipesForPython()
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
