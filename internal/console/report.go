package console

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/pairstream/pairstream/internal/console/index"
	"github.com/pairstream/pairstream/internal/inspect"
	"github.com/pairstream/pairstream/internal/version"
	"github.com/pairstream/pairstream/schemas"
)

// reportPictures is how many connections, and how many examples, a report shows.
const reportPictures = 12

// report is what the file shows.
type report struct {
	Namespace   string
	Version     string
	Made        time.Time
	Facts       [][2]string
	Curves      []curve
	Before      []beforeAfter
	Strategies  []strategyShare
	Connections []reportConnection
	Judged      string
	Examples    []reportExample
	Dead        []index.DeadCount
	High        float64
}

type beforeAfter struct{ Name, Before, After string }

// strategyShare sums up what Con-D found in the mini-batches of one strategy.
type strategyShare struct {
	Strategy string
	index.Epoch
}

type reportConnection struct {
	Picture     template.URL
	Text, Own   string
	Probability float64
	Verdict     string
}

type reportExample struct {
	Picture template.URL
	Caption string
	Objects []string
	SE      []template.URL
}

// Report writes everything worth keeping of a run into one page, which needs no other file and runs no script. The index
// has been filled.
func Report(ctx context.Context, w io.Writer, o Options) error {
	pages, err := parsePages()
	if err != nil {
		return err
	}
	s := &Server{o: o, pages: pages, thumbs: newThumbs(o.Images, o.Index.Forgotten), records: newRecordCache(o.Log, o.Index.Forgotten)}
	r := &report{Namespace: o.Log.Config().Namespace, Version: version.String(), Made: time.Now(), High: o.High}
	for _, part := range []func(context.Context, *report) error{s.reportFacts, s.reportTraining, s.reportConnections, s.reportExamples} {
		if err := part(ctx, r); err != nil {
			return fmt.Errorf("making the report: %w", err)
		}
	}
	return pages["report.html"].ExecuteTemplate(w, "report", r)
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
	runs, _, err := s.runs(ctx)
	if err != nil {
		return err
	}
	r.Curves = curvesOf(runs)
	var rates []float64
	var evals []index.Report
	var first, last time.Time
	for _, x := range lastEvaluations(runs[0].reports) {
		switch x.Kind {
		case schemas.ProgressEval:
			evals = append(evals, x)
		case schemas.ProgressStep:
			if first.IsZero() {
				first = x.Time
			}
			last = x.Time
			rates = append(rates, x.Values["pairs_per_second"])
		}
	}
	if len(rates) > 0 {
		slices.Sort(rates)
		r.Facts = append(r.Facts, [2]string{"pairs/s in training, median", inspect.Rate(rates[len(rates)/2])}, [2]string{"time of training", span(last.Sub(first))})
	}
	if len(evals) > 1 {
		r.Before = compareEvals(evals[0], evals[len(evals)-1])
	}
	epochs, err := s.o.Index.Epochs(ctx, 0)
	for _, e := range epochs {
		at := slices.IndexFunc(r.Strategies, func(x strategyShare) bool { return x.Strategy == e.Strategy })
		if at < 0 {
			r.Strategies = append(r.Strategies, strategyShare{Strategy: e.Strategy})
			at = len(r.Strategies) - 1
		}
		sum := &r.Strategies[at]
		sum.Batches += e.Batches
		sum.Candidates += e.Candidates
		sum.Connections += e.Connections
		sum.Ambiguous += e.Ambiguous
	}
	return err
}

// evalTitles names the measures of an evaluation, in the order of the table.
var evalTitles = [][2]string{
	{"tr_r1", "TR@1"}, {"tr_r5", "TR@5"}, {"tr_r10", "TR@10"}, {"ir_r1", "IR@1"}, {"ir_r5", "IR@5"}, {"ir_r10", "IR@10"}, {"matching_error", "matching error"},
}

func compareEvals(before, after index.Report) []beforeAfter {
	var list []beforeAfter
	for _, t := range evalTitles {
		a, ok := before.Values[t[0]]
		b, also := after.Values[t[0]]
		if ok && also {
			list = append(list, beforeAfter{t[1], fmt.Sprintf("%.1f %%", a), fmt.Sprintf("%.1f %%", b)})
		}
	}
	return list
}

// picture returns the thumbnail of a pair's image, inside the page. An image that cannot be had is left out.
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
				r.Connections = append(r.Connections, reportConnection{s.picture(ctx, item.Image, thumbSides["s"]), item.Text.Caption, item.Image.Caption, item.Probability, item.Verdict})
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
