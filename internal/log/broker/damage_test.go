package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
)

// told plays the story up to its last stop, and returns the folder and what was acknowledged. A log that was killed has
// no snapshots.
func told(t *testing.T, killed bool) (dir string, want acked) {
	t.Helper()
	s := &story{options: Options{DataDir: filepath.Join(t.TempDir(), "broker"), disk: &testDisk{}, compactMin: 1}}
	must.Do(t, s.tell())
	if !killed {
		return s.options.DataDir, s.now()
	}
	must.Do(t, s.start())
	must.Do(t, s.line("pairs", 200))
	must.Do(t, s.noteOf("control", "key 0", 200))
	must.Do(t, s.client.commit("readers", "pairs", 7))
	dir = t.TempDir()
	must.Do(t, os.CopyFS(dir, os.DirFS(s.options.DataDir)))
	must.Do(t, s.stop())
	return dir, s.now()
}

// content returns the files of a folder by their paths in it.
func content(dir string) (map[string]string, error) {
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, rerr := filepath.Rel(dir, path)
		files[name] = string(raw)
		return errors.Join(err, rerr)
	})
	return files, err
}

// TestOneBit changes one bit of the log. The broker starts and has everything, or it does not start, names the file and
// changes nothing. With damage set aside, it starts, and has all that the bit is not in.
func TestOneBit(t *testing.T) {
	for name, killed := range map[string]bool{"after a kill": true, "after an orderly end": false} {
		t.Run(name, func(t *testing.T) {
			dir, want := told(t, killed)
			files := must.Get(content(dir))(t)
			refused, all := 0, errgroup.Group{}
			all.SetLimit(4)
			results := make(chan bool, 1<<16)
			for _, file := range slices.Sorted(maps.Keys(files)) {
				for at := 0; at < len(files[file]); at += soak.Choose(5, 1) {
					all.Go(func() error {
						no, err := oneBit(t.TempDir(), files, file, at, want)
						if err != nil {
							t.Errorf("%s, byte %d: %v", file, at, err)
						}
						results <- no
						return nil
					})
				}
			}
			must.Do(t, all.Wait())
			close(results)
			for no := range results {
				if no {
					refused++
				}
			}
			t.Logf("%d starts were refused", refused)
			if refused == 0 {
				t.Error("no start was refused")
			}
		})
	}
}

func oneBit(dir string, files map[string]string, file string, at int, want acked) (refused bool, err error) {
	flipped := []byte(files[file])
	flipped[at] ^= 1 << (at % 8)
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return false, err
		}
		raw := []byte(text)
		if name == file {
			raw = flipped
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			return false, err
		}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	before, err := content(dir)
	if err != nil {
		return false, err
	}
	b, err := Start(Options{DataDir: dir, disk: &testDisk{}, compactMin: 1})
	if err == nil {
		return false, errors.Join(want.check(b), b.Close())
	}
	var damage *DamageError
	if !errors.As(err, &damage) || filepath.Dir(damage.Path) != filepath.Dir(filepath.Join(dir, file)) || strings.Contains(err.Error(), "\n") {
		return false, fmt.Errorf("refused with %w", err)
	}
	after, err := content(dir)
	if err == nil && before[file] != after[file] {
		err = errors.New("the refused start has changed the file")
	}
	if err != nil || filepath.Base(file) == topicsFile {
		return true, err
	}
	return true, setAside(dir, want)
}

// setAside starts the broker in spite of damage. At most the batch with the bit is not there.
func setAside(dir string, want acked) error {
	b, err := Start(Options{DataDir: dir, disk: &testDisk{}, compactMin: 1, SetAsideDamage: true})
	if err != nil {
		return fmt.Errorf("setting aside: %w", err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	c, err := newAsker(b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.conn.Close()) }()
	records, _, err := c.read("pairs")
	missing := slices.DeleteFunc(slices.Clone(want.lines["pairs"]), func(line string) bool {
		return slices.ContainsFunc(records, func(r kmsg.Record) bool { return string(r.Value) == line })
	})
	if len(missing) > 2 {
		return fmt.Errorf("%q are set aside, want two of a batch", missing)
	}
	if err == nil {
		_, _, err = c.read("control")
	}
	if err == nil {
		_, err = c.produce("pairs", batchOf(nil, "goes on"))
	}
	return err
}
