package console

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/pairstream/pairstream/internal/base/version"
	"github.com/pairstream/pairstream/internal/operate/compare"
	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/schemas"
)

// reportPictures is how many connections, and how many examples, a report shows.
const reportPictures = 12

// Known holds facts of a run that its log does not have. The zero value knows nothing.
type Known struct {
	Titles map[string]string // of runs, by their namespaces; a run without one has its namespace's name
	Result string            // a sentence, above everything
	// Fits reports whether a caption is true of a picture; nil: that is not known.
	Fits func(image schemas.ImageID, caption string) bool
	Next []string // commands that show more
}

// report is the data of the page.
type report struct {
	Namespace   string
	Version     string
	Known       Known
	Made        time.Time
	Facts       [][2]string
	Curves      []compare.Overlay
	Models      models
	Strategies  []index.Epoch // sums over all epochs
	Connections []reportConnection
	Judged      string
	Examples    []reportExample
	Dead        []index.DeadCount
	High        float64
}

// models compares the models of runs: a column for each measure that any of them has.
type models struct {
	Measures []string
	Rows     []taught
}

// taught is a model, by its last evaluation.
type taught struct {
	Name   string
	Own    bool // of the run that the report is about
	Values []string
}

type reportConnection struct {
	Picture     template.URL
	Text, Own   string
	Probability float64
	Verdict     string
	Truth       string // "true", "wrong", or nothing where that is not known
}

// Wrong returns how many of the connections shown are wrong.
func (r *report) Wrong() (n int) {
	for _, c := range r.Connections {
		if c.Truth == "wrong" {
			n++
		}
	}
	return n
}

type reportExample struct {
	Picture template.URL
	Caption string
	Objects []string
	SE      []template.URL
}

// Report writes a summary of a run into one page, which needs no other file and runs no script. The index must be
// filled.
func Report(ctx context.Context, w io.Writer, o Options) error {
	s, err := newServer(o)
	if err != nil {
		return err
	}
	r := &report{Namespace: o.Log.Config().Namespace, Version: version.String(), Made: time.Now(), Known: o.Known, High: o.High}
	for _, part := range []func(context.Context, *report) error{s.reportFacts, s.reportTraining, s.reportConnections, s.reportExamples} {
		if err := part(ctx, r); err != nil {
			return fmt.Errorf("making the report: %w", err)
		}
	}
	return s.pages["report.html"].ExecuteTemplate(w, "report", r)
}

func (s *Server) reportFacts(ctx context.Context, r *report) error {
	status, err := inspect.NewCollector(s.o.Log, s.o.GroupSize).Collect(ctx, time.Now())
	if err != nil {
		return err
	}
	fact := func(name, value string) { r.Facts = append(r.Facts, [2]string{name, value}) }
	totals, err := s.o.Index.Totals(ctx)
	if err != nil {
		return err
	}
	fact("pairs", inspect.Count(pairsOf(status)))
	fact("lanes", inspect.Count(int64(len(status.Lanes))))
	fact("encoded pairs", inspect.Count(totals.Pairs))
	fact("mini-batches", inspect.Count(totals.Batches))
	fact("training steps", inspect.Count(recordsOf(status, schemas.Features)))
	if r.Dead, err = s.o.Index.DeadCounts(ctx); err != nil {
		return err
	}
	dead := int64(0)
	for _, d := range r.Dead {
		dead += d.Count
	}
	fact("dead letters", inspect.Count(dead))
	return nil
}

func (s *Server) reportTraining(ctx context.Context, r *report) error {
	runs, _, err := s.runs(ctx, "")
	if err != nil {
		return err
	}
	r.Curves = curvesOf(runs)
	for _, c := range r.Curves {
		for i, name := range c.Runs {
			c.Runs[i] = s.titleOf(name)
		}
	}
	var rates []float64
	var first, last time.Time
	for _, x := range lastEvaluations(runs[0].reports) {
		if x.Kind != schemas.ProgressStep {
			continue
		}
		if first.IsZero() {
			first = x.Time
		}
		last = x.Time
		rates = append(rates, x.Values["pairs_per_second"])
	}
	if len(rates) > 0 {
		slices.Sort(rates)
		r.Facts = append(r.Facts, [2]string{"pairs/s in training, median", inspect.Rate(rates[len(rates)/2])}, [2]string{"time of training", span(last.Sub(first))})
	}
	r.Models = s.compareModels(runs)
	epochs, err := s.o.Index.Epochs(ctx, 0)
	for _, e := range epochs {
		at := slices.IndexFunc(r.Strategies, func(x index.Epoch) bool { return x.Strategy == e.Strategy })
		if at < 0 {
			at = len(r.Strategies)
			r.Strategies = append(r.Strategies, index.Epoch{Strategy: e.Strategy})
		}
		sum := &r.Strategies[at]
		sum.Batches += e.Batches
		sum.Candidates += e.Candidates
		sum.Connections += e.Connections
		sum.Ambiguous += e.Ambiguous
	}
	return err
}

// compareModels lists the model that all runs began with, then the models of the other runs, and this run's last. It
// returns nothing before this run's second evaluation.
func (s *Server) compareModels(runs []run) (m models) {
	evaluations := func(x run) (list []index.Report) {
		for _, e := range lastEvaluations(x.reports) {
			if e.Kind == schemas.ProgressEval {
				list = append(list, e)
			}
		}
		return list
	}
	own := evaluations(runs[0])
	if len(own) < 2 {
		return m
	}
	rows := []index.Report{own[0]}
	m.Rows = []taught{{Name: "before"}}
	for i, x := range append(runs[1:], runs[0]) {
		if found := evaluations(x); len(found) > 1 {
			rows = append(rows, found[len(found)-1])
			m.Rows = append(m.Rows, taught{Name: s.titleOf(x.name), Own: i == len(runs)-1})
		}
	}
	for _, t := range compare.EvalTitles {
		if !slices.ContainsFunc(rows, func(x index.Report) bool { _, known := x.Values[t.Name]; return known }) {
			continue
		}
		m.add(t, rows)
	}
	return m
}

// add adds a column with a measure of the models, unless all of them have reached its end.
func (m *models) add(t compare.Measure, rows []index.Report) {
	const most = "100.0 %"
	var cells []string
	for _, x := range rows {
		cell := "–"
		if v, known := x.Values[t.Name]; known {
			cell = fmt.Sprintf("%.1f %%", v)
		}
		cells = append(cells, cell)
	}
	if !slices.ContainsFunc(cells, func(cell string) bool { return cell != most }) {
		return
	}
	m.Measures = append(m.Measures, t.Title)
	for i := range m.Rows {
		m.Rows[i].Values = append(m.Rows[i].Values, cells[i])
	}
}

// titleOf returns the name of a run in a report.
func (s *Server) titleOf(run string) string {
	namespace := run
	if run == runName(s.o.Log.Config().Namespace) {
		namespace = s.o.Log.Config().Namespace
	}
	return cmp.Or(s.o.Known.Titles[namespace], run)
}

// picture returns the thumbnail of a pair's image as a URL of data, or "" for an image that cannot be read.
func (s *Server) picture(ctx context.Context, p *index.Pair, side int) template.URL {
	b, err := s.thumbs.get(ctx, p.Image, p.ImageID, side)
	if err != nil {
		return ""
	}
	return template.URL("data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(b)) //nolint:gosec // encoded here
}

func (s *Server) reportConnections(ctx context.Context, r *report) error {
	groups, err := s.o.Index.Groups(ctx, groupsShown)
	if err != nil {
		return err
	}
	for _, g := range groups {
		v := &connectionsView{Group: &g}
		if err := s.connectionItems(ctx, v, index.KindRandom); err != nil {
			return err
		}
		for _, item := range v.Items {
			if len(r.Connections) < reportPictures {
				r.Connections = append(r.Connections, s.reportConnection(ctx, item))
			}
		}
		judged, err := s.o.Index.Judged(ctx, g.ID)
		if err != nil {
			return err
		}
		if j, ok := judged[schemas.SampleRandom]; ok && r.Judged == "" {
			r.Judged = fmt.Sprintf("Of a random sample of group %s, %s", g.ID, wilson(j.Right, j.Right+j.Wrong))
		}
	}
	return nil
}

// reportConnection shows a connection, and whether its caption is true of the picture where that is known.
func (s *Server) reportConnection(ctx context.Context, item connectionItem) reportConnection {
	c := reportConnection{
		Picture: s.picture(ctx, item.Image, thumbSides["s"]), Text: item.Text.Caption, Own: item.Image.Caption,
		Probability: item.Probability, Verdict: item.Verdict,
	}
	if fits := s.o.Known.Fits; fits != nil {
		c.Truth = "wrong"
		if fits(item.Image.ImageID, item.Text.Caption) {
			c.Truth = "true"
		}
	}
	return c
}

func (s *Server) reportExamples(ctx context.Context, r *report) error {
	groups, err := s.o.Index.Groups(ctx, groupsShown)
	if err != nil {
		return err
	}
	for _, g := range groups {
		for pos := int32(0); int64(pos) < g.Count && pos < 200 && len(r.Examples) < reportPictures; pos++ {
			p, err := s.o.Index.Member(ctx, g.N, pos)
			if errors.Is(err, index.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			v := &pairView{Pair: p, Group: &g}
			if err := s.fromLog(ctx, v); err != nil {
				return err
			}
			if len(v.Objects) == 0 || len(v.SE) == 0 {
				continue
			}
			e := reportExample{Picture: s.picture(ctx, p, thumbSides["s"]), Caption: v.Caption, Objects: v.Objects}
			for _, other := range v.SE[:min(3, len(v.SE))] {
				if image := s.picture(ctx, other, thumbSides["s"]); image != "" {
					e.SE = append(e.SE, image)
				}
			}
			r.Examples = append(r.Examples, e)
		}
	}
	return nil
}
