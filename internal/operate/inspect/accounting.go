package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/log/accounting"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// Account counts the records of the topic pairs by what became of them. The counts add up to Published.
type Account struct {
	Published int64            `json:"published"` // records of pairs
	Waiting   int64            `json:"waiting"`   // for the encoder
	NoPairs   int64            `json:"no_pairs"`  // set aside by the encoder because they are not pairs
	Open      int64            `json:"open"`      // embedded, filtered or refused after the last closed group
	Closed    accounting.Tally `json:"closed"`    // up to its end
}

// Adds reports whether the counts add up. While stages write, they may differ by some records.
func (a Account) Adds() bool {
	return a.Published == a.Waiting+a.NoPairs+a.Open+a.Closed.Since+a.Closed.Records()
}

// SetAside returns the number of dead letters: refused pairs, except those that were forgotten, and records that are not
// pairs.
func (a Account) SetAside() int64 {
	return sum(a.Closed.Refused) - a.Closed.Refused[schemas.MaskForgotten] + a.NoPairs + a.Closed.Others
}

// account adds up one lane.
func (s snapshot) account() (Account, error) {
	pairs, embeddings, groups := s.topics[schemas.Pairs], s.topics[schemas.Embeddings], s.topics[schemas.Groups]
	a := Account{Published: pairs.bounds.End}
	if embeddings.found {
		mark, err := stream.MarkOf(embeddings.last)
		if err != nil {
			return a, fmt.Errorf("reading the encoder's mark: %w", err)
		}
		at := mark.Input(schemas.Pairs).Offset
		a.Waiting, a.NoPairs = a.Published-at, at-embeddings.records()
	} else {
		a.Waiting = a.Published
	}
	a.Open = embeddings.records()
	if !groups.found {
		return a, nil
	}
	mark, err := stream.MarkOf(groups.last)
	if err != nil {
		return a, fmt.Errorf("reading the indexer's mark: %w", err)
	}
	tally, from, err := accounting.OfMark(mark.State)
	if err != nil {
		return a, err
	}
	if tally == nil {
		tally = &accounting.Tally{Since: from}
	}
	a.Closed, a.Open = *tally, a.Open-from
	return a, nil
}

func (a *Account) add(o Account) {
	a.Published, a.Waiting, a.NoPairs, a.Open = a.Published+o.Published, a.Waiting+o.Waiting, a.NoPairs+o.NoPairs, a.Open+o.Open
	a.Closed.Add(o.Closed)
}

// String returns the account as an equation.
func (a Account) String() string {
	parts := []string{Count(a.Closed.Members) + " in groups" + some(a.Closed.Near-a.Closed.LeftOut, "near-duplicates")}
	for _, c := range []struct {
		n    int64
		what string
	}{
		{a.Closed.Duplicates + a.Closed.Repeats, "again" + some(a.Closed.SameImage, "repeat an image")},
		{a.Closed.LeftOut, "near-duplicates"},
		{sum(a.Closed.Filtered), "filtered" + byName(a.Closed.Filtered)},
		{sum(a.Closed.Refused), "refused" + byName(a.Closed.Refused)},
		{a.NoPairs + a.Closed.Others, "no pairs"},
		{a.Closed.Seals, "seals"},
		{a.Open, "behind the last group"},
		{a.Waiting, "waiting for the encoder"},
		{a.Closed.Since, "not counted by an older indexer"},
	} {
		if c.n != 0 {
			parts = append(parts, Count(c.n)+" "+c.what)
		}
	}
	equals := "="
	if !a.Adds() {
		equals = "is not"
	}
	return fmt.Sprintf("%s records of pairs %s %s", Count(a.Published), equals, strings.Join(parts, " + "))
}

// account prints the account.
func (p *printer) account(a Account) {
	if a.Published != 0 {
		p.line("%s", a)
	}
}

// some returns a count in parentheses, "" for none.
func some(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s %s)", Count(n), what)
}

func sum(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

func byName(counts map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %s", name, Count(counts[name])))
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
