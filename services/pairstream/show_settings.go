package main

import (
	"fmt"
	"path/filepath"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/process/config"
)

// consoleSettings are the console's own, and those of other stages that it shows results of. A build without cgo does
// not have the stages' own structs.
type consoleSettings struct {
	Console console.Settings
	Group   groupSettings
	Shown   shownSettings
}

// shownSettings are settings of stages whose results the console shows.
type shownSettings struct {
	Roots     []string       `env:"BUCKET_ROOTS" desc:"places that image references may name, comma separated: file:///data, s3://bucket/prefix, gs://bucket"`
	High      float64        `env:"ECM_HIGH" envDefault:"0.8" desc:"probability above which a candidate is a connection"`
	Low       float64        `env:"ECM_LOW" envDefault:"0.5" desc:"probability below which a candidate is a negative; from LOW to HIGH it is passed over"`
	LiveToken display.Secret `env:"LIVE_TOKEN" desc:"token that live search asks for (Authorization: Bearer); never printed; empty: none, on a loopback address only"`
}

// Validate refuses what the trainer would refuse.
func (s shownSettings) Validate() error {
	if !(s.Low >= 0 && s.Low <= s.High && s.High <= 1) {
		return fmt.Errorf("ECM_LOW is %g and ECM_HIGH is %g, want 0 <= ECM_LOW <= ECM_HIGH <= 1", s.Low, s.High)
	}
	return nil
}

// consoleSettingsIn returns the settings of the console of a run whose log lies in dir.
func consoleSettingsIn(dir string) (s consoleSettings, err error) {
	environ, err := environIn(dir)
	if err != nil {
		return s, err
	}
	s, err = config.Parse[consoleSettings](environ)
	s.Console.Dir = consoleDir(environ, s.Console.Dir, dir)
	return s, err
}

// consoleDir puts the index beside the log, unless the environment says where.
func consoleDir(environ map[string]string, set, dir string) string {
	if environ["CONSOLE_DIR"] != "" {
		return set
	}
	return filepath.Join(dir, "console")
}

// groupSettings holds the indexer's settings that status needs. A build without cgo does not have the indexer's own.
type groupSettings struct {
	GroupSize int `env:"GROUP_SIZE" envDefault:"5000000" desc:"distinct pairs of a lane that are indexed and clustered together"`
}

// Validate refuses what the indexer would refuse.
func (s groupSettings) Validate() error {
	o := indexer.DefaultOptions()
	o.GroupSize = s.GroupSize
	return o.Validate()
}
