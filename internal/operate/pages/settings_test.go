package pages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// The console takes the settings of the run whose log it shows, and keeps its index beside that log.
func TestSettingsAreThoseOfTheRun(t *testing.T) {
	for _, name := range []string{"ECM_HIGH", "ECM_LOW", "GROUP_SIZE", "CONSOLE_DIR", "NAMESPACE", "BUCKET_ROOTS"} {
		t.Setenv(name, "")
		must.Do(t, os.Unsetenv(name))
	}
	dir := t.TempDir()
	must.Do(t, rundir.WriteEnv(dir, "", map[string]string{"ECM_HIGH": "0.95", "GROUP_SIZE": "400"}))
	s := must.Get(SettingsIn(dir))(t)
	if s.Shown.High != 0.95 || s.Shown.Low != 0.5 || s.Group.GroupSize != 400 || s.Console.Dir != filepath.Join(dir, "console") {
		t.Errorf("settings %+v", s)
	}
	t.Setenv("CONSOLE_DIR", "elsewhere")
	if s := must.Get(SettingsIn(dir))(t); s.Console.Dir != "elsewhere" {
		t.Errorf("the index lies in %s, want CONSOLE_DIR", s.Console.Dir)
	}
	for name, value := range map[string]string{"ECM_LOW": "0.99", "GROUP_SIZE": "0"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if _, err := SettingsIn(dir); err == nil || !strings.Contains(err.Error(), name+" is "+value) {
				t.Errorf("error %v, want one that names %s and its value", err, name)
			}
		})
	}
}
