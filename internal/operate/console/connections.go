package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/pairstream/pairstream/internal/base/interval"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/schemas"
)

const (
	connectionsAPage = 12
	mostFrom         = 10_000 // the last connection that a page begins with
)

// disagreeing is the tab of the connections that people call no match.
const disagreeing = "disagreements"

type connectionsView struct {
	Group   *index.Group
	Groups  []index.Group
	Sample  string
	Tabs    []sampleTab
	Items   []connectionItem
	From    int
	Next    int
	Found   int64 // connections that Con-D found, repetitions in later epochs among them
	Asked   int64
	Ruled   int64 // of these: ruled out early
	High    float64
	Current precision
	Precise *precisionView
}

type sampleTab struct {
	Sample, Name, Means string
	Current             bool
}

// tabs begin with the kinds of connections, in the order of [index.KindRandom] and the others.
var tabs = []sampleTab{
	{schemas.SampleRandom, "A random sample", "Drawn at random from all connections of the group, so your judgements hold for all of them, within the interval.", false},
	{schemas.SampleMost, "The most certain", "Con-D is surest of these. How many of them are right says nothing about the others.", false},
	{schemas.SampleLeast, "The least certain", "They are just above the threshold. Where many of these are wrong, a higher ECM_HIGH would help.", false},
	{disagreeing, "You and Con-D disagree", "Con-D calls these a match and people do not, first those of which Con-D is most certain. What do they have in common?", false},
}

type connectionItem struct {
	index.Connection
	Image, Text *index.Pair
	Verdict     string
}

// precision is the share of judged connections that are right, with Wilson's 95 % interval.
type precision struct {
	Right, Judged    int64
	Share, Low, High float64 // in percent
}

// wilson returns the interval of a share, by Wilson's score at 95 %.
func wilson(right, judged int64) precision {
	p := precision{Right: right, Judged: judged}
	if judged == 0 {
		return p
	}
	s := interval.Of(int(right), int(judged))
	p.Share, p.Low, p.High = 100*s.Value, 100*s.Low, 100*s.High
	return p
}

// connectionsStart redirects to the latest group with connections.
func (s *Server) connectionsStart(w http.ResponseWriter, r *http.Request) error {
	groups, err := s.o.Index.Groups(r.Context(), groupsShown)
	if err != nil {
		return err
	}
	for _, g := range groups {
		list, err := s.o.Index.Connections(r.Context(), g.N, index.KindRandom, 0, 1)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			http.Redirect(w, r, fmt.Sprintf("/connections/%s", g.ID), http.StatusSeeOther)
			return nil
		}
	}
	return s.answer(w, r, "connections.html", page{Title: "Connections", Path: "/connections", Data: &connectionsView{High: s.o.High}})
}

func (s *Server) connectionsPage(w http.ResponseWriter, r *http.Request) error {
	q := query{Request: r}
	id, from := q.group(), q.form("from", 0, mostFrom)
	if q.err != nil {
		return q.err
	}
	v := &connectionsView{Sample: cmp.Or(r.FormValue("sample"), schemas.SampleRandom), From: int(from), High: s.o.High}
	kind := slices.IndexFunc(tabs, func(t sampleTab) bool { return t.Sample == v.Sample })
	if kind < 0 {
		return badRequest{fmt.Errorf("sample is %q, want random, most, least or %s", clip(40, v.Sample), disagreeing)}
	}
	var err error
	if v.Group, err = s.o.Index.Group(r.Context(), id); err != nil {
		return err
	}
	if v.Groups, err = s.o.Index.Groups(r.Context(), groupsShown); err != nil {
		return err
	}
	for i, tab := range tabs {
		tab.Current = i == kind
		v.Tabs = append(v.Tabs, tab)
	}
	if v.Sample == disagreeing {
		err = s.disagreements(r.Context(), v)
	} else {
		err = s.connectionItems(r.Context(), v, kind)
	}
	if err != nil {
		return err
	}
	if v.Precise, err = s.precisionOf(r.Context(), v.Group); err != nil {
		return err
	}
	epochs, err := s.o.Index.Epochs(r.Context(), v.Group.N)
	if err != nil {
		return err
	}
	for _, e := range epochs {
		v.Found += e.Connections
		v.Asked += e.Candidates
		v.Ruled += e.RuledOut
	}
	judged, err := s.o.Index.Judged(r.Context(), id)
	if err != nil {
		return err
	}
	j := judged[v.Sample]
	v.Current = wilson(j.Right, j.Right+j.Wrong)
	return s.answer(w, r, "connections.html", page{Title: "Connections", Path: "/connections", Data: v})
}

func (s *Server) connectionItems(ctx context.Context, v *connectionsView, kind int) error {
	list, err := s.o.Index.Connections(ctx, v.Group.N, kind, v.From, connectionsAPage+1)
	if err != nil {
		return err
	}
	if len(list) > connectionsAPage {
		list, v.Next = list[:connectionsAPage], v.From+connectionsAPage
	}
	for _, c := range list {
		pairs, err := s.o.Index.Members(ctx, v.Group.N, []int32{c.Image, c.Text})
		if err != nil {
			return err
		}
		if len(pairs) < 2 {
			continue // newer pairs took the place of one of them
		}
		item := connectionItem{Connection: c, Image: pairs[0], Text: pairs[1]}
		match, judged, err := s.o.Index.Verdict(ctx, pairs[0].ID, pairs[1].ID)
		if err != nil {
			return err
		}
		switch {
		case judged && match:
			item.Verdict = schemas.VerdictMatch
		case judged:
			item.Verdict = schemas.VerdictNoMatch
		}
		v.Items = append(v.Items, item)
	}
	return nil
}

// disagreements lists the connections that people call no match.
func (s *Server) disagreements(ctx context.Context, v *connectionsView) error {
	list, err := s.o.Index.Disagreements(ctx, v.Group.ID, v.From, connectionsAPage+1)
	if err != nil {
		return err
	}
	if len(list) > connectionsAPage {
		list, v.Next = list[:connectionsAPage], v.From+connectionsAPage
	}
	for _, said := range list {
		image, err := s.o.Index.Pair(ctx, said.Image)
		var text *index.Pair
		if err == nil {
			text, err = s.o.Index.Pair(ctx, said.Text)
		}
		if errors.Is(err, index.ErrNotFound) {
			continue // newer pairs took the place of one of them
		}
		if err != nil {
			return err
		}
		v.Items = append(v.Items, connectionItem{
			Connection: index.Connection{Image: image.Position, Text: text.Position, Probability: said.Probability},
			Image:      image, Text: text, Verdict: schemas.VerdictNoMatch,
		})
	}
	return nil
}

// judge writes a judgement. The console writes nothing else.
func (s *Server) judge(w http.ResponseWriter, r *http.Request) error {
	if origin := r.Header.Get("Sec-Fetch-Site"); origin == "" && r.Header.Get("Origin") == "" && r.Header.Get("Authorization") == "" {
		s.fail(w, r, http.StatusForbidden, "This request does not name the page that it comes from, so nothing was written.")
		return nil
	}
	q := query{Request: r}
	from := q.form("from", 0, mostFrom)
	j := &schemas.Judgement{
		Image: q.pair(r.FormValue("image")), Text: q.pair(r.FormValue("text")), Sample: r.FormValue("sample"), Verdict: r.FormValue("verdict"),
		Time: time.Now().UnixMilli(),
	}
	if q.err != nil {
		return q.err
	}
	image, err := s.o.Index.Pair(r.Context(), j.Image)
	if err != nil {
		return err
	}
	text, err := s.o.Index.Pair(r.Context(), j.Text)
	if err != nil {
		return err
	}
	if image.Group == 0 || image.Group != text.Group {
		return badRequest{fmt.Errorf("pairs %s and %s are not of one group", j.Image, j.Text)}
	}
	g, err := s.o.Index.GroupN(r.Context(), image.Group)
	if err != nil {
		return err
	}
	j.Group = g.ID
	if j.Probability, j.Model, err = s.o.Index.Asked(r.Context(), image.Group, image.Position, text.Position); err != nil {
		return err
	}
	if err := j.Validate(); err != nil {
		return badRequest{err}
	}
	if err := s.write(r.Context(), j); err != nil {
		return fmt.Errorf("writing the judgement: %w", err)
	}
	if r.Header.Get("Accept") == "text/plain" { // the page's script, which loads no other page
		judged, err := s.o.Index.Judged(r.Context(), g.ID)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprint(w, wilson(judged[j.Sample].Right, judged[j.Sample].Right+judged[j.Sample].Wrong)) // the client is gone
		return nil
	}
	http.Redirect(w, r, fmt.Sprintf("/connections/%s?sample=%s&from=%d", g.ID, j.Sample, from), http.StatusSeeOther)
	return nil
}

// String returns the precision in a sentence.
func (p precision) String() string {
	if p.Judged == 0 {
		return "None of these has been judged yet."
	}
	return fmt.Sprintf("%d of %d are matches: %.0f %%, with 95 %% certainty from %.0f to %.0f %%.", p.Right, p.Judged, p.Share, p.Low, p.High)
}

// write publishes a judgement and adds it to the index, so that the page shows it at once.
func (s *Server) write(ctx context.Context, j *schemas.Judgement) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	s.publish.Lock()
	defer s.publish.Unlock()
	if s.judges == nil {
		s.judges = s.o.Log.NewPublisher(stream.PublisherOptions{Name: "console"})
	}
	if err := s.judges.Publish(ctx, schemas.Judgements, 0, j); err != nil {
		return err
	}
	if err := s.judges.Flush(ctx); err != nil {
		return err
	}
	return s.o.Index.Judge(ctx, j)
}

func (s *Server) closePublisher() error {
	s.publish.Lock()
	defer s.publish.Unlock()
	if s.judges == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	return s.judges.Close(ctx)
}
