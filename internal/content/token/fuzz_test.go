package token_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/content/token"
)

// TestFuzzTargetsHaveSeeds keeps the targets below from running on nothing.
func TestFuzzTargetsHaveSeeds(t *testing.T) {
	for _, target := range []string{"FuzzWordPiece", "FuzzCLIP"} {
		if seeds, err := filepath.Glob(filepath.Join("testdata", "fuzz", target, "*")); err != nil || len(seeds) == 0 {
			t.Errorf("%s has %d seeds, %v", target, len(seeds), err)
		}
	}
}

func FuzzWordPiece(f *testing.F) {
	w := wordPiece(f, token.BuildVocab(slices.Values([]string{"two dogs and a café, 狗 und Σας", "[x]"}), 200, 1)[5:]...)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit %= 1000
		tokens := w.Tokens(text)
		for _, tok := range tokens {
			if _, ok := w.ID(tok); !ok {
				t.Fatalf("token %q has no id", tok)
			}
		}
		whole := w.Encode(text, len(tokens)+2)
		if len(whole) != len(tokens)+2 || whole[0] != w.ClassID || whole[len(whole)-1] != w.SeparatorID {
			t.Fatalf("%d tokens are encoded as %d", len(tokens), whole)
		}
		kept := min(max(limit, 2)-2, len(tokens))
		if got, want := w.Encode(text, limit), append(slices.Clone(whole[:kept+1]), w.SeparatorID); !slices.Equal(got, want) {
			t.Fatalf("limit %d: got %d, want %d", limit, got, want)
		}
		// Known pieces put together again are words that encode to the same pieces.
		if text := strings.ReplaceAll(strings.Join(tokens, " "), " ##", ""); !slices.Equal(w.Tokens(text), tokens) {
			t.Fatalf("%q: got %q, want %q", text, w.Tokens(text), tokens)
		}
	})
}
