package console

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/base/version"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/compare"
	"github.com/pairstream/pairstream/internal/operate/replay"
)

const (
	mostManifests   = 200
	compareTime     = 10 * time.Minute
	keptComparisons = 20
)

// plainFile is the name of a manifest: no folder, no dot at its beginning.
var plainFile = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*\.json$`)

type manifestFile struct {
	Name     string
	Manifest *replay.Manifest
	Records  int64
	Err      string
	Time     time.Time
}

type replaysView struct {
	Folder string
	Files  []manifestFile
}

func (s *Server) replaysPage(w http.ResponseWriter, r *http.Request) error {
	v := replaysView{Folder: s.o.Settings.Manifests}
	names, err := s.manifestNames()
	if err != nil {
		return err
	}
	for _, name := range names {
		v.Files = append(v.Files, s.manifest(name))
	}
	return s.answer(w, r, "replays.html", page{Title: "Replays", Path: "/replays", Data: v})
}

// manifestNames lists the files in CONSOLE_MANIFESTS that may be manifests.
func (s *Server) manifestNames() (names []string, err error) {
	if s.o.Settings.Manifests == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(s.o.Settings.Manifests)
	if err != nil {
		return nil, fmt.Errorf("CONSOLE_MANIFESTS: %w", err)
	}
	for _, e := range entries {
		if plainFile.MatchString(e.Name()) && e.Type().IsRegular() && len(names) < mostManifests {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// manifestNamed reads a manifest that a request names.
func (s *Server) manifestNamed(name string) (manifestFile, error) {
	if s.o.Settings.Manifests == "" || !plainFile.MatchString(name) {
		return manifestFile{}, badRequest{fmt.Errorf("%q is no manifest of CONSOLE_MANIFESTS", clip(60, name))}
	}
	f := s.manifest(name)
	if f.Manifest == nil {
		return f, badRequest{fmt.Errorf("%s: %s", name, f.Err)}
	}
	return f, nil
}

func (s *Server) manifest(name string) manifestFile {
	f := manifestFile{Name: name}
	m, written, err := replay.ReadManifestIn(s.o.Settings.Manifests, name)
	if err != nil {
		f.Err = clip(300, err.Error())
		return f
	}
	f.Manifest, f.Time = m, written
	for _, t := range m.Topics {
		for _, l := range t.Lanes {
			f.Records += l.Records
		}
	}
	return f
}

type replayView struct {
	manifestFile
	Settings   map[string]string
	Namespaces []string
	With       string
	Comparison *comparison
}

func (s *Server) replayPage(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if s.o.Settings.Manifests == "" || !plainFile.MatchString(name) {
		return badRequest{fmt.Errorf("%q is no manifest of CONSOLE_MANIFESTS", clip(60, name))}
	}
	v := replayView{manifestFile: s.manifest(name), With: r.FormValue("with")}
	if v.Manifest != nil {
		own := s.o.Log.Config().Namespace
		for _, ns := range append(slices.Clone(s.o.Settings.Namespaces), own) {
			if ns != v.Manifest.Namespace {
				v.Namespaces = append(v.Namespaces, ns)
			}
		}
		v.Settings = maps.Clone(v.Manifest.Settings)
		for k, value := range v.Settings {
			v.Settings[k] = display.Redacted(value)
		}
		if v.With != "" {
			if !slices.Contains(v.Namespaces, v.With) {
				return badRequest{fmt.Errorf("%q is none of CONSOLE_NAMESPACES", clip(60, v.With))}
			}
			v.Comparison = s.comparisons.get(s, v.manifestFile, v.With)
		}
	}
	return s.answer(w, r, "replay.html", page{Title: name, Path: "/replays", Data: v})
}

// comparisons runs comparisons in the background, one at a time, and keeps their results.
type comparisons struct {
	one  sync.Mutex // held by the comparison at work
	mu   sync.Mutex
	kept *simplelru.LRU[string, *comparison]
}

// comparison holds the results so far.
type comparison struct {
	Results  []replay.Result
	Topics   int
	Done     bool
	Err      string
	Differs  int
	Expected int
}

// get returns the results so far. It starts a new comparison.
func (c *comparisons) get(s *Server, f manifestFile, with string) *comparison {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprintf("%s|%s|%d", f.Name, with, f.Time.UnixNano())
	if x, ok := c.kept.Get(key); ok {
		again := *x
		again.Results = slices.Clone(x.Results)
		return &again
	}
	x := &comparison{Expected: len(f.Manifest.Topics) * f.Manifest.Lanes}
	c.kept.Add(key, x)
	go c.compare(s, f.Manifest, with, x)
	return &comparison{Expected: x.Expected}
}

func (c *comparisons) compare(s *Server, m *replay.Manifest, with string, x *comparison) {
	c.one.Lock()
	defer c.one.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), compareTime)
	defer cancel()
	err := between(ctx, s.o.Log.Config(), m, with, func(r replay.Result) {
		c.mu.Lock()
		defer c.mu.Unlock()
		x.Results = append(x.Results, r)
		if !r.Equal {
			x.Differs++
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	x.Done = true
	if err != nil {
		x.Err = clip(400, err.Error())
	}
}

func between(ctx context.Context, cfg stream.Config, m *replay.Manifest, with string, each func(replay.Result)) error {
	original, err := another(ctx, cfg, m.Namespace)
	if err != nil {
		return err
	}
	defer original.Close()
	replayed, err := another(ctx, cfg, with)
	if err != nil {
		return err
	}
	defer replayed.Close()
	return replay.Between(ctx, m, original, replayed, each)
}

// compareView shows runs side by side.
type compareView struct {
	Runs   []string
	Tables []compare.Table
	Curves []compare.Overlay
	Query  template.URL // of this page, which names the runs
}

// WriteComparison writes a comparison into one page, which needs no other file and runs no script.
func WriteComparison(w io.Writer, c *compare.Comparison, made time.Time) error {
	pages, err := parsePages()
	if err != nil {
		return err
	}
	v := struct {
		compareView
		Made    time.Time
		Version string
	}{compareView{Runs: c.Runs, Tables: c.Tables, Curves: c.Curves}, made, version.String()}
	return pages["comparison.html"].ExecuteTemplate(w, "comparison", v)
}

// compared reads the manifests that a request names, and compares them.
func (s *Server) compared(r *http.Request) (*compare.Comparison, error) {
	names := r.URL.Query()["run"]
	names = slices.Compact(names[:min(len(names), compare.MostRuns+1)])
	var runs []compare.Run
	short := compare.Names(names)
	for i, name := range names {
		f, err := s.manifestNamed(name)
		if err != nil {
			return nil, err
		}
		runs = append(runs, f.Manifest.Run(short[i]))
	}
	c, err := compare.Of(runs)
	if err != nil {
		return nil, badRequest{fmt.Errorf("%w: tick them on the page Replays", err)}
	}
	return c, nil
}

func (s *Server) comparePage(w http.ResponseWriter, r *http.Request) error {
	c, err := s.compared(r)
	if err != nil {
		return err
	}
	query := url.Values{"run": r.URL.Query()["run"]}.Encode()
	v := compareView{c.Runs, c.Tables, c.Curves, template.URL(query)} //nolint:gosec // encoded here
	return s.answer(w, r, "compare.html", page{Title: "Runs side by side", Path: "/replays", Data: v})
}

// compareCurves sends the points that the page draws.
func (s *Server) compareCurves(w http.ResponseWriter, r *http.Request) error {
	c, err := s.compared(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(c.Curves)
}
