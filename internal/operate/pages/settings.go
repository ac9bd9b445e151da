package pages

import (
	"fmt"
	"path/filepath"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
)

// Settings are the console's settings, and settings of stages whose results it shows. They repeat fields of the stages'
// own structs, which a build without cgo does not have.
type Settings struct {
	Console console.Settings
	Group   Group
	Shown   Shown
}

// Shown are settings of stages whose results the console shows.
type Shown struct {
	Roots     []string       `env:"BUCKET_ROOTS" desc:"places that image references may name, comma separated: file:///data, s3://bucket/prefix, gs://bucket"`
	High      float64        `env:"ECM_HIGH" envDefault:"0.8" desc:"probability above which a candidate is a connection"`
	Low       float64        `env:"ECM_LOW" envDefault:"0.5" desc:"probability below which a candidate is a negative; from LOW to HIGH it is passed over"`
	LiveToken display.Secret `env:"LIVE_TOKEN" desc:"token that live search asks for (Authorization: Bearer); never printed; empty: none, on a loopback address only"`
}

// Validate refuses values that the trainer would refuse.
func (s Shown) Validate() error {
	if !(s.Low >= 0 && s.Low <= s.High && s.High <= 1) {
		return fmt.Errorf("ECM_LOW is %g and ECM_HIGH is %g, want 0 <= ECM_LOW <= ECM_HIGH <= 1", s.Low, s.High)
	}
	return nil
}

// SettingsIn returns the settings of the console of a run whose log lies in dir.
func SettingsIn(dir string) (s Settings, err error) {
	environ, err := rundir.EnvironIn(dir)
	if err != nil {
		return s, err
	}
	s, err = config.Parse[Settings](environ)
	s.Console.Dir = IndexDir(environ, s.Console.Dir, dir)
	return s, err
}

// IndexDir returns CONSOLE_DIR, or else a folder beside the log.
func IndexDir(environ map[string]string, set, dir string) string {
	if environ["CONSOLE_DIR"] != "" {
		return set
	}
	return filepath.Join(dir, "console")
}

// Group holds the indexer's settings that status needs. A build without cgo does not have the indexer's own.
type Group struct {
	GroupSize int `env:"GROUP_SIZE" envDefault:"5000000" desc:"distinct pairs of a lane that are indexed and clustered together"`
}

// Validate refuses values that the indexer would refuse.
func (s Group) Validate() error {
	o := indexer.DefaultOptions()
	o.GroupSize = s.GroupSize
	return o.Validate()
}
