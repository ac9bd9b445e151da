package ownedfolder

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func folder(path string) Folder { return Folder{Setting: "--dir", Path: path, Kind: "pairstream demo"} }

// tree returns what lies below a folder, links as their targets.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must.Do(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Type()&fs.ModeSymlink != 0:
			found[path], err = os.Readlink(path)
		case d.IsDir():
			found[path] = "a folder"
		default:
			var raw []byte
			raw, err = os.ReadFile(path)
			found[path] = string(raw)
		}
		return err
	}))
	return found
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestForeignFoldersStayAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(dir string) (path string)
		want string
	}{
		{"a file in it", func(dir string) string { write(t, dir+"/thesis/a.tex", "x"); return dir + "/thesis" }, `holds "a.tex" and no .pairstream`},
		{"a hidden file in it", func(dir string) string { write(t, dir+"/thesis/.git", "x"); return dir + "/thesis" }, `holds ".git"`},
		{"a folder in it", func(dir string) string { write(t, dir+"/thesis/scenes/a", "x"); return dir + "/thesis" }, `holds "scenes"`},
		{"the marker of another command", func(dir string) string {
			write(t, dir+"/plan/"+Marker, "pairstream batches\n")
			write(t, dir+"/plan/plan.json", "x")
			return dir + "/plan"
		}, "belongs to `pairstream batches`"},
		{"a marker without a line", func(dir string) string { write(t, dir+"/a/"+Marker, ""); return dir + "/a" }, "reading "},
		{"a marker that is a folder", func(dir string) string { write(t, dir+"/a/"+Marker+"/b", "x"); return dir + "/a" }, "is a directory"},
		{"a file", func(dir string) string { return write(t, dir+"/a", "x") }, "want a folder"},
		{"below a file", func(dir string) string { return write(t, dir+"/a", "x") + "/b" }, "not a directory"},
		{"a link to a foreign folder", func(dir string) string {
			write(t, dir+"/thesis/a.tex", "x")
			must.Do(t, os.Symlink("thesis", dir+"/link"))
			return dir + "/link"
		}, `holds "a.tex"`},
		{"a link that leads nowhere", func(dir string) string { must.Do(t, os.Symlink("gone", dir+"/link")); return dir + "/link" }, "no such file"},
		{"no name", func(string) string { return "" }, "--dir is empty"},
		{"the root", func(string) string { return "/" }, "and no .pairstream"},
	} {
		dir := t.TempDir()
		f := folder(c.make(dir))
		before := tree(t, dir)
		_, claimed := f.Claim()
		for _, err := range []error{f.Check(), claimed, f.Empty(), f.Remove(), f.Remove("a.tex", "scenes", "plan.json")} {
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--dir") {
				t.Errorf("%s: error %v, want %q", c.name, err, c.want)
			}
		}
		if after := tree(t, dir); !maps.Equal(before, after) {
			t.Errorf("%s: left %v, want %v", c.name, after, before)
		}
	}
	f := folder(filepath.Dir(write(t, t.TempDir()+"/a", "x")))
	if err := f.Check(); !errors.Is(err, ErrForeign) {
		t.Errorf("%v is no ErrForeign", err)
	}
}

// A folder that was claimed may be emptied and removed. What links lead to stays.
func TestOwnFoldersAreEmptiedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	kept := write(t, dir+"/kept/a", "x")
	must.Do(t, os.Symlink(dir+"/real/demo", dir+"/link"))
	must.Do(t, os.MkdirAll(dir+"/real/demo", 0o755))
	f := folder(dir + "/link")
	at := must.Get(f.Claim())(t)
	write(t, at+"/scenes/a", "x")
	must.Do(t, os.Symlink(filepath.Dir(kept), at+"/out"))
	must.Do(t, f.Empty())
	if left := must.Get(os.ReadDir(dir + "/real/demo"))(t); len(left) != 1 || left[0].Name() != Marker {
		t.Errorf("left %v", left)
	}
	write(t, filepath.Join(at, "work", "a"), "x")
	write(t, at+"/plan", "x")
	must.Do(t, f.Remove("work", "never"))
	if _, err := os.Stat(at + "/plan"); err != nil {
		t.Error(err)
	}
	must.Do(t, f.Remove())
	if _, err := os.Stat(dir + "/real/demo"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
	must.Do(t, folder(dir+"/never").Remove())
}

func TestFoldersLieApartFromInputs(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/shards/deep/0.tar", "x")
	must.Do(t, os.Symlink(dir+"/shards/deep", dir+"/link"))
	for _, c := range []struct{ path, input, want string }{
		{"demo", "shards", ""},
		{"shards-too", "shards", ""},
		{"demo", "", ""},
		{"shards", "shards", "are one folder"},
		{"shards/../shards/.", "shards", "are one folder"},
		{"shards", "shards/deep", "--data lies in --dir"},
		{"shards", "shards/deep/0.tar", "--data lies in --dir"},
		{"shards", "link", "--data lies in --dir"},
		{"shards/demo", "shards", "--dir lies in --data"},
		{"link/demo/new", "shards", "--dir lies in --data"},
		{"demo", "demo/typo", "--data lies in --dir"},
	} {
		input := c.input
		if input != "" {
			input = filepath.Join(dir, input)
		}
		err := folder(dir + "/" + c.path).Apart(Place{"--data", input})
		if within := folder(dir + "/" + c.path).Without(Place{"--data", input}); (within != nil) != (err != nil && !strings.Contains(c.want, "--dir lies in")) {
			t.Errorf("%s holds %s: %v", c.path, c.input, within)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s and %s: %v, want %q", c.path, c.input, err, c.want)
		}
	}
}
