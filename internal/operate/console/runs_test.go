package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/compare"
	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/operate/replay"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/runlog"
)

// beside writes another run to the same broker, with references to the same images.
func (s *site) beside(namespace string, o runlog.Options) {
	s.t.Helper()
	cfg := s.log.Config()
	cfg.Namespace = namespace
	log := must.Get(stream.Connect(s.t.Context(), cfg, stream.Options{}))(s.t)
	defer log.Close()
	must.Do(s.t, log.EnsureTopics(s.t.Context()))
	o.Dir = filepath.Dir(strings.TrimPrefix(s.run.Pairs[0].Image.URI, "file://"))
	must.Get(runlog.Write(s.t.Context(), log, o))(s.t)
}

// describe writes a manifest of the run into the folder of manifests.
func (s *site) describe(name string, settings map[string]string) *replay.Manifest {
	s.t.Helper()
	m := must.Get(replay.Describe(s.t.Context(), s.log, replay.DescribeOptions{Open: true, Settings: settings}))(s.t)
	must.Do(s.t, atomicfile.Write(filepath.Join(s.options.Settings.Manifests, name), 0o600, m.Write))
	return m
}

// until loads a page again as it asks for, and returns it when it is complete.
func (s *site) until(path string) string {
	s.t.Helper()
	for range 200 {
		if body := s.get(path); !strings.Contains(body, "data-reload") {
			return body
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.t.Fatalf("%s is not complete after four seconds", path)
	return ""
}

func TestReplaysAreCompared(t *testing.T) {
	dir := t.TempDir()
	s := open(t, small, func(o *console.Options) {
		o.Settings.Manifests, o.Settings.Namespaces = dir, []string{"again", "other", "gone"}
	})
	s.beside("again", small)
	other := small
	other.Captions = map[int]string{200: "another <i>caption</i>"}
	s.beside("other", other)
	m := s.describe("run.json", map[string]string{"SEED": "7"})
	must.Do(t, os.WriteFile(filepath.Join(dir, "broken.json"), []byte("{"), 0o600))

	list := s.get("/replays")
	for _, want := range []string{`href="/replays/run.json"`, "broken.json", "unexpected end of JSON input"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list of replays does not show %q:\n%s", want, list)
		}
	}
	for path, wants := range map[string][]string{
		"/replays/run.json":            {"SEED", "<option>again</option>", "240", m.Topics[0].Lanes[0].Digest[:15]},
		"/replays/run.json?with=again": {"Every record is equal.", ">equal</span>"},
		"/replays/run.json?with=other": {"lanes differ.", `>differs</span> <code class="break">record 200: id: `},
		"/replays/broken.json":         {"unexpected end of JSON input"},
	} {
		body := s.until(path)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s does not show %q:\n%s", path, want, body)
			}
		}
		if equal := strings.Contains(body, "Every record is equal"); equal != strings.HasSuffix(path, "again") {
			t.Errorf("%s calls the runs equal: %v", path, equal)
		}
	}
	if body := s.until("/replays/run.json?with=gone"); !strings.Contains(body, "there is no run in namespace &#34;gone&#34;") {
		t.Errorf("a run that is not there compares as\n%s", body)
	}
	if status, _, _ := s.ask(http.MethodGet, "/replays/run.json?with=elsewhere", nil, nil); status != http.StatusBadRequest {
		t.Errorf("a namespace that is not named in the settings: status %d", status)
	}
}

// TestManifestsOfStrangers has files in CONSOLE_MANIFESTS that a reader would wait for, cannot draw or must not show as
// they are.
func TestManifestsOfStrangers(t *testing.T) {
	dir := t.TempDir()
	s := open(t, small, func(o *console.Options) { o.Settings.Manifests = dir })
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "pipe.json"), 0o600))
	m := s.describe("good.json", map[string]string{"SEED": "7"})
	m.Models[0].Topic, m.Settings["BUCKET_ROOTS"] = "\u202eevil", "s3://b?endpoint=http://a:hunter2@h"
	must.Do(t, atomicfile.Write(filepath.Join(dir, "evil.json"), 0o600, m.Write))
	m.Course.Curves[0].Values = m.Course.Curves[0].Values[:1]
	must.Do(t, atomicfile.Write(filepath.Join(dir, "short.json"), 0o600, m.Write))
	for path, want := range map[string]string{
		"/replays/pipe.json":                   "want an ordinary file",
		"/replays/short.json":                  " and 1 values",
		"/replays/evil.json":                   "http://***@h",
		"/compare?run=good.json&run=evil.json": "http://***@h",
	} {
		if body := s.get(path); !strings.Contains(body, want) || strings.Contains(body, "\u202e") || strings.Contains(body, "hunter2") {
			t.Errorf("%s shows\n%s\nwant %s", path, body, want)
		}
	}
	for _, name := range []string{"pipe.json", "short.json"} {
		for _, page := range []string{"/compare", "/compare/curves"} {
			if status, _, _ := s.ask(http.MethodGet, page+"?run=good.json&run="+name, nil, nil); status != http.StatusBadRequest {
				t.Errorf("%s of %s: status %d", page, name, status)
			}
		}
	}
}

func TestCurvesOfSeveralRuns(t *testing.T) {
	s := open(t, small, func(o *console.Options) { o.Settings.Namespaces = []string{"short", "gone"} })
	short := small
	short.Epochs = 2
	s.beside("short", short)
	var curves []struct {
		Name string       `json:"name"`
		Runs []string     `json:"runs"`
		X    []int64      `json:"x"`
		Y    [][]*float64 `json:"y"`
	}
	must.Do(t, json.Unmarshal([]byte(s.get("/training/curves")), &curves))
	if len(curves) == 0 {
		t.Fatal("there are no curves")
	}
	for _, c := range curves {
		if got, want := fmt.Sprint(c.Runs[:2]), "[this run short]"; got != want || len(c.X) != 30 || len(c.Y) != len(c.Runs) {
			t.Fatalf("%s has runs %s, %d steps and %d rows, want %s, 30 steps and a row for each run", c.Name, got, len(c.X), len(c.Y), want)
		}
		for k := range c.X {
			own, other := c.Y[0][k], c.Y[1][k]
			if own == nil || (other == nil) != (k >= 20) || other != nil && *own != *other {
				t.Errorf("%s at step %d: %v and %v, want the same up to step 19, and then nothing of the shorter run", c.Name, k, own, other)
			}
		}
	}
	page := s.get("/training")
	for _, want := range []string{"this run: step 29", "short: step 19", "Not shown: gone: there is no run in namespace"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// TestTrainingBesideAManifest chooses a run of CONSOLE_MANIFESTS to be drawn beside this one.
func TestTrainingBesideAManifest(t *testing.T) {
	dir := t.TempDir()
	s := open(t, small, func(o *console.Options) { o.Settings.Manifests = dir })
	s.describe("grit.json", nil)
	old := s.describe("old.json", nil)
	old.Course = nil
	must.Do(t, atomicfile.Write(filepath.Join(dir, "old.json"), 0o600, old.Write))
	if page := s.get("/training"); !strings.Contains(page, "<option>grit.json</option>") || !strings.Contains(page, `data-curves="/training/curves"`) || strings.Contains(page, `class="run"`) {
		t.Errorf("no run can be chosen:\n%s", page)
	}
	page := s.get("/training?with=grit.json")
	for _, want := range []string{"<option selected>grit.json</option>", `data-curves="/training/curves?with=grit.json"`, "this run: step 29", "grit: step 29", `<span class="run">grit `, "<td>grit</td>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
	var curves []compare.Overlay
	must.Do(t, json.Unmarshal([]byte(s.get("/training/curves?with=grit.json")), &curves))
	if len(curves) == 0 || fmt.Sprint(curves[0].Runs) != "[this run grit]" {
		t.Fatalf("curves %+v", curves)
	}
	for _, c := range curves {
		for k := range c.X {
			if own, other := c.Y[0][k], c.Y[1][k]; own == nil || other == nil || math.Abs(*own-*other) > 1e-9 {
				t.Errorf("%s at step %d: %v and %v of the same run", c.Name, c.X[k], own, other)
			}
		}
	}
	for with, want := range map[string]string{"old.json": "old.json has no curves", "none.json": "reading the manifest", "..%2Fx.json": "is no manifest of CONSOLE_MANIFESTS"} {
		for _, path := range []string{"/training", "/training/curves"} {
			if status, page, _ := s.ask(http.MethodGet, path+"?with="+with, nil, nil); status != http.StatusBadRequest || !strings.Contains(page, want) {
				t.Errorf("%s with %s: status %d and\n%s", path, with, status, page)
			}
		}
	}
}

// TestRunsSideBySide ticks two runs on the page Replays. One manifest is of an older version, and has no course.
func TestRunsSideBySide(t *testing.T) {
	dir := t.TempDir()
	s := open(t, small, func(o *console.Options) { o.Settings.Manifests = dir })
	s.describe("grit.json", map[string]string{"SEED": "7", "ECM_HIGH": "0.9"})
	old := s.describe("old.json", map[string]string{"SEED": "7", "ECM_HIGH": ""})
	old.Course, old.Settings["CAPTION"] = nil, "<b>bold</b>"
	must.Do(t, atomicfile.Write(filepath.Join(dir, "old.json"), 0o600, old.Write))
	if list := s.get("/replays"); !strings.Contains(list, `<input type="checkbox" name="run" value="grit.json"`) || !strings.Contains(list, `action="/compare"`) {
		t.Errorf("the list cannot be ticked:\n%s", list)
	}
	body := s.get("/compare?run=grit.json&run=old.json")
	for _, want := range []string{"ECM_HIGH", "0.9", "Equal settings: 1.", "&lt;b&gt;bold", "240, equal", "No figures of old", "/compare/curves?run=grit.json&amp;run=old.json", `data-name="loss_itc"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the comparison does not say %q:\n%s", want, body)
		}
	}
	var curves []compare.Overlay
	must.Do(t, json.Unmarshal([]byte(s.get("/compare/curves?run=grit.json&run=old.json")), &curves))
	if len(curves) == 0 || len(curves[0].Y) != 2 || curves[0].Y[0][0] == nil || curves[0].Y[1][0] != nil || curves[0].Runs[0] != "grit" {
		t.Errorf("curves %+v, want those of grit beside nothing", curves)
	}
	for path, want := range map[string]string{
		"/compare":                               "0 runs: compares 2 to 8 runs",
		"/compare?run=grit.json&run=grit.json":   "1 runs: compares 2 to 8 runs",
		"/compare?run=grit.json&run=none.json":   "none.json: reading the manifest",
		"/compare?run=grit.json&run=..%2Fx.json": "is no manifest of CONSOLE_MANIFESTS",
	} {
		if status, page, _ := s.ask(http.MethodGet, path, nil, nil); status != http.StatusBadRequest || !strings.Contains(page, want) {
			t.Errorf("%s: status %d and\n%s\nwant %q", path, status, page, want)
		}
	}
}

// TestComparisonStandsAlone writes the page of a comparison, whose names are a stranger's.
func TestComparisonStandsAlone(t *testing.T) {
	line := func(last float64) *compare.Course {
		return &compare.Course{Curves: []compare.Curve{{Name: "loss", Steps: []int64{0, 10}, Values: []float64{3, last}}}}
	}
	c := must.Get(compare.Of([]compare.Run{{Name: "<i>a", Settings: map[string]string{"SEED": "1"}, Course: line(2)}, {Name: "b", Settings: map[string]string{"SEED": "2"}, Course: line(1)}}))(t)
	var page bytes.Buffer
	must.Do(t, console.WriteComparison(&page, c, time.Unix(0, 0)))
	body := page.String()
	for _, want := range []string{"&lt;i&gt;a</span>", "Settings that differ", "SEED", `<title>Loss over the training steps</title>`, "<style>", "default-src 'none'"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not have %q:\n%s", want, body)
		}
	}
	if strings.Count(body, "stroke-linejoin") != 2 || strings.Contains(body, "<script") || strings.Contains(body, "http://localhost") {
		t.Errorf("want a line for each run, and no script:\n%s", body)
	}
}
