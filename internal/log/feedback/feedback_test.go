package feedback

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/logtest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// say publishes what a person says of a text of another image.
func say(t *testing.T, log *stream.Log, text byte, change func(*schemas.Judgement)) {
	t.Helper()
	j := &schemas.Judgement{
		Image: schemas.PairID{1}, Text: schemas.PairID{2, text}, Probability: 0.9, Sample: schemas.SampleRandom,
		Verdict: schemas.VerdictMatch, Model: "con-d",
	}
	if change != nil {
		change(j)
	}
	p := log.NewPublisher(stream.PublisherOptions{Name: "console"})
	must.Do(t, p.Publish(t.Context(), schemas.Judgements, 0, j))
	must.Do(t, p.Close(t.Context()))
}

func take(t *testing.T, log *stream.Log, p Place) string {
	t.Helper()
	c, err := Take(t.Context(), log, p)
	if err != nil || c.Place != p {
		t.Fatal(c, err)
	}
	return fmt.Sprintf("%d of %d", c.Right, c.Judged)
}

// Each pair counts once, by its latest verdict, when it is of the random sample, of the same Con-D and above the
// threshold.
func TestWhatCounts(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 2)
	wrong := func(j *schemas.Judgement) { j.Verdict = schemas.VerdictNoMatch }
	say(t, log, 1, nil)
	say(t, log, 2, wrong)
	say(t, log, 3, wrong) // and taken back
	say(t, log, 3, func(j *schemas.Judgement) { j.Verdict = schemas.VerdictNone })
	say(t, log, 4, wrong) // and judged anew, where it is among the most certain as well
	say(t, log, 4, func(j *schemas.Judgement) { j.Sample = schemas.SampleMost })
	say(t, log, 5, func(j *schemas.Judgement) { j.Sample = schemas.SampleLeast })
	say(t, log, 6, func(j *schemas.Judgement) { j.Probability = 0.8 }) // on the threshold
	say(t, log, 7, func(j *schemas.Judgement) { j.Model = "another" })
	say(t, log, 8, func(j *schemas.Judgement) { j.Model = "" }) // of an earlier console
	say(t, log, 9, func(j *schemas.Judgement) { j.Group = schemas.GroupID{Lane: 1, Seq: 7} })
	if got := take(t, log, Place{Model: "con-d", Above: 0.8}); got != "3 of 4" {
		t.Errorf("%s count, want 3 of 4: texts 1, 2, 4 and 9", got)
	}
	if got := take(t, log, Place{Model: "con-d", Above: 0.95}); got != "0 of 0" {
		t.Errorf("%s count above 0.95", got)
	}
}

// What counts at a place stays, whatever people say later. Other places have what was said until then.
func TestACountStays(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 2)
	first := Place{Lane: 1, Group: 2, Model: "con-d", Above: 0.8}
	before := take(t, log, first)
	say(t, log, 1, nil)
	for name, c := range map[string]struct {
		change func(*Place)
		want   string
	}{
		"the same place": {func(*Place) {}, "0 of 0"},
		"another lane":   {func(p *Place) { p.Lane = 0 }, "1 of 1"},
		"another group":  {func(p *Place) { p.Group = 3 }, "1 of 1"},
		"another epoch":  {func(p *Place) { p.Epoch = 1 }, "1 of 1"},
		"another Con-D":  {func(p *Place) { p.Model = "another" }, "0 of 0"},
		"a threshold":    {func(p *Place) { p.Above = 0.7 }, "1 of 1"},
	} {
		p := first
		c.change(&p)
		if got := take(t, log, p); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if before != "0 of 0" {
		t.Errorf("before anybody has judged: %s", before)
	}
	n, err := Notes.Read(t.Context(), log)
	if all := Notes.List(n); err != nil || len(all) != 6 || all[0].Lane != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// Owners that come to a place at once agree.
func TestOwnersAgree(t *testing.T) {
	log := logtest.Open(t, logtest.Broker(t), "", 1)
	p := Place{Model: "con-d", Above: 0.8}
	var owners sync.WaitGroup
	counts := make([]Count, 4)
	for i := range counts {
		owners.Go(func() {
			must.Check(t, Notes.Note(context.Background(), log, Count{p, 40, i}))
			var err error
			if counts[i], err = Take(context.Background(), log, p); err != nil {
				t.Error(err)
			}
		})
	}
	owners.Wait()
	for _, c := range counts {
		if c != counts[0] || c.Judged != 40 {
			t.Errorf("owners count %+v", counts)
		}
	}
}
