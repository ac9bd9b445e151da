package service

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/stagetest"
	"github.com/pairstream/pairstream/schemas"
)

// newOwner makes the stage of lane 2 for an owner with these rules. Spans have three embeddings.
func newOwner(t *testing.T, batch int, rules string, w weightSource, state []byte) *stage {
	t.Helper()
	instruments, _ := stagetest.Instruments(t, Name)
	sieve := must.Get(newSieve(rules))(t)
	s := must.Get(newStages(stage{core: &core{batch: batch}, sieve: sieve, instruments: instruments}, shard.SpoolOptions{}, spans{size: 3, filter: rules, weights: w})(2, state))(t)
	t.Cleanup(func() { must.Check(t, s.(*stage).Close()) })
	return s.(*stage)
}

// processed feeds records from an offset on to a stage, and returns what it wrote.
func processed(t *testing.T, s *stage, records []stream.Record, from int64) []stagetest.Event {
	t.Helper()
	var out stagetest.Output
	feed(t, s, &out, records[from:]...)
	must.Do(t, s.Flush(t.Context(), &out))
	return out.Events
}

// numbered returns pairs 0 to n-1, with seals at some places.
func numbered(t *testing.T, n int, seals ...int) []stream.Record {
	t.Helper()
	var out []stream.Record
	for i := range n {
		var r schemas.Record = pairOf(i)
		for _, at := range seals {
			if at == i {
				r = &schemas.Seal{}
			}
		}
		out = append(out, record(t, int64(i), r))
	}
	return out
}

// Rules change where a span ends, and not where an owner with others comes. The owner after that decides the same.
func TestRulesHoldForTheirSpan(t *testing.T) {
	const odd, even = `odd: caption.matches("[13579]$")`, `even: caption.matches("[02468]$")`
	records := numbered(t, 20, 13)
	for _, batch := range []int{1, 2, 3, 100} {
		t.Run(fmt.Sprint("batches of ", batch), func(t *testing.T) {
			before := processed(t, newOwner(t, batch, odd, nil, nil), records, 0)
			if got, want := filtered(before), strings.Repeat("odd + ", 6)+"odd seal odd + odd + odd +"; got != want {
				t.Fatalf("one owner wrote %q, want %q", got, want)
			}
			for i, want := range []string{
				// The span of 1, 3 and 5 goes on with its rules; then come 6, 8, 10 of the second one.
				"+ odd + odd + + even + even + even + seal + even + even + even", // behind 0
				"odd + odd + + even + even + even + seal + even + even + even",
				"+ odd + + even + even + even + seal + even + even + even",
				"odd + + even + even + even + seal + even + even + even",
				"+ + even + even + even + seal + even + even + even",
				"+ even + even + even + seal + even + even + even", // behind 5: the next span
				"odd + odd + odd + seal + even + even + even",      // behind 6: a refusal of the next span, 7, 9 and 11 follow
			} {
				next := newOwner(t, batch, even, nil, before[i].Resume.State)
				after := processed(t, next, records, int64(i+1))
				if i == 6 {
					want = "+ odd + odd + + seal + even + even + even" // 12 begins a span of the new rules
				}
				if got := filtered(after); got != want {
					t.Fatalf("behind record %d the new owner wrote\n%q, want\n%q", i, got, want)
				}
				for j, e := range after {
					again := newOwner(t, batch, even, nil, e.Resume.State)
					if got, want := describe(processed(t, again, records, e.Resume.Inputs[0].Offset)), describe(after[j+1:]); got != want {
						t.Fatalf("behind record %d and %d the third owner wrote\n%s\nwant\n%s", i, j, got, want)
					}
				}
			}
		})
	}
}

// Marks of refusals say what the span was begun with, and count.
func TestDropsKeepTheWeights(t *testing.T) {
	records := numbered(t, 12)
	w := newPublished(2)
	w.bad = nil
	const odd = `odd: caption.matches("[13579]$")`
	events := processed(t, newOwner(t, 2, odd, w, nil), records, 0)
	if got, want := modelsOf(events), "- w1 - w1 - w1 - w2 - w2 - w2"; got != want {
		t.Fatalf("models %q, want %q", got, want)
	}
	for i, e := range events {
		again := newOwner(t, 2, odd, w, e.Resume.State)
		if got, want := describe(processed(t, again, records, e.Resume.Inputs[0].Offset)), describe(events[i+1:]); got != want {
			t.Errorf("behind record %d the next owner wrote\n%s\nwant\n%s", i, got, want)
		}
	}
	if got, want := fmt.Sprint(w.choices), "map[2/0:w1 2/6:w2 2/12:w3]"; !strings.HasPrefix(want, strings.TrimSuffix(got, "]")) {
		t.Errorf("choices %s, want %s", got, want)
	}
}

// An older encoder wrote no spans for lanes that follow nobody. The first one begins where its records end.
func TestMarksOfOlderEncoders(t *testing.T) {
	records := numbered(t, 8)
	s := newOwner(t, 1, `odd: caption.matches("[13579]$")`, nil, nil)
	out := placed{at: 4}
	must.Do(t, s.Process(t.Context(), records[4], &out))
	if got := filtered(processed(t, s, records, 5)); got != "odd + odd +" || s.spans.at.From != 4 || s.spans.at.Records != 4 {
		t.Errorf("wrote %q, and the span is %+v", got, s.spans.at)
	}
}

// A rule that an encoder cannot read any more is an error that names both settings.
func TestRulesThatCannotBeRead(t *testing.T) {
	s := spans{at: span{Records: 2, Pairs: 2, Size: 3, Filter: "colour == 3"}}
	instruments, _ := stagetest.Instruments(t, Name)
	factory := newStages(stage{core: &core{batch: 1}, sieve: keepAll(t), instruments: instruments}, shard.SpoolOptions{}, spans{size: 3, filter: "width > 1"})
	_, err := factory(2, s.state(nil))
	for _, want := range []string{`FILTER is "width > 1"`, "lane 2", "undeclared reference to 'colour'", "run the version"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}
