package filter_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/filter"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func parse(t testing.TB, text string) *filter.Rules {
	t.Helper()
	r := must.Get(filter.Parse(text))(t)
	return r
}

// judge asks all rounds, in their order.
func judge(r *filter.Rules, f *filter.Facts) filter.Verdict {
	for _, round := range []filter.Round{filter.Words, filter.Size, filter.Match} {
		if v := r.Judge(round, f); v.Dropped() {
			return v
		}
	}
	return filter.Verdict{}
}

func TestRules(t *testing.T) {
	f := &filter.Facts{
		Caption: "zwei  Hunde am Strand – 狗", Source: "https://example.org/a.jpg", Width: 640, Height: 200, Similarity: 0.25,
		Meta: schemas.Columns{"punsafe": 0.05, "likes": int64(3), "nsfw": "UNLIKELY", "mark": true},
		Language: func(text string) string {
			if strings.HasPrefix(text, "zwei") {
				return "de"
			}
			return ""
		},
	}
	for _, c := range []struct{ text, rule, why string }{
		{"", "", ""},
		{" ; ", "", ""},
		{"width >= 200 && aspect < 3.0", "filter", ""},
		{"width >= 640 && height <= 200 && aspect <= 3.2 && aspect >= 3.2", "", ""},
		{"similarity > 0.25", "filter", ""},
		{"similarity >= 0.25", "", ""},
		{"similarity > 0", "", ""},
		{"chars == 25 && words == 6", "", ""},
		{`lang == "de"`, "", ""},
		{`english: lang == "en"`, "english", ""},
		{"meta.punsafe < 0.1 && meta.likes > 2.5 && meta.likes == 3 && meta.mark", "", ""},
		{`source.startsWith("https://") && caption.matches("Hund(e)?") && meta["nsfw"] in ["UNLIKELY", "UNSURE"]`, "", ""},
		{"safe: meta.watermark < 0.8", "safe", "no such key: watermark"},
		{"safe: !has(meta.watermark) || meta.watermark < 0.8", "", ""},
		{"odd: meta.nsfw < 0.8", "odd", "no such overload"},
		{"odd: meta.nsfw", "odd", "the expression gives a string, want true or false"},
		{"mark: meta.mark", "", ""},
		{`text: caption != "a;b" && caption != 'c"; d' && caption != "\";"; small: width < 10`, "small", ""},
		{"match: similarity > 0.9; size: width > 1000; words: words > 100", "words", ""},
		{"match: similarity > 0.9; size: width > 1000; words: words > 5", "size", ""},
		{"match: similarity > 0.9; size: width > 100; words: words > 5", "match", ""},
		{"a: words > 100; b: chars > 100", "a", ""},
		{"cost: [1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, a+b+c+d+e < 99)))))", "cost", "cost limit"},
	} {
		t.Run(c.text, func(t *testing.T) {
			r := parse(t, c.text)
			for range 3 {
				if got := judge(r, f); got.Rule != c.rule || (got.Why == "") != (c.why == "") || !strings.Contains(got.Why, c.why) {
					t.Errorf("verdict %+v, want rule %q and %q", got, c.rule, c.why)
				}
			}
		})
	}
}

// MAFA refines what was crawled, and takes COCO and Visual Genome as they are: pairs without a score.
func TestTheRuleOf4MClean(t *testing.T) {
	r := parse(t, "clean: !has(meta.match) || meta.match > 0.5")
	for _, c := range []struct {
		pair string
		meta schemas.Columns
		rule string
	}{
		{"a caption that holds", schemas.Columns{"match": 0.9, "made": "web"}, ""},
		{"one that does not", schemas.Columns{"match": 0.2, "made": "web"}, "clean"},
		{"BLIP's own that does not", schemas.Columns{"match": 0.5, "made": "blip"}, "clean"},
		{"a pair that was not crawled", nil, ""},
	} {
		if got := judge(r, &filter.Facts{Caption: "a dog", Meta: c.meta}); got.Rule != c.rule {
			t.Errorf("%s: verdict %+v, want rule %q", c.pair, got, c.rule)
		}
	}
}

func TestProblemsNameThePlace(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"widht >= 200", "line 1, column 1, in rule filter: undeclared reference to 'widht'"},
		{"size: width >= 200; en: lang = 3", "line 1, column 30, in rule en: "},
		{"size: width >= 200;\n  en: lang == 3", "line 2, column 12, in rule en: found no matching overload"},
		{"size: width", "line 1, column 7, in rule size: the expression gives a int, want true or false"},
		{"width > 1; height > 1", "line 1, column 1: a rule without a name, want NAME: EXPRESSION"},
		{"a: width > 1; a: height > 1", "line 1, column 18: a second rule with the name a"},
		{strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200), "line 1, column"},
		{strings.Repeat(" ", filter.MaxBytes) + "1", "rules of 4097 bytes, want at most 4096"},
		{strings.Join(rules(filter.MaxRules+1), ";"), "17 rules, want at most 16"},
	} {
		if r, err := filter.Parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q gives %v and %v, want an error with %q", c.text, r, err, c.want)
		}
	}
	parse(t, strings.Join(rules(filter.MaxRules), ";"))
}

func rules(n int) []string {
	var out []string
	for i := range n {
		out = append(out, string(rune('a'+i))+": width > 1")
	}
	return out
}

func TestRulesSayWhatTheyNeed(t *testing.T) {
	r := parse(t, "match: similarity > 0.1; size: width > 3; words: words > 2")
	if got, want := r.Names(), []string{"words", "size", "match"}; !slices.Equal(got, want) {
		t.Errorf("rules %v, want %v", got, want)
	}
	if r.NeedsLanguage() || !r.Needs(filter.Size) || !r.Needs(filter.Match) {
		t.Error("these rules need a size and a similarity, and no language")
	}
	if !parse(t, `["en"].exists(l, l == lang)`).NeedsLanguage() {
		t.Error("this rule needs a language")
	}
	asked := 0
	r.Judge(filter.Words, &filter.Facts{Caption: "a b c", Language: func(string) string { asked++; return "" }})
	if asked != 0 {
		t.Error("the language was asked for")
	}
}

func BenchmarkJudge(b *testing.B) {
	r := parse(b, `width >= 200 && aspect < 3.0 && similarity > 0.25 && chars > 5 && meta.punsafe < 0.1`)
	f := &filter.Facts{Caption: "two dogs on the beach", Width: 640, Height: 480, Similarity: 0.3, Meta: schemas.Columns{"punsafe": 0.01}}
	for b.Loop() {
		if r.Judge(filter.Match, f).Dropped() {
			b.Fatal("dropped")
		}
	}
}
