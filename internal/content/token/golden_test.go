package token_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func openVocab(t testing.TB, name string) *os.File {
	t.Helper()
	f := must.Get(os.Open(filepath.Join(golden.Testdata(t, "vocab"), name)))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

func bertUncased(t testing.TB) *token.WordPiece {
	t.Helper()
	vocab := must.Get(token.ReadVocab(openVocab(t, "bert-base-uncased-vocab.txt")))(t)
	w := must.Get(token.NewWordPiece(vocab))(t)
	return w
}

func openaiCLIP(t testing.TB) *token.CLIP {
	t.Helper()
	c := must.Get(token.NewCLIP(openVocab(t, "clip_bpe_vocab_16e6.txt.gz")))(t)
	return c
}

type goldenText struct {
	Text       string   `json:"text"`
	BERTTokens []string `json:"bert_tokens"`
	BERT       []int32  `json:"bert_ids"`
	BERT25     []int32  `json:"bert_ids_max25"`
	CLIP       []int32  `json:"clip_ids"`
	CLIP77     []int32  `json:"clip_ids_77"`
}

func goldenTexts(t testing.TB) []goldenText {
	t.Helper()
	raw := must.Get(os.ReadFile(golden.Path(t, "tokenizers.json")))(t)
	var texts []goldenText
	must.Do(t, json.Unmarshal(raw, &texts))
	if len(texts) == 0 {
		t.Fatal("tokenizers.json holds no texts")
	}
	return texts
}

func TestGoldenWordPiece(t *testing.T) {
	w := bertUncased(t)
	for _, g := range goldenTexts(t) {
		if got := w.Tokens(g.Text); !slices.Equal(got, g.BERTTokens) {
			t.Errorf("%q: tokens %q, want %q", g.Text, got, g.BERTTokens)
		}
		if got := w.Encode(g.Text, len(g.BERT)+2); !slices.Equal(got[1:len(got)-1], g.BERT) {
			t.Errorf("%q: ids %d, want %d", g.Text, got, g.BERT)
		}
		if got := padded(w.Encode(g.Text, len(g.BERT25)), len(g.BERT25)); !slices.Equal(got, g.BERT25) {
			t.Errorf("%q: cut ids %d, want %d", g.Text, got, g.BERT25)
		}
	}
}

func TestGoldenCLIP(t *testing.T) {
	c := openaiCLIP(t)
	for _, g := range goldenTexts(t) {
		if got := c.IDs(g.Text); !slices.Equal(got, g.CLIP) {
			t.Errorf("%q: ids %d, want %d", g.Text, got, g.CLIP)
		}
		if got := padded(c.Encode(g.Text, len(g.CLIP77)), len(g.CLIP77)); !slices.Equal(got, g.CLIP77) {
			t.Errorf("%q: cut ids %d, want %d", g.Text, got, g.CLIP77)
		}
	}
}

func padded(ids []int32, n int) []int32 { return append(ids, make([]int32, n-len(ids))...) }

func BenchmarkWordPiece(b *testing.B) {
	w := bertUncased(b)
	for b.Loop() {
		w.Encode("A girl with a pink headband and blue shirt is drumming on blue plastic and metal bowls.", 30)
	}
}

func BenchmarkCLIP(b *testing.B) {
	c := openaiCLIP(b)
	for b.Loop() {
		c.Encode("A girl with a pink headband and blue shirt is drumming on blue plastic and metal bowls.", 77)
	}
}
