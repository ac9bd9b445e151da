package hardcaption

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/nouns"
	"github.com/pairstream/pairstream/internal/testing/must"
)

var tagger = sync.OnceValues(nouns.Load)

func read(t testing.TB, texts ...string) (all []Caption) {
	t.Helper()
	tags := must.Get(tagger())(t)
	for _, text := range texts {
		all = append(all, Read(tags, text))
	}
	return all
}

func TestContradicts(t *testing.T) {
	for _, c := range []struct {
		own, other string
		want       bool
	}{
		{"a red star and a blue circle", "a red star and a blue circle", false},
		{"a red star and a blue circle", "a blue circle and a red star", false},
		{"a red star and a blue circle", "a blue star and a red circle", true},
		{"a red star and a blue circle", "a green star", true},
		{"a red star and a blue circle", "a green square", false}, // it may be there as well
		{"a red star and a blue circle", "a star", false},
		{"a star", "a red star", false},
		{"two red stars", "three red stars", true},
		{"two red stars", "a red star", false}, // there is one
		{"two red stars", "red stars", false},
		{"stars", "three stars", false},
		{"a red star and a blue star", "two stars", false},
		{"a red star and a blue star", "two red stars", true},
		{"a brown dog runs", "a black and white dog sits", false}, // of several colours
		{"a black dog runs", "a big brown dog runs", true},
		{"", "a red star", false},
	} {
		all := read(t, c.own, c.other)
		if got := all[0].Contradicts(all[1]); got != c.want {
			t.Errorf("%q contradicts %q: %t, want %t", c.other, c.own, got, c.want)
		}
	}
}

func TestEdit(t *testing.T) {
	texts := []string{"a picture of a red star", "a drawing of a blue circle", "a photo of a red circle", "green", "there is"}
	all := read(t, texts...)
	got := map[string]bool{}
	for seed := range uint64(40) {
		text, ok := Edit(all, 0, nil, rng.New(seed, "test"))
		if !ok {
			t.Fatal("nothing was replaced")
		}
		got[text] = true
	}
	if want := map[string]bool{"a picture of a red circle": true}; !maps.Equal(got, want) {
		t.Errorf("made were %v, want %v", got, want)
	}
	for name, c := range map[string]struct {
		at    int
		alike []int32
		want  []string
	}{
		"a colour where no noun can be": {0, []int32{1, 2}, []string{"a picture of a green star"}},
		"of a single colour":            {3, nil, []string{"red", "blue"}},
	} {
		if text, ok := Edit(all, c.at, c.alike, rng.New(1, "test")); !ok || !slices.Contains(c.want, text) {
			t.Errorf("%s: %q, want one of %q", name, text, c.want)
		}
	}
	if text, ok := Edit(all, 4, nil, rng.New(1, "test")); ok {
		t.Errorf("a caption without nouns became %q", text)
	}
	a, _ := Edit(all, 0, nil, rng.New(3, "test"))
	if b, _ := Edit(all, 0, nil, rng.New(3, "test")); a != b {
		t.Errorf("the same draws made %q and %q", a, b)
	}
}

// Reword replaces every noun and colour, by words of its kind, and needs two of them.
func TestReword(t *testing.T) {
	all := read(t, "a picture of a red star", "a drawing of a blue circle", "a photo of a green square", "green")
	for seed := range uint64(20) {
		text, ok := Reword(all, 0, []int32{1}, rng.New(seed, "test"))
		if want := "a picture of a green square"; !ok || text != want {
			t.Errorf("made was %q, want %q: neither word of the caption, nor one of a caption that is alike", text, want)
		}
	}
	if text, ok := Reword(all, 3, nil, rng.New(1, "test")); ok {
		t.Errorf("a caption of one word became %q", text)
	}
}

func TestThingsAreRead(t *testing.T) {
	all := read(t, "two large red crosses, a fish and three boxes")
	want := []thing{{"cross", "red", 2}, {"fish", "", 1}, {"box", "", 3}}
	if !slices.Equal(all[0].things, want) {
		t.Errorf("%+v, want %+v", all[0].things, want)
	}
}
