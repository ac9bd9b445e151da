package console

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// status is a run of 300 pairs and two marks of ended lanes, in mini-batches of 50, in two epochs. Every stage wrote last after a number of seconds.
func status(began time.Time, state inspect.State) *inspect.Status {
	s := &inspect.Status{
		Time: began.Add(time.Hour), Lanes: []inspect.Lane{{Pairs: 300, State: state}},
		Topics: []inspect.Topic{{Topic: schemas.Pairs, Records: 302}, {Topic: schemas.Embeddings, Records: 302}, {Topic: schemas.Batches, Records: 12}, {Topic: schemas.Scored, Records: 12}, {Topic: schemas.Features, Records: 12}},
	}
	for i, name := range []string{"encoder", "indexer", "grouper", "discriminator", "trainer"} {
		last := began.Add(time.Duration(60+60*i) * time.Second)
		s.Stages = append(s.Stages, inspect.Stage{Name: name, Reads: []schemas.Topic{schemas.Pairs, schemas.Embeddings, schemas.Groups, schemas.Batches, schemas.Scored}[i], LastProgress: &last})
	}
	return s
}

// TestARunThatIsOverShowsTotals wants totals, means and the duration where nothing is left to do, and rates elsewhere.
func TestARunThatIsOverShowsTotals(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pages := must.Get(parsePages())(t)
	for _, c := range []struct {
		name     string
		state    inspect.State
		lag      int64
		began    time.Time
		has, not []string
	}{
		{"ended", inspect.StateDone, 0, began, []string{"every stage has finished. It took 5 min.", "ended-at", `300<small> pairs</small>`, `12<small> mini-batches</small>`, "mean 5.0 pairs/s", "mean 2.0 pairs/s"}, []string{"<small> pairs/s</small>"}},
		{"ended, its beginning removed", inspect.StateDone, 0, time.Time{}, []string{"every stage has finished.", `12<small> mini-batches</small>`}, []string{"pairs/s", "It took", "ended-at"}},
		{"all caught up", inspect.StateOpen, 0, began, []string{"More may come.", `300<small> pairs</small>`, "mean 2.0 pairs/s"}, []string{"<small> pairs/s</small>", "It took"}},
		{"running", inspect.StateOpen, 7, began, []string{"0<small> pairs/s</small>", "7 pairs wait"}, []string{"mean ", "It took"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := status(began, c.state)
			s.Stages[0].Lag = c.lag
			v := &flowView{Pairs: pairsOf(s), Time: s.Time, State: "ok"}
			for _, stage := range s.Stages {
				v.Stages = append(v.Stages, stageView{Name: stage.Name, State: "ok", Rated: true, Lag: stage.Lag, LagUnit: does[stage.Name].lag, Last: stage.LastProgress})
			}
			v.sum(s)
			v.conclude(s, c.began, 50)
			var b bytes.Buffer
			must.Do(t, pages["flow.html"].ExecuteTemplate(&b, "flow", v))
			for _, want := range c.has {
				if !strings.Contains(b.String(), want) {
					t.Errorf("it does not say %q:\n%s", want, b.String())
				}
			}
			for _, wrong := range c.not {
				if strings.Contains(b.String(), wrong) {
					t.Errorf("it says %q:\n%s", wrong, b.String())
				}
			}
		})
	}
}
