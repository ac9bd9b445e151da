//go:build cgo

package main

import (
	"encoding/json"
	"maps"
	"os"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/recipe"
	"github.com/pairstream/pairstream/internal/service/device"
	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

// The table of every recipe stands between these marks.
const (
	recipesBegin = "<!-- recipes: begin -->\n"
	recipesEnd   = "<!-- recipes: end -->"
)

// writeRecipes writes the table of every recipe between its marks.
func writeRecipes(path string) error {
	table, err := recipe.PapersTable()
	if err != nil {
		return err
	}
	return writeBetween(path, recipesBegin, recipesEnd, table)
}

// recipesForPython returns what each recipe means to a trainer, its defaults included, and the sizes of an epoch.
func recipesForPython() ([]byte, error) {
	all := map[string]map[string]string{}
	for _, name := range recipe.Names() {
		means, err := recipe.Overlay(map[string]string{recipe.Variable: name})
		if err != nil {
			return nil, err
		}
		settings := map[string]string{}
		for _, s := range config.Settings(trainerservice.Core{}, device.Augmentation{}) {
			settings[s.Variable] = s.Default
		}
		for _, variable := range []string{"LANES", "GROUP_SIZE", "BATCH_SIZE"} {
			settings[variable] = recipe.Size(name, variable)
		}
		delete(settings, "IMAGE_WORKERS") // changes no image
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
