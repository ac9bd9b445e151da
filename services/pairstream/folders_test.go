//go:build cgo

package main

import (
	"context"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pairstream/pairstream/internal/base/ownedfolder"
	"github.com/pairstream/pairstream/internal/crawl/plans"
	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// foreignFiles have the names that commands write, and others.
var foreignFiles = []string{
	"thesis.tex", ".git/HEAD", "work/notes.txt", "work/begun", "images/cat.jpg", "images/00000.tar", "scenes/draft.txt", "crops/a", "plan.json", "report.html",
	"00000.tar", "00000.parquet", "bootstrap.safetensors", "con-d.safetensors", "index.sqlite", "checkpoints/mine.safetensors", "published/mine.safetensors",
	"broker/notes.txt", "replay/a", "events.txt", plans.Name(0, 0),
}

// thesis fills a folder with files of the user's. check wants all of them as they were.
func thesis(t *testing.T) (dir string, check func(what string)) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "thesis")
	for _, name := range foreignFiles {
		path := filepath.Join(dir, filepath.FromSlash(name))
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte("mine: "+name), 0o644))
	}
	return dir, func(what string) {
		t.Helper()
		for _, name := range foreignFiles {
			if raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil || string(raw) != "mine: "+name {
				t.Errorf("%s: %s is %q (%v)", what, name, raw, err)
			}
		}
	}
}

// folderUses lists what commands do with the folders that a flag, an argument or a setting names. Each has the
// arguments of a command with the folder of a thesis, and what the error says.
var folderUses = map[string]struct {
	args func(dir, empty string) []string
	want string // empty: the command may work beside what is there
}{
	"demo --dir": {func(dir, _ string) []string { return []string{"demo", "--dir", dir, "--short"} }, "--dir is"},
	"demo --data": {func(dir, _ string) []string {
		return []string{"demo", "--data", dir, "--dir", filepath.Join(dir, "new")}
	}, "--dir lies in --data"},
	"batches --out": {func(dir, empty string) []string {
		return []string{"batches", "--out", dir, filepath.Join(empty, "scenes")}
	}, "--out is"},
	"batches --materialize": {func(dir, empty string) []string {
		return []string{"batches", "--out", filepath.Join(empty, "plan"), "--materialize", dir, filepath.Join(empty, "scenes")}
	}, "--materialize is"},
	"connections --out": {func(dir, _ string) []string { return []string{"connections", "--out", dir} }, "--out is"},
	"synth DIR":         {func(dir, _ string) []string { return []string{"synth", dir, "--scenes", "2"} }, "holds 1 tars already"},
	"faiss FOLDER":      {func(dir, _ string) []string { return []string{"faiss", dir} }, "SEGMENTS_ROOT"},
	"fetch --out": {func(dir, empty string) []string {
		return []string{"fetch", "--out", dir, filepath.Join(empty, "list.csv")}
	}, "exists already"},
	"up --data":              {func(dir, _ string) []string { return []string{"up", "--data", dir, "--addr", "127.0.0.1:0"} }, "w.safetensors"},
	"broker --data":          {func(dir, _ string) []string { return []string{"broker", "--data", dir, "--addr", "127.0.0.1:0"} }, ""},
	"progress --tensorboard": {func(dir, _ string) []string { return []string{"progress", "--tensorboard", dir} }, ""},
	"bootstrap --checkpoint-dir": {func(dir, empty string) []string {
		return []string{"bootstrap", empty, "--preset", "micro", "--steps", "1", "--out", filepath.Join(empty, "w"), "--checkpoint-dir", dir}
	}, ""},
	"finetune --checkpoint-dir": {func(dir, empty string) []string {
		return []string{"finetune", empty, "--weights", "/nowhere", "--steps", "1", "--out", filepath.Join(empty, "w"), "--checkpoint-dir", dir}
	}, ""},
}

// TestForeignFoldersSurviveEveryCommand points every command at a folder of the user's.
func TestForeignFoldersSurviveEveryCommand(t *testing.T) {
	testLog(t)
	empty := t.TempDir()
	brokers := os.Getenv("KAFKA_BROKERS")
	weights := filepath.Join(empty, "w.safetensors")
	must.Do(t, os.WriteFile(weights, []byte("none"), 0o644))
	mustCommand(t, "synth", filepath.Join(empty, "scenes"), "--scenes", "4")
	must.Do(t, os.WriteFile(filepath.Join(empty, "list.csv"), []byte("url,caption\nhttp://127.0.0.1:1/a.jpg,a dog\n"), 0o644))
	for name, value := range map[string]string{
		"LOG_LEVEL": "error", "ENCODER_CHECKPOINT": weights, "COND_CHECKPOINT": weights, "TRAIN_INIT": weights, "BUCKET_ROOTS": "file://" + empty, "CHECKPOINT_DIR": filepath.Join(empty, "ck"),
	} {
		t.Setenv(name, value)
	}
	for what, use := range folderUses {
		dir, check := thesis(t)
		t.Setenv("KAFKA_BROKERS", brokers)
		if what == "up --data" { // on a broker of its own
			t.Setenv("KAFKA_BROKERS", "")
		}
		ctx, cancel := context.WithCancel(t.Context())
		root := newRoot()
		root.SetArgs(use.args(dir, empty))
		root.SetErr(io.Discard)
		root.SetOut(io.Discard)
		if use.want == "" { // it goes on, and has begun when it prints
			root.SetOut(&lines{first: cancel})
		}
		err := root.ExecuteContext(ctx)
		cancel()
		if use.want != "" && (err == nil || !strings.Contains(err.Error(), use.want)) {
			t.Errorf("%s: error %v, want %q", what, err, use.want)
		}
		check(what)
	}
}

// lines calls first with the first that is written.
type lines struct{ first func() }

func (l *lines) Write(p []byte) (int, error) {
	l.first()
	return len(p), nil
}

// elsewhere are flags and settings of folders that the test above cannot try, with who looks after them.
var elsewhere = map[string]string{
	"status --data":             "reads run.env",
	"replay --data":             "run.env and checkpoints of the replay's namespace: internal/operate/rerun, TestReplayLeavesItsSettings",
	"batches --data":            "is read: tombstones of the run",
	"replay --checkpoints":      "TestPlainImagesAfterKills",
	"settings --write-commands": "TestPagesOfCommandsWantTheirMarks",
	"CHECKPOINT_DIR":            "trainer/service: only checkpoints of this log are taken and superseded; internal/log/weights: TestFiles",
	"CHECKPOINT_UPLOAD":         "trainer/service: TestS3RefusesWhatIsNoCopy",
	"SPOOL_DIR":                 "internal/crawl/shard: TestSpoolDeletesTheOldest",
	"CONSOLE_DIR":               "internal/operate/console/index: TestAForeignFileIsNoIndex",
	"CONSOLE_MANIFESTS":         "is read",
	"SEGMENTS_ROOT":             "files by the digest of what is in them",
	"REPACK_ROOT":               "files by the digest of what is in them",
	"BUCKET_ROOTS":              "is read",
	"EVAL_DATA":                 "is read",
}

// named matches what is said of a flag or setting that names a folder.
var named = regexp.MustCompile(`\bfolders?\b|place that gets|place in a bucket|places that`)

// TestEveryFolderIsTried wants each flag and setting that names a folder to be in one of the lists.
func TestEveryFolderIsTried(t *testing.T) {
	known := func(name string) bool {
		_, tried := folderUses[name]
		return tried || elsewhere[name] != ""
	}
	var found []string
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if named.MatchString(f.Usage) && f.Usage != rundir.DataUsage {
				found = append(found, c.Name()+" --"+f.Name)
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	for _, s := range config.Settings(pipeline.Settings{}) {
		if named.MatchString(s.Meaning) {
			found = append(found, s.Variable)
		}
	}
	if len(found) < 15 {
		t.Fatalf("%q are all flags and settings of folders: the test sees too little", found)
	}
	for _, name := range found {
		if !known(name) {
			t.Errorf("%s names a folder: say in folderUses what becomes of foreign files in it", name)
		}
	}
}

// TestDemoLooksAtItsDataFirst has a folder of an earlier demo, and data that are not there, or lie in it.
func TestDemoLooksAtItsDataFirst(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	demo := ownedfolder.Folder{Setting: "--dir", Path: in("demo"), Kind: "pairstream demo"}
	must.Get(demo.Claim())(t)
	must.Do(t, os.WriteFile(in("demo/report.html"), []byte("of the run before"), 0o644))
	must.Do(t, os.MkdirAll(in("demo/shards"), 0o755))
	must.Do(t, os.Symlink("demo", in("link")))
	must.Do(t, os.WriteFile(in("demo/w.safetensors"), []byte("weights"), 0o644))
	before := tree(t, dir)
	for _, c := range []struct{ data, dir, weights, want string }{
		{in("typo"), in("demo"), "", `--data is "` + in("typo")},
		{in("demo/shards"), in("demo"), "", "--data lies in --dir"},
		{in("demo/shards"), in("link"), "", "--data lies in --dir"},
		{in("demo"), in("demo"), "", "are one folder"},
		{in("demo"), in("demo/shards"), "", "--dir lies in --data"},
		{"", in("demo"), in("demo/w.safetensors"), "COND_CHECKPOINT lies in --dir"},
	} {
		t.Setenv("COND_CHECKPOINT", c.weights)
		if _, err := command(t, "demo", "--data", c.data, "--dir", c.dir, "--short"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("--data %s --dir %s: %v, want %q", c.data, c.dir, err, c.want)
		}
		if after := tree(t, dir); !maps.Equal(before, after) {
			t.Fatalf("--data %s --dir %s: left %q, want %q", c.data, c.dir, slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
		}
	}
}

// tree returns the files below a folder.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must.Do(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			found[path] = "a folder"
			return err
		}
		raw, err := os.ReadFile(path)
		if d.Type()&fs.ModeSymlink != 0 {
			err = nil
		}
		found[path] = string(raw)
		return err
	}))
	return found
}
