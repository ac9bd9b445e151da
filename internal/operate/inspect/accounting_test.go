package inspect

import (
	"bytes"
	"testing"

	"github.com/pairstream/pairstream/internal/log/accounting"
)

func TestAccountIsOneEquation(t *testing.T) {
	a := Account{Published: 1203, NoPairs: 6, Open: 2, Closed: accounting.Tally{
		Members: 900, Duplicates: 1, Repeats: 2, Seals: 8, Refused: map[string]int64{"missing": 4}, Filtered: map[string]int64{"safe": 80, "match": 200},
	}}
	for want, change := range map[string]func(*Account){
		"1,203 records of pairs = 900 in groups + 3 again + 280 filtered (match 200, safe 80) + 4 refused (missing 4) + 6 no pairs + 8 seals + 2 behind the last group\n": func(*Account) {},
		"1,204 records of pairs is not 900 in groups + 3 again + 280 filtered (match 200, safe 80) + 4 refused (missing 4) + 6 no pairs + 8 seals + 2 behind the last group\n": func(a *Account) {
			a.Published++
		},
		"12 records of pairs = 0 in groups + 12 waiting for the encoder\n": func(a *Account) { *a = Account{Published: 12, Waiting: 12} },
		"12 records of pairs = 7 in groups (1 near-duplicates) + 3 again (2 repeat an image) + 2 near-duplicates\n": func(a *Account) {
			*a = Account{Published: 12, Closed: accounting.Tally{Members: 7, Repeats: 3, SameImage: 2, Near: 3, LeftOut: 2}}
		},
		"": func(a *Account) { *a = Account{} },
	} {
		b := a
		change(&b)
		var out bytes.Buffer
		p := printer{w: &out}
		p.account(b)
		if out.String() != want || p.err != nil {
			t.Errorf("printed %q, want %q", out.String(), want)
		}
	}
	a.Closed.Refused["forgotten"] = 7
	if n := a.SetAside(); n != 4+6 {
		t.Errorf("%d dead letters, want those of 4 refusals and 6 records that are no pairs", n)
	}
	delete(a.Closed.Refused, "forgotten")
	var all Account
	all.add(a)
	all.add(a)
	if !all.Adds() || all.Published != 2*1203 || all.Closed.Filtered["safe"] != 160 || a.Closed.Filtered["safe"] != 80 {
		t.Errorf("two lanes add up to %+v", all)
	}
}
