package token_test

import (
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func gzipped(t testing.TB, text string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	must.Get(w.Write([]byte(text)))(t)
	must.Do(t, w.Close())
	return &b
}

// smallCLIP knows four merges, with the ids 512 to 515; the start and end tokens are 516 and 517.
func smallCLIP(t testing.TB) *token.CLIP {
	t.Helper()
	c := must.Get(token.NewCLIP(gzipped(t, "#version\na b\na b</w>\nab ab</w>\na a\n")))(t)
	return c
}

// letters are the ids of a printing ASCII word of which nothing merges.
func letters(word string) []int32 {
	var ids []int32
	for _, b := range []byte(word) {
		ids = append(ids, int32(b-'!'))
	}
	ids[len(ids)-1] += 256
	return ids
}

func TestCLIPWords(t *testing.T) {
	c := smallCLIP(t)
	for name, tc := range map[string]struct {
		text string
		want [][]int32
	}{
		"nothing":                        {" \n\u2003", nil},
		"merges in order of rank":        {"abab", [][]int32{{514}}},
		"the leftmost of equals first":   {"aaab", [][]int32{{515, 513}}},
		"case folds":                     {"AB", [][]int32{{513}}},
		"marks stay together":            {"ab?!c", [][]int32{{513}, letters("?!"), letters("c")}},
		"a contraction is a word":        {"c'sd", [][]int32{letters("c"), letters("'s"), letters("d")}},
		"but not among marks":            {"c!'s", [][]int32{letters("c"), letters("!'"), letters("s")}},
		"digits stand alone":             {"12", [][]int32{letters("1"), letters("2")}},
		"HTML is unescaped twice":        {"&amp;lt;", [][]int32{letters("<")}},
		"but not three times":            {"&amp;amp;lt;", [][]int32{letters("&"), letters("lt"), letters(";")}},
		"information separators trimmed": {"\x1fc\x1c", [][]int32{letters("c")}},
		"written-out special tokens":     {"<|startoftext|>c<|endoftext|>", [][]int32{{516}, letters("c"), {517}}},
		"none of them inside marks":      {"!<|endoftext|>", [][]int32{letters("!<|"), letters("endoftext"), letters("|>")}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := c.IDs(tc.text), slices.Concat(tc.want...); !slices.Equal(got, want) {
				t.Errorf("%q: got %d, want %d", tc.text, got, want)
			}
		})
	}
}

func TestCLIPEncodeCutsTheTextNotTheSpecialTokens(t *testing.T) {
	c := smallCLIP(t)
	text := append(letters("ddd"), letters("cd")...)
	for limit, kept := range map[int]int{-1: 0, 2: 0, 3: 1, 4: 2, 5: 3, 6: 4, 7: 5, 8: 5} {
		want := slices.Concat([]int32{516}, text[:kept], []int32{517})
		if got := c.Encode("ddd cd", limit); !slices.Equal(got, want) {
			t.Errorf("limit %d: got %d, want %d", limit, got, want)
		}
	}
}

func TestNewCLIPRefuses(t *testing.T) {
	for name, c := range map[string]struct{ merges, want string }{
		"a line of one symbol":             {"#v\nab\n", `line 2 is "ab"`},
		"a symbol from nowhere":            {"#v\na b\nabc d\n", `line 3 is "abc d"`},
		"a symbol made twice":              {"#v\na b\nb c\na bc\nab c\n", `line 5 makes "abc" a second time`},
		"no merges":                        {"#v\n", "holds none"},
		"no lines":                         {"", "holds none"},
		"a line longer than any two words": {"#v\n" + strings.Repeat("a", 1<<17), "token too long"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := token.NewCLIP(gzipped(t, c.merges))
			if err == nil || !strings.Contains(err.Error(), c.want) || got != nil {
				t.Errorf("got %v, %v, want an error with %q", got, err, c.want)
			}
		})
	}
	whole := gzipped(t, "#v\na b\n").Bytes()
	for _, raw := range [][]byte{nil, []byte("plain"), whole[:len(whole)-9]} {
		if _, err := token.NewCLIP(bytes.NewReader(raw)); err == nil {
			t.Errorf("%d bytes that are no gzip file were read", len(raw))
		}
	}
}
