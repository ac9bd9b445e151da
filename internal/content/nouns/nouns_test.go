package nouns_test

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/jdkato/prose/v2"

	"github.com/pairstream/pairstream/internal/content/nouns"
	"github.com/pairstream/pairstream/internal/testing/must"
)

var tagger = sync.OnceValue(func() *nouns.Tagger {
	t, err := nouns.Load()
	if err != nil {
		panic(err)
	}
	return t
})

func TestNouns(t *testing.T) {
	tests := []struct {
		name, caption string
		want          []string
	}{
		{"a sentence", "A dog runs on the beach .", []string{"beach", "dog"}},
		{"distinct and ascending", "Two dogs chase a dog near dogs and a cat", []string{"cat", "dog", "dogs"}},
		{"lower-cased", "A Man in a RED Shirt", []string{"man", "shirt"}},
		{"hyphens", "A boy in a t-shirt", []string{"boy", "t-shirt"}},
		{"addresses are no words", "photo from http://example.com/a.jpg by bob@example.com @bob", []string{"photo"}},
		{"numbers", "4 2019 100%", nil},
		{"blank", "   ", nil},
		{"lower case is longer in UTF-8", "A picture of ȺȺ's dog", []string{"dog", "picture", "ⱥⱥ"}},
		{"a long run is left out", "a dog " + strings.Repeat(")", 8000) + " and a cat", []string{"cat", "dog"}},
		{"a word of 65 letters is none", "a dog and a " + strings.Repeat("b", 64) + " and a " + strings.Repeat("c", 65), []string{strings.Repeat("b", 64), "dog"}},
		{"not UTF-8", "a dog \xff\xfe's", []string{"dog"}},
		{"punctuation", "... !!! - ' \" ( )", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := tagger().Nouns(test.caption); !slices.Equal(got, test.want) {
				t.Errorf("nouns of %q: %q, want %q", test.caption, got, test.want)
			}
		})
	}
}

// A word counts where it is a noun. Equation 7 of GPN-S as printed counts it in all of them.
func TestAWordIsANounWhereItIsTaggedAsOne(t *testing.T) {
	for caption, want := range map[string]bool{
		"The light is red": true, "A man in a light blue shirt": false, "Two boys play in the sand": false,
		"A play on a stage": true,
	} {
		found := tagger().Nouns(caption)
		if got := slices.Contains(found, "light") || slices.Contains(found, "play"); got != want {
			t.Errorf("%q has the nouns %q", caption, found)
		}
	}
}

// captions returns a few of ours, and those of the photographs in the folder that PAIRSTREAM_FLICKR names.
func captions(t testing.TB) []string {
	t.Helper()
	out := []string{
		"A brown-and-white dog catches a Frisbee in mid-air, in 1987!",
		"Three people don't look at the camera; they're reading U.S. newspapers.",
		"\"Stop\" says the sign (in red) for $100 at 12:30 p.m.",
		"*T*-1 -LRB- 0 * *U* see www.example.org/page and mail@example.org or @someone",
		"Ein Hund läuft über die Straße – schön, naïve café",
		"The quick brown fox jumps over 13 lazy dogs' 2nd kennels",
	}
	folder := os.Getenv("PAIRSTREAM_FLICKR")
	if folder == "" {
		return out
	}
	tars := must.Get(filepath.Glob(filepath.Join(folder, "*.tar")))(t)
	for _, path := range tars {
		out = append(out, tarTexts(t, path)...)
	}
	return out
}

func tarTexts(t testing.TB, path string) []string {
	t.Helper()
	file := must.Get(os.Open(path))(t)
	defer file.Close()
	var out []string
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		must.Do(t, err)
		if strings.HasSuffix(header.Name, ".json") || strings.HasSuffix(header.Name, ".txt") {
			text := must.Get(io.ReadAll(r))(t)
			out = append(out, strings.Split(string(text), "\"")...)
		}
	}
}

// TestTagsAreProses compares with prose's own tagger. Its sums depend on the order of a map, so where two tags come
// within rounding of one another it may choose either; that is rare.
func TestTagsAreProses(t *testing.T) {
	model := prose.ModelFromData("shared")
	words, different := 0, 0
	for _, caption := range captions(t) {
		doc := must.Get(prose.NewDocument(caption, prose.UsingModel(model), prose.WithExtraction(false), prose.WithSegmentation(false)))(t)
		split := nouns.Words(caption)
		tags := tagger().Tags(split)
		tokens := doc.Tokens()
		if len(tokens) != len(split) {
			t.Fatalf("%q: %d words, prose has %d", caption, len(split), len(tokens))
		}
		for i, token := range tokens {
			words++
			if token.Text != split[i] {
				t.Fatalf("%q: word %d is %q, prose has %q", caption, i, split[i], token.Text)
			}
			// prose tags a repeated word once, in its last place: a repetition may differ.
			repeated := slices.Contains(split[i+1:], split[i]) || slices.Contains(split[:i], split[i])
			if token.Tag != tags[i] && !repeated {
				different++
				t.Logf("%q: word %q is %s, prose says %s", caption, split[i], tags[i], token.Tag)
			}
		}
	}
	t.Logf("%d of %d words differ", different, words)
	if different*1000 > words {
		t.Errorf("%d of %d words differ from prose's tags", different, words)
	}
}

func TestNounsAreAlwaysTheSame(t *testing.T) {
	other := must.Get(nouns.Load())(t)
	for _, caption := range captions(t) {
		want := tagger().Nouns(caption)
		for range 3 {
			if got := other.Nouns(caption); !slices.Equal(got, want) {
				t.Fatalf("nouns of %q: %q, then %q", caption, want, got)
			}
		}
	}
}

// TestNounsOfALongCaption has a hundred nouns in a caption, some of them twice: the first 64 distinct ones count.
func TestNounsOfALongCaption(t *testing.T) {
	var caption strings.Builder
	var want []string
	for i := range 100 {
		word := "dog" + string(rune('a'+i/10)) + string(rune('a'+i%10))
		fmt.Fprintf(&caption, "the %s and the %s . ", word, word)
		if i < 64 {
			want = append(want, word)
		}
	}
	if got := tagger().Nouns(caption.String()); !slices.Equal(got, want) {
		t.Errorf("%d nouns, want the first %d: %q", len(got), len(want), got)
	}
}

func FuzzNouns(f *testing.F) {
	for _, caption := range captions(f)[:6] {
		f.Add(caption)
	}
	f.Add("a\u00a0b \u2028 \x00 '")
	f.Add("ȺȺ's İn't")
	f.Fuzz(func(t *testing.T, caption string) {
		got := tagger().Nouns(caption)
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("nouns of %q are not a sorted set: %q", caption, got)
		}
		for _, noun := range got {
			if noun == "" || strings.ContainsAny(noun, " \t\n") || !utf8.ValidString(noun) {
				t.Errorf("noun %q of %q", noun, caption)
			}
		}
	})
}

func BenchmarkNouns(b *testing.B) {
	all := captions(b)
	tagger()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tagger().Nouns(all[i%len(all)])
	}
}

// The stages of a process share one model.
func TestLoadReadsOnce(t *testing.T) {
	first := must.Get(nouns.Load())(t)
	if second, err := nouns.Load(); err != nil || second != first {
		t.Errorf("a second model (%v)", err)
	}
}
