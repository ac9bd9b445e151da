package token_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/testing/must"
)

var captions = []string{"A dog.", "a dog, the DOG", "two dogs", "the 狗"}

func TestBuildVocab(t *testing.T) {
	got := token.BuildVocab(slices.Values(captions), 100, 2)
	want := strings.Fields("[PAD] [UNK] [CLS] [SEP] [MASK] , . a d e g h o s t w 狗 " +
		"##a ##d ##e ##g ##h ##o ##s ##t ##w dog the")
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestBuildVocabKeepsItsSize(t *testing.T) {
	for size := range 40 {
		got := token.BuildVocab(slices.Values(captions), size, 1)
		if len(got) > max(size, 5) {
			t.Errorf("size %d: %d tokens", size, len(got))
		}
		if _, err := token.NewWordPiece(got); err != nil {
			t.Errorf("size %d: %v", size, err)
		}
	}
	// Five special tokens, room for one character and its piece out of seven tokens: the most frequent is o.
	if got := token.BuildVocab(slices.Values([]string{"too old"}), 9, 1); !slices.Equal(got[5:], []string{"o", "##o", "old", "too"}) {
		t.Errorf("got %q", got)
	}
}

func TestBuildVocabDoesNotDependOnTheOrder(t *testing.T) {
	backwards := slices.Clone(captions)
	slices.Reverse(backwards)
	a, b := token.BuildVocab(slices.Values(captions), 24, 1), token.BuildVocab(slices.Values(backwards), 24, 1)
	if !slices.Equal(a, b) {
		t.Errorf("%q\n%q", a, b)
	}
}

func TestNothingOverTheAlphabetIsUnknown(t *testing.T) {
	w := must.Get(token.NewWordPiece(token.BuildVocab(slices.Values(captions), 100, 1000)))(t)
	if got := w.Tokens("Goth sweat, the sheetwood. 狗狗!"); slices.Index(got, "[UNK]") != len(got)-1 {
		t.Errorf("got %q, want only the last token unknown", got)
	}
}
