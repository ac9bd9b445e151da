package token_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestGoldenPreCaption(t *testing.T) {
	raw := must.Get(os.ReadFile(golden.Path(t, "pre_caption.json")))(t)
	var cases []struct {
		Text string `json:"text"`
		At30 string `json:"caption_30"`
		At50 string `json:"caption_50"`
	}
	must.Do(t, json.Unmarshal(raw, &cases))
	if len(cases) == 0 {
		t.Fatal("no captions")
	}
	for _, c := range cases {
		if got := token.PreCaption(c.Text, 30); got != c.At30 {
			t.Errorf("%q in 30 words: %q, want %q", c.Text, got, c.At30)
		}
		if got := token.PreCaption(c.Text, 50); got != c.At50 {
			t.Errorf("%q in 50 words: %q, want %q", c.Text, got, c.At50)
		}
	}
}

func TestPreCaption(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"punctuation", `A "dog", (brown).`, "a dog brown"},
		{"hyphen and slash", "black-and/white", "black and white"},
		{"placeholder", "<PERSON>'s hat", "persons hat"},
		{"one tab stays", "a\tdog", "a\tdog"},
		{"two blanks of different kinds", "a\t\u00a0dog", "a dog"},
		{"word limit", "one two three four", "one two three"},
		{"limit exactly met", "one two three", "one two three"},
		{"final sigma", "ΟΔΟΣ ΣΑΣ", "οδος σας"},
		{"dotted capital I", "İ", "i\u0307"},
		{"line feeds at the end, then blanks", " a dog \n", "a dog"},
		{"nothing left", "?!", ""},
	} {
		if got := token.PreCaption(tt.text, 3); got != tt.want {
			t.Errorf("%s: %q gives %q, want %q", tt.name, tt.text, got, tt.want)
		}
	}
}

func TestPreparedCaptionsAreEncoded(t *testing.T) {
	w := must.Get(token.NewWordPiece([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", ".", "-", "ball"}))(t)
	const caption = "A dog-ball."
	if got, want := w.Encode(caption, 10), []int32{2, 5, 6, 8, 9, 7, 3}; !slices.Equal(got, want) {
		t.Errorf("as it is: %v, want %v", got, want)
	}
	w.PrepareCaptions(30)
	if got, want := w.Encode(caption, 10), []int32{2, 5, 6, 9, 3}; !slices.Equal(got, want) {
		t.Errorf("prepared: %v, want %v", got, want)
	}
}
