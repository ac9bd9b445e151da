package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pairstream/pairstream/internal/content/language"
)

// modelsFile is the name of the file of language models.
const modelsFile = "languages.zip"

// remedy tells where the models come from.
const remedy = "with the command of a wheel, pip install pairstream_languages-*.whl of the release brings them; in a checkout of pairstream, `make languages` makes the file"

// detector returns a function that opens the models of languages once, for all lanes and spans.
func detector(path string) func() (func(string) string, error) {
	return sync.OnceValues(func() (func(string) string, error) {
		if path == "" {
			var err error
			if path, err = defaultModels(modelPlaces()); err != nil {
				return nil, err
			}
		}
		d, err := language.Open(path)
		if err != nil {
			return nil, fmt.Errorf("LANGUAGE_MODELS is %q: %w; %s", path, err, remedy)
		}
		return d.Of, nil
	})
}

// modelPlaces returns the folders to search for the models: beside the program, where a distribution's package puts
// them, and in the Go module cache, where a locally built program finds them.
func modelPlaces() []string {
	var places []string
	if program, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(program); err == nil {
			program = real
		}
		folder := filepath.Dir(program)
		places = append(places, filepath.Join(folder, modelsFile), filepath.Join(folder, "..", "share", "pairstream", modelsFile))
	}
	modules := os.Getenv("GOMODCACHE")
	if modules == "" {
		first := filepath.SplitList(os.Getenv("GOPATH"))
		if home, err := os.UserHomeDir(); err == nil {
			first = append(first, filepath.Join(home, "go"))
		}
		if len(first) == 0 {
			return places
		}
		modules = filepath.Join(first[0], "pkg", "mod")
	}
	return append(places, filepath.Join(modules, filepath.FromSlash(language.Module)+"@"+language.Version, language.Folder))
}

// defaultModels returns the first place where something is.
func defaultModels(places []string) (string, error) {
	for _, place := range places {
		if _, err := os.Stat(place); err == nil {
			return place, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("looking for language models: %w", err)
		}
	}
	return "", fmt.Errorf("the models of languages are not there: looked for %s. They can be had: %s. Put the file in one of these places, or name it in LANGUAGE_MODELS",
		strings.Join(places, ", "), remedy)
}
