package batches

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/base/ownedfolder"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/plans"
	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// smallWeights are those of a small model that has made one step, for all tests.
var smallWeights = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx, o := context.Background(), scenes.Defaults()
	o.Scenes, o.Side = 8, 48
	if err := scenes.WriteDir(ctx, dir, o, nil); err != nil {
		return nil, err
	}
	data, _, err := dataset.Read(ctx, []string{dir}, 0)
	if err != nil {
		return nil, err
	}
	w, err := torch.NewWorker(torch.WorkerOptions{Threads: 1})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	images, closeImages, err := bootstrap.Images(ctx, []string{dir}, 32, 1<<20)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "w.safetensors")
	err = bootstrap.Train(ctx, w, images, data, bootstrap.Options{
		Preset: "micro", Vocab: token.BuildVocab(data.Captions, 2000, 2), Steps: 1, Batch: 4, Rate: 5e-4, Augment: dataset.Augmentation{MinScale: 1}, Weights: bootstrap.Weights{ITC: 1, ITM: 1, MLM: 1},
	}, path)
	if err != nil {
		return nil, err
	}
	if err := closeImages(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// setUp draws scenes. It returns the paths of its files, the options of a plan of one epoch of them in plan, and the
// settings.
func setUp(t *testing.T, count int) (in func(string) string, o Options, environ map[string]string) {
	t.Helper()
	dir := t.TempDir()
	in = func(name string) string { return filepath.Join(dir, name) }
	drawn := scenes.Defaults()
	drawn.Scenes, drawn.Side = count, 48
	must.Do(t, scenes.WriteDir(t.Context(), in("scenes"), drawn, nil))
	must.Do(t, os.WriteFile(in("w.safetensors"), must.Get(smallWeights())(t), 0o600))
	return in, Options{Sources: []string{in("scenes")}, Columns: table.PictureColumns{Image: "image", Caption: "caption"}, Out: in("plan"), Log: in("no log")},
		map[string]string{
			"LANES": "2", "SEED": "3", "BUCKET_ROOTS": "file://" + dir, "LOG_LEVEL": "warn", "EPOCHS": "1",
			"ENCODER_CHECKPOINT": in("w.safetensors"), "COND_CHECKPOINT": in("w.safetensors"), "COND_MIN_PRECISION": "0", "TRAIN_INIT": in("w.safetensors"),
			"GROUP_SIZE": "16", "CLUSTERS": "3", "NEIGHBORS_K2": "8", "NOUN_MIN_COUNT": "1", "BATCH_SIZE": "4", "STEP_BATCHES": "1", "QUEUE_SIZE": "8",
			"SEARCH_SPACE": "8", "TORCH_THREADS": "1",
		}
}

// plan writes a plan and returns what is printed.
func plan(t *testing.T, o Options, environ map[string]string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := Run(t.Context(), o, maps.Clone(environ), &out)
	return out.String(), err
}

// filesIn returns the files of a plan but for its report, which tells times.
func filesIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		if name := e.Name(); name != ownedfolder.Marker && name != "report.html" {
			found[name] = must.Get(os.ReadFile(filepath.Join(dir, name)))(t)
		}
	}
	return found
}

// manifestIn returns plan.json.
func manifestIn(t *testing.T, dir string) (m Manifest) {
	t.Helper()
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join(dir, "plan.json")))(t), &m))
	return m
}

// rowsOf returns the samples of a plan.
func rowsOf(t *testing.T, dir string, files []plans.File) (rows []table.Row) {
	t.Helper()
	for _, file := range files {
		must.Do(t, table.ParquetFile(t.Context(), filepath.Join(dir, file.Name), func(r table.Row) error {
			rows = append(rows, r)
			return nil
		}))
	}
	return rows
}

// wantError fails unless a plan ends with an error that says so.
func wantError(t *testing.T, name, want string, o Options, environ map[string]string) {
	t.Helper()
	if out, err := plan(t, o, environ); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %q, %v, want %q", name, out, err, want)
	}
}

// sameFiles fails unless two plans have the same files.
func sameFiles(t *testing.T, got, want map[string][]byte) {
	t.Helper()
	if !maps.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("the files are %q, want %q with the same bytes", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
