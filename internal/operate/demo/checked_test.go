package demo

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/log/accounting"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// TestDemoIsChecked: a demo with --check fails when a pair is not accounted for, and prints all terms.
func TestDemoIsChecked(t *testing.T) {
	whole := inspect.Account{Published: 12, NoPairs: 1, Closed: accounting.Tally{
		Members: 6, Repeats: 1, Filtered: map[string]int64{"colour": 1}, Refused: map[string]int64{schemas.MaskMissing: 1, schemas.MaskForgotten: 1}, Seals: 1,
	}}
	for name, change := range map[string]func(*demo, *inspect.Account, *recordCounts){
		"":                        func(*demo, *inspect.Account, *recordCounts) {},
		"does not close":          func(_ *demo, a *inspect.Account, _ *recordCounts) { a.Closed.Members-- },
		"records were published":  func(d *demo, _ *inspect.Account, _ *recordCounts) { d.summary.Messages++ },
		"pairs were trained on":   func(d *demo, _ *inspect.Account, _ *recordCounts) { d.steps.counts.Samples-- },
		"dead letters, want 2":    func(_ *demo, _ *inspect.Account, c *recordCounts) { c.deadLetters++ },
		"want as many of each":    func(_ *demo, _ *inspect.Account, c *recordCounts) { c.scored++ },
		"behind the last group":   func(_ *demo, a *inspect.Account, _ *recordCounts) { a.Closed.Repeats--; a.Open++ },
		"waiting for the encoder": func(_ *demo, a *inspect.Account, _ *recordCounts) { a.Closed.Repeats--; a.Waiting++ },
	} {
		d := &demo{Options: Options{Epochs: 2}, arm: &arm{}}
		d.summary.Messages = 12
		d.steps.counts = trainer.Counts{Samples: 10, Masked: 2}
		a, c := whole, recordCounts{deadLetters: 2}
		change(d, &a, &c)
		err := d.verify(c, a)
		if (err == nil) != (name == "") || err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
		if err != nil && name != "want as many of each" && !strings.Contains(err.Error(), "1 filtered (colour 1) + 2 refused (forgotten 1, missing 1)") {
			t.Errorf("%q: the terms are not printed: %v", name, err)
		}
	}
}
