package console_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/runlog"
	"github.com/pairstream/pairstream/schemas"
)

// guarded is a run whose guard measures and confirms a text of another image.
func guarded() runlog.Options {
	o := small
	o.RuledOut = true
	o.Check = &schemas.Check{
		Positives: 288, AUC: 0.9, Least: 0.4, Precision: &schemas.Precision{Above: 0.8, Value: 0.3, Low: 0.2, High: 0.5, Base: 0.061, Confirmed: 0.1, Candidates: 1152, Negatives: 300},
		Confirmed: &schemas.Confirmed{Image: schemas.Int32s{0}, Text: schemas.Int32s{5}, Probability: schemas.Floats32{0.999}},
	}
	return o
}

var shown = regexp.MustCompile(`name="image" value="([0-9a-f]+)"><input type="hidden" name="text" value="([0-9a-f]+)"`)

// The page says what the guard says, proposes a threshold when enough was judged, and lists what people and Con-D see
// otherwise.
func TestConnectionsSayHowMuchIsTrue(t *testing.T) {
	s := open(t, guarded(), nil)
	body := s.get("/connections/0/0?sample=most")
	for _, want := range []string{"Connections are off", "30 % (20 to 50 %)", "6.1 %", "Judge 20 of the random sample", "0.999", "ruled 1.0 % of the candidates out early"} {
		if !strings.Contains(body, want) {
			t.Errorf("before anybody has judged the page does not say %q", want)
		}
	}
	own := map[string]string{"Sec-Fetch-Site": "same-origin", "Accept": "text/plain"}
	n, wrong := 0, ""
	for from := 0; n < 40; from += 12 {
		found := shown.FindAllStringSubmatch(s.get(fmt.Sprintf("/connections/0/0?from=%d", from)), -1)
		if len(found) == 0 {
			t.Fatalf("%d connections are shown, want 40", n)
		}
		for _, m := range found {
			form := url.Values{"image": {m[1]}, "text": {m[2]}, "sample": {"random"}, "verdict": {"match"}}
			if n == 3 {
				form.Set("verdict", "no match")
				wrong = m[1]
			}
			if code, text, _ := s.ask("POST", "/judgements", own, form); code != 200 {
				t.Fatal(code, text)
			}
			n++
		}
	}
	body = s.get("/connections/0/0")
	for _, want := range []string{fmt.Sprintf("%d judgements", n), "True connections by threshold", "the threshold can stay."} {
		if !strings.Contains(body, want) {
			t.Errorf("after %d judgements the page does not say %q", n, want)
		}
	}
	if list := shown.FindAllStringSubmatch(s.get("/connections/0/0?sample=disagreements"), -1); len(list) != 1 || list[0][1] != wrong {
		t.Errorf("people and Con-D disagree about %v, want image %s alone", list, wrong)
	}
	for rec, err := range s.log.Records(t.Context(), schemas.Judgements, 0, stream.Position{}, -1) {
		must.Do(t, err)
		r, err := schemas.Unmarshal(rec.Schema, rec.Value)
		if j, ok := r.(*schemas.Judgement); err != nil || !ok || j.Model != "c0de00000000c0de" {
			t.Fatalf("%+v, %v: want the Con-D that was judged", r, err)
		}
	}
}

// A pair that was judged as one of the random sample stays one, also when it is judged again among the most certain.
func TestRandomJudgementsStayRandom(t *testing.T) {
	s := open(t, small, nil)
	j := &schemas.Judgement{
		Image: s.run.Pairs[1].ID, Text: s.run.Pairs[2].ID, Probability: 0.9, Sample: schemas.SampleRandom, Verdict: schemas.VerdictMatch, Model: "m",
	}
	count := func(sample, verdict string) int {
		t.Helper()
		j.Sample, j.Verdict = sample, verdict
		must.Do(t, s.index.Judge(t.Context(), j))
		said := must.Get(s.index.RandomlyJudged(t.Context(), "m"))(t)
		return len(said)
	}
	for i, step := range []struct {
		sample, verdict string
		want            int
	}{
		{schemas.SampleMost, schemas.VerdictMatch, 0},
		{schemas.SampleRandom, schemas.VerdictMatch, 1},
		{schemas.SampleMost, schemas.VerdictNoMatch, 1},
		{schemas.SampleMost, schemas.VerdictNone, 0},
		{schemas.SampleLeast, schemas.VerdictMatch, 0},
	} {
		if got := count(step.sample, step.verdict); got != step.want {
			t.Errorf("step %d: %d of the random sample, want %d", i, got, step.want)
		}
	}
}
