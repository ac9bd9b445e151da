package console

import (
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/pairstream/pairstream/internal/compare"
	"github.com/pairstream/pairstream/internal/version"
)

// compareView shows runs side by side.
type compareView struct {
	Runs   []string
	Tables []compare.Table
	Curves []curve
	Query  template.URL // of this page, which names the runs
}

// legend names the line of a run.
type legend struct{ Run, Colour string }

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
		Legend  []legend
	}{compareView{Runs: c.Runs, Tables: c.Tables, Curves: overlaid(c.Curves)}, made, version.String(), nil}
	for i, run := range c.Runs {
		v.Legend = append(v.Legend, legend{run, lineColours[i%len(lineColours)]})
	}
	return pages["comparison.html"].ExecuteTemplate(w, "comparison", v)
}

// compared reads the manifests that a request names, and compares them.
func (s *Server) compared(r *http.Request) (*compare.Comparison, error) {
	names := r.URL.Query()["run"]
	names = slices.Compact(names[:min(len(names), compare.MostRuns+1)])
	var runs []compare.Run
	short := compare.Names(names)
	for i, name := range names {
		if s.o.Settings.Manifests == "" || !plainFile.MatchString(name) {
			return nil, badRequest{fmt.Errorf("%q is no manifest of CONSOLE_MANIFESTS", clip(60, name))}
		}
		f := s.manifest(name)
		if f.Manifest == nil {
			return nil, badRequest{fmt.Errorf("%s: %s", name, f.Err)}
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
	v := compareView{c.Runs, c.Tables, overlaid(c.Curves), template.URL(query)} //nolint:gosec // encoded here
	s.render(w, r, http.StatusOK, "compare.html", page{Title: "Runs side by side", Path: "/replays", Data: v})
	return nil
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
