package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestTextsOfOtherEditors reads what users write with a byte order mark before it: settings, and keys that are taken
// back.
func TestTextsOfOtherEditors(t *testing.T) {
	const mark = "\xef\xbb\xbf"
	path := filepath.Join(t.TempDir(), "run.env")
	must.Do(t, os.WriteFile(path, []byte(mark+"MARKED_SETTING=7\r\n"), 0o600))
	if environ, err := rundir.EnvironOf(path); err != nil || environ["MARKED_SETTING"] != "7" {
		t.Errorf("the setting is %q, error %v", environ["MARKED_SETTING"], err)
	}
	if lines, err := readLines("-", strings.NewReader(mark+"first\r\nsecond")); err != nil || !reflect.DeepEqual(lines, []string{"first", "second"}) {
		t.Errorf("lines %q, error %v", lines, err)
	}
	if _, err := readLines("-", strings.NewReader("\xff\xfea\x00")); err == nil {
		t.Error("UTF-16 is read")
	}
}
