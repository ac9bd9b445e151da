package token_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func wordPiece(t testing.TB, more ...string) *token.WordPiece {
	t.Helper()
	w := must.Get(token.NewWordPiece(append([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, more...)))(t)
	return w
}

func TestWords(t *testing.T) {
	w := wordPiece(t, "a", "b", "ab", "##b", "##ab", "i", "!", "$", "漢", "字", "σ", "##α", "é", "e", "xy", "`")
	long := strings.Repeat("ab", 50)
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":                          {"", nil},
		"white space":                      {" \t\n\r\u00a0\u3000\u2028", nil},
		"the longest piece goes first":     {"abab", []string{"ab", "##ab"}},
		"a word that cannot be finished":   {"abx a", []string{"[UNK]", "a"}},
		"accents go":                       {"É e\u0301", []string{"e", "e"}},
		"an accent alone is no word":       {"\u0301 a", []string{"a"}},
		"capital I with dot":               {"İ", []string{"i"}},
		"sigma is never final":             {"ΣΑ Σ", []string{"σ", "##α", "σ"}},
		"every ASCII mark splits":          {"a$b!`", []string{"a", "$", "b", "!", "`"}},
		"accented grave is punctuation":    {"a\u1fef", []string{"a", "`"}},
		"Chinese characters stand alone":   {"a漢字b", []string{"a", "漢", "字", "b"}},
		"controls join":                    {"x\u0000\u200d\ufffd\u0378\ue000\u007fy", []string{"xy"}},
		"bytes that are no UTF-8 join":     {"x\xff\xc3y", []string{"xy"}},
		"the line separator splits":        {"a\u2028b", []string{"a", "b"}},
		"100 runes are looked up":          {long, append([]string{"ab"}, slices.Repeat([]string{"##ab"}, 49)...)},
		"101 runes are not":                {long + "b", []string{"[UNK]"}},
		"special tokens stand for a token": {"a[MASK]b [SEP]", []string{"a", "[MASK]", "b", "[SEP]"}},
		"special tokens are upper case":    {"[mask]", []string{"[UNK]", "[UNK]", "[UNK]"}},
		"brackets in brackets":             {"[[PAD]", []string{"[UNK]", "[PAD]"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := w.Tokens(c.text); !slices.Equal(got, c.want) {
				t.Errorf("%q: got %q, want %q", c.text, got, c.want)
			}
		})
	}
}

func TestEncodeCutsTheTextNotTheSpecialTokens(t *testing.T) {
	w := wordPiece(t, "a", "b") // ids 5 and 6
	for limit, want := range map[int][]int32{
		-1: {2, 3}, 0: {2, 3}, 2: {2, 3}, 3: {2, 5, 3}, 4: {2, 5, 6, 3}, 5: {2, 5, 6, 5, 3}, 6: {2, 5, 6, 5, 3},
	} {
		if got := w.Encode("a b a", limit); !slices.Equal(got, want) {
			t.Errorf("limit %d: got %d, want %d", limit, got, want)
		}
	}
}

func TestIDs(t *testing.T) {
	w := wordPiece(t, "a", "##a", "##")
	for tok, want := range map[string]int32{"[PAD]": 0, "[MASK]": 4, "a": 5, "##a": 6, "##": 7} {
		if id, ok := w.ID(tok); !ok || id != want {
			t.Errorf("%s: id %d, %v, want %d", tok, id, ok, want)
		}
	}
	if id, ok := w.ID("##b"); ok {
		t.Errorf("##b has id %d", id)
	}
	if w.PadID != 0 || w.UnknownID != 1 || w.ClassID != 2 || w.SeparatorID != 3 || w.MaskID != 4 || w.Size() != 8 {
		t.Errorf("special ids or size are wrong: %+v", w)
	}
}

func TestNewWordPieceRefuses(t *testing.T) {
	for name, c := range map[string]struct{ vocab, want string }{
		"a missing special token": {"[PAD] [UNK] [CLS] [SEP]", "lacks [MASK]"},
		"a token twice":           {"[PAD] [UNK] [CLS] [SEP] [MASK] a ##a a", `"a" has ids 5 and 7`},
		"an empty token":          {"[PAD] [UNK] [CLS] [SEP] [MASK]  a", "token 5 is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := token.NewWordPiece(strings.Split(c.vocab, " "))
			if err == nil || !strings.Contains(err.Error(), c.want) || w != nil {
				t.Errorf("got %v, %v, want an error with %q", w, err, c.want)
			}
		})
	}
}

func TestReadVocab(t *testing.T) {
	got, err := token.ReadVocab(strings.NewReader("\ufeff[PAD]\r\na\u2028b\nc"))
	if err != nil || !slices.Equal(got, []string{"[PAD]", "a\u2028b", "c"}) {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := token.ReadVocab(strings.NewReader("a\n" + strings.Repeat("b", 1<<17))); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("an endless line gave %v", err)
	}
}
