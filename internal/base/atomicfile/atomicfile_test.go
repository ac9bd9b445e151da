package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestSyncFolder(t *testing.T) {
	must.Check(t, SyncFolder(t.TempDir()))
	if err := SyncFolder(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// record notes the calls on which a loss of power depends, and lets the one named fail.
func record(t *testing.T, failing string) *[]string {
	t.Helper()
	oldSync, oldRename, oldLink, oldFolder := syncFile, rename, link, syncFolder
	t.Cleanup(func() { syncFile, rename, link, syncFolder = oldSync, oldRename, oldLink, oldFolder })
	var calls []string
	note := func(call string, err error) error {
		calls = append(calls, call)
		if call == failing {
			return errors.New("fault of the test")
		}
		return err
	}
	syncFile = func(f *os.File) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return note(fmt.Sprintf("sync %d bytes", info.Size()), f.Sync())
	}
	rename = func(from, to string) error {
		if err := note("rename to "+filepath.Base(to), nil); err != nil {
			return err
		}
		return os.Rename(from, to)
	}
	link = func(from, to string) error {
		return note("link "+filepath.Base(to), os.Link(from, to))
	}
	syncFolder = func(path string) error { return note("sync folder", openAndSync(path)) }
	return &calls
}

func content(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// All bytes are on the disk before the file has its name, and the name is on the disk when Write returns.
func TestWriteOutlastsALossOfPower(t *testing.T) {
	calls := record(t, "")
	path := filepath.Join(t.TempDir(), "a")
	must.Do(t, Write(path, 0o640, content("new text")))
	if want := []string{"sync 8 bytes", "rename to a", "sync folder"}; !slices.Equal(*calls, want) {
		t.Errorf("calls %q, want %q", *calls, want)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v (%v), want 0640", info.Mode(), err)
	}
}

// Whatever fails, the name has the old content and the folder holds nothing else.
func TestWriteFailsWithoutATrace(t *testing.T) {
	for _, failing := range []string{"content", "sync 3 bytes", "rename to a"} {
		t.Run(failing, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a")
			must.Do(t, os.WriteFile(path, []byte("old"), 0o600))
			record(t, failing)
			err := Write(path, 0o644, func(w io.Writer) error {
				if failing == "content" {
					return errors.New("fault of the test")
				}
				return content("new")(w)
			})
			if err == nil {
				t.Error("no error")
			}
			entries, err := os.ReadDir(filepath.Dir(path))
			raw, rerr := os.ReadFile(path)
			if err != nil || rerr != nil || len(entries) != 1 || string(raw) != "old" {
				t.Errorf("%v (%v) and %q (%v), want the old file alone", entries, err, raw, rerr)
			}
		})
	}
	record(t, "sync folder")
	if err := Write(filepath.Join(t.TempDir(), "a"), 0o644, content("new")); err == nil {
		t.Error("the folder was not synced, and no error")
	}
}

func TestAbort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint-1")
	f, err := Create(path, 0o644)
	must.Do(t, err)
	if fits, err := filepath.Match(".checkpoint-*.tmp", filepath.Base(f.Name())); !fits || err != nil {
		t.Errorf("the temporary name %s does not fit the pattern (%v)", f.Name(), err)
	}
	for range 2 {
		must.Check(t, f.Abort())
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); len(entries) > 0 || err != nil {
		t.Errorf("left %v (%v)", entries, err)
	}
	if f, err = Create(path, 0o644); err != nil {
		t.Fatal(err)
	}
	must.Check(t, errors.Join(f.Commit(), f.Abort()))
	if _, err := os.Stat(path); err != nil {
		t.Errorf("Abort after Commit removed the file: %v", err)
	}
}

// TestCommitNew gives a name once, and syncs before it does.
func TestCommitNew(t *testing.T) {
	calls := record(t, "")
	path := filepath.Join(t.TempDir(), "a")
	for i, want := range []error{nil, fs.ErrExist} {
		f := must.Get(Create(path, 0o644))(t)
		must.Get(fmt.Fprintf(f, "writer %d", i))(t)
		if err := f.CommitNew(); !errors.Is(err, want) {
			t.Errorf("writer %d: %v, want %v", i, err, want)
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != "writer 0" {
			t.Errorf("after writer %d: %q, %v", i, raw, err)
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
			t.Errorf("after writer %d there are %d files, want one", i, len(left))
		}
	}
	if want := []string{"sync 8 bytes", "link a", "sync folder", "sync 8 bytes", "link a"}; !slices.Equal(*calls, want) {
		t.Errorf("calls %q, want %q", *calls, want)
	}
}
