package batches

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestPlanReadsTombstonesOfAFolder has them in the log of an embedded broker that does not run.
func TestPlanReadsTombstonesOfAFolder(t *testing.T) {
	dir := t.TempDir()
	b := must.Get(broker.Start(broker.Options{DataDir: filepath.Join(dir, "broker")}))(t)
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Namespace = []string{b.Addr()}, "exp"
	log := must.Get(stream.Connect(t.Context(), cfg, stream.Options{}))(t)
	must.Do(t, log.EnsureTopics(t.Context()))
	must.Get(log.AddTombstones(t.Context(), map[string][]byte{"image/x": []byte("{}")}))(t)
	log.Close()
	must.Do(t, b.Close())
	for folder, want := range map[string]int{dir: 1, t.TempDir(): 0} {
		if notes, err := readForgotten(t.Context(), map[string]string{}, folder); err != nil || len(notes) != want || (forgottenDigest(notes) == "") != (want == 0) {
			t.Errorf("%s: tombstones %v, %v, want %d", folder, notes, err, want)
		}
	}
}

// TestCachesOfAPlanAreBounded has one lane and many. What all lanes keep together stays the same.
func TestCachesOfAPlanAreBounded(t *testing.T) {
	dir := t.TempDir()
	o := scenes.Defaults()
	o.Scenes = 2
	must.Do(t, scenes.WriteDir(t.Context(), dir, o, nil))
	weights := filepath.Join(dir, "w.safetensors")
	must.Do(t, os.WriteFile(weights, nil, 0o600))
	for _, lanes := range []int{1, 16} {
		p := must.Get(newPlanning([]string{dir}, filepath.Join(dir, "plan"), weights, map[string]string{"LANES": strconv.Itoa(lanes)}))(t)
		d := p.settings.Discriminator
		if kept := int64(lanes) * (d.KeepBytes + 50*int64(d.Keep)); kept > 128<<20 || kept < 100<<20 || d.Bucket.CacheBytes != 64<<20 || p.settings.Encoder.Bucket.CacheBytes != 64<<20 {
			t.Errorf("with %d lanes Con-D keeps %d bytes beside %d of images, want 128 MiB at most beside 64", lanes, kept, d.Bucket.CacheBytes)
		}
	}
}

// TestPlanShowsNoPasswords has one in the options of a place.
func TestPlanShowsNoPasswords(t *testing.T) {
	got := shownSources([]string{"/data", "s3://b/x?endpoint=http://alice:hunter2@h:9000"})
	if want := []string{"/data", "s3://b/x?endpoint=http://***@h:9000"}; !slices.Equal(got, want) {
		t.Errorf("sources %q, want %q", got, want)
	}
}

// TestPlanWithoutWeights names a model that is not there. The command says what to do, and leaves nothing that another
// try would stumble over.
func TestPlanWithoutWeights(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	o := scenes.Defaults()
	o.Scenes = 2
	must.Do(t, scenes.WriteDir(t.Context(), in("scenes"), o, nil))
	err := Run(t.Context(), Options{Sources: []string{in("scenes")}, Out: in("plan"), Weights: in("none"), Log: dir}, map[string]string{}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), in("none")) || !strings.Contains(err.Error(), "pairstream bootstrap") {
		t.Errorf("without the model: %v", err)
	}
	if _, err := os.Stat(in("plan")); !os.IsNotExist(err) {
		t.Errorf("the folder of the plan is there: %v", err)
	}
}
