package model_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// towersCode is the program of a TorchScript module without weights. An image's vector is the mean of its rows of the
// red channel. A text's vector is the first numbers of its ids.
const towersCode = `class Towers(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def encode_image(self: __torch__.Towers,
    x: Tensor) -> Tensor:
    _0 = torch.select(x, 1, 0)
    return torch.mean(_0, [2])
  def encode_text(self: __torch__.Towers,
    ids: Tensor) -> Tensor:
    _0 = torch.to(ids, 6)
    return torch.slice(_0, 1, 0, %d)
`

// extra is a file of an archive.
type extra struct{ name, text string }

// writeScript makes a TorchScript archive by hand. It is a zip file of the code and the pickled module, whose only
// attribute says that it is not in training.
func writeScript(t *testing.T, code string, extras ...extra) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "towers.pt")
	out := must.Get(os.Create(path))(t)
	archive := zip.NewWriter(out)
	entries := []extra{
		{"data.pkl", "\x80\x02c__torch__\nTowers\nq\x00)\x81}(X\x08\x00\x00\x00trainingq\x01\x89ub."},
		{"code/__torch__.py", code},
		{"constants.pkl", "\x80\x02)."},
		{"version", "3\n"},
	}
	for _, e := range extras {
		entries = append(entries, extra{"extra/" + e.name, e.text})
	}
	for _, entry := range entries {
		w := must.Get(archive.CreateHeader(&zip.FileHeader{Name: "towers/" + entry.name, Method: zip.Store}))(t)
		must.Get(w.Write([]byte(entry.text)))(t)
	}
	must.Do(t, archive.Close())
	must.Do(t, out.Close())
	return path
}

func TestScriptEncoder(t *testing.T) {
	w := worker(t)
	e := must.Get(model.NewScriptEncoder(context.Background(), w, writeScript(t, fmt.Sprintf(towersCode, 6)), model.ScriptOptions{
		ImageSize: 6, TextTokens: 8, Words: clipWords(t), BatchSize: 3,
	}))(t)
	defer e.Free()
	if e.Dim() != 6 || e.ImageSize() != 6 {
		t.Errorf("%d values for images of %d", e.Dim(), e.ImageSize())
	}
	checkRows(t, e, 7)
}

// oneSizeCode takes images of so many pixels alone.
var oneSizeCode = strings.NewReplacer("return torch.mean(_0, [2])", "return torch.slice(torch.reshape(_0, [-1, %d]), 1, 0, 6)", "0, %d)", "0, 6)").Replace(towersCode)

// A program that takes images of one size alone tells it by what it refuses.
func TestTheSizeOfAScriptsImagesIsFound(t *testing.T) {
	for _, size := range []int{224, 256, 448} {
		e := must.Get(model.OpenEncoder(t.Context(), worker(t), writeScript(t, fmt.Sprintf(oneSizeCode, size*size)), model.EncoderOptions{VocabPath: mergesPath(t), BatchSize: 3}))(t)
		if e.ImageSize() != size || e.Dim() != 6 {
			t.Errorf("images of %d pixels and %d values, want %d and 6", e.ImageSize(), e.Dim(), size)
		}
		e.Free()
	}
}

// A TorchScript archive beside a WordPiece vocabulary reads the ids of its own words, padded with zeros.
func TestScriptEncoderWithWordPiece(t *testing.T) {
	vocab := func(words string) string {
		path := filepath.Join(t.TempDir(), "vocab.txt")
		must.Do(t, os.WriteFile(path, []byte("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"+words), 0o644))
		return path
	}
	archive, w := writeScript(t, fmt.Sprintf(towersCode, 6)), worker(t)
	open := func(path string) *model.Encoder {
		e := must.Get(model.OpenEncoder(t.Context(), w, archive, model.EncoderOptions{VocabPath: path, ImageSize: 6, TextTokens: 8, BatchSize: 3}))(t)
		return e
	}
	e := open(vocab("cat\ndog\n"))
	defer e.Free()
	got, err := e.EncodeTexts(t.Context(), []string{"Dog, cat"})
	must.Do(t, err)
	norm := math.Sqrt(2*2 + 6*6 + 1 + 5*5 + 3*3)
	for i, id := range []float64{2, 6, 1, 5, 3, 0} { // a comma is unknown
		if math.Abs(float64(got[i])-id/norm) > 1e-6 {
			t.Errorf("value %d is %v, want that of id %v", i, got[i], id)
		}
	}
	other := open(vocab("cat\ncow\n"))
	defer other.Free()
	if e.Fingerprint() == other.Fingerprint() {
		t.Error("another vocabulary has the same fingerprint")
	}
	_, err = model.OpenEncoder(t.Context(), w, archive, model.EncoderOptions{VocabPath: filepath.Join(t.TempDir(), "none"), ImageSize: 6})
	if err == nil || !strings.Contains(err.Error(), "opening the vocabulary") {
		t.Errorf("error %v for a vocabulary that is not there", err)
	}
}

// TestScriptFingerprint names everything that shapes a program's vectors: its bytes and its inputs.
func TestScriptFingerprint(t *testing.T) {
	path := writeScript(t, fmt.Sprintf(towersCode, 6))
	w := worker(t)
	name := func(o model.ScriptOptions) string {
		e := must.Get(model.NewScriptEncoder(t.Context(), w, path, o))(t)
		defer e.Free()
		return e.Fingerprint()
	}
	words := clipWords(t)
	fewer := must.Get(token.NewCLIP(gzipped(t, "comment\na b</w>\n")))(t)
	base := model.ScriptOptions{ImageSize: 6, TextTokens: 8, Words: words, BatchSize: 3}
	longer, other, larger := base, base, base
	longer.TextTokens, other.Words, larger.BatchSize = 9, fewer, 4
	want := name(base)
	if got := name(larger); got != want {
		t.Errorf("the batch size changes the fingerprint from %s to %s", want, got)
	}
	for what, got := range map[string]string{
		"longer texts": name(longer), "other merges": name(other),
	} {
		if got == want {
			t.Errorf("%s: the fingerprint is %s as before", what, got)
		}
	}
}

// gzipped packs a text.
func gzipped(t *testing.T, text string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	must.Get(z.Write([]byte(text)))(t)
	must.Do(t, z.Close())
	return &b
}

// matchCode is the program of a matcher without weights: the red of an image's first pixel, plus the first id over 100.
const matchCode = `class Towers(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def match(self: __torch__.Towers,
    pixels: Tensor,
    ids: Tensor,
    mask: Tensor) -> Tensor:
    _0 = torch.select(torch.select(torch.select(pixels, 1, 0), 1, 0), 1, 0)
    _1 = torch.div(torch.to(torch.select(ids, 1, 0), 6), 100)
    _2 = torch.div(torch.to(torch.sum(mask, [1]), 6), 1000)
    return torch.add(torch.add(_0, _1), _2)
`

var matchExtra = []extra{
	{"pairstream.config", `{"image_size": 2, "text_tokens": 4, "caption_words": 30}`},
	{"pairstream.vocab", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\ndog\n"},
}

// TestScriptMatcher gives each pair what the program makes of its own image and text, in parts of any size.
func TestScriptMatcher(t *testing.T) {
	w := worker(t)
	m := must.Get(model.OpenMatcher(t.Context(), w, writeScript(t, matchCode, matchExtra...)))(t)
	defer m.Free()
	if m.Config.ImageSize != 2 || m.Config.TextTokens != 4 || m.Config.CaptionWords != 30 || m.Config.VocabSize != 7 || len(m.Fingerprint()) != 32 {
		t.Errorf("%+v with fingerprint %s", m.Config, m.Fingerprint())
	}
	words, err := m.Words()
	if err != nil || !slices.Equal(words.Encode("Cat!", 4), []int32{2, 5, 3}) {
		t.Errorf("Cat! is encoded as %v (%v)", words.Encode("Cat!", 4), err)
	}
	pixels := make([]float32, 3*12)
	for i := range 3 {
		pixels[12*i] = 0.2 * float32(i+1)
	}
	ids := [][]int32{{2, 5, 3}, {5, 3}, {6, 5, 5, 3}}
	pairs := []model.Pair{{Image: 0, Text: 1}, {Image: 2, Text: 0}, {Image: 1, Text: 2}, {Image: 0, Text: 0}, {Image: 2, Text: 2}}
	want := []float32{0.252, 0.623, 0.464, 0.223, 0.664}
	for _, part := range []int{1, 2, 5, 9} {
		got := must.Get(m.Match(t.Context(), pixels, ids, pairs, part))(t)
		for i := range want {
			if math.Abs(float64(got[i]-want[i])) > 1e-6 || len(got) != len(want) {
				t.Errorf("parts of %d: pair %v matches with %v, want %v", part, pairs[i], got, want)
			}
		}
		fixed, err := m.MatchFixed(t.Context(), pixels, ids[:2], pairs[:2], part) // with fewer texts than images
		if err != nil || !slices.Equal(fixed, got[:2]) {
			t.Errorf("parts of %d: %v in blocks (%v), want %v", part, fixed, err, got[:2])
		}
	}
	pixels[0] = 1
	if _, err := m.Match(t.Context(), pixels, ids, pairs, 4); err == nil || !strings.Contains(err.Error(), "want a probability from 0 to 1") {
		t.Errorf("error %v for what is not a probability", err)
	}
	if _, err := m.Match(t.Context(), pixels, [][]int32{{7}, {5}, {5}}, pairs, 4); !errors.Is(err, model.ErrInput) {
		t.Errorf("error %v for an id beyond the vocabulary", err)
	}
}

func TestScriptMatcherRefuses(t *testing.T) {
	w := worker(t)
	config := func(text string) []extra { return []extra{{"pairstream.config", text}, matchExtra[1]} }
	towers := fmt.Sprintf(towersCode, 6)
	for want, path := range map[string]string{
		"no extra file pairstream.config": writeScript(t, matchCode),
		"no extra file pairstream.vocab":  writeScript(t, matchCode, matchExtra[0]),
		"decoding extra file":             writeScript(t, matchCode, config("{")...),
		"image_size is 0, want 1 to":      writeScript(t, matchCode, config(`{"text_tokens": 4}`)...),
		"text_tokens is 1, want 2 to":     writeScript(t, matchCode, config(`{"image_size": 2, "text_tokens": 1}`)...),
		"has no [PAD]":                    writeScript(t, matchCode, matchExtra[0], extra{"pairstream.vocab", "cat\ndog"}),
		"the module has no method match":  writeScript(t, towers, matchExtra...),
		"gives shape 2x4 for 2 pairs":     writeScript(t, strings.Replace(matchCode, "return torch.add(torch.add(_0, _1), _2)", "return ids", 1), matchExtra...),
		"opening a TorchScript archive":   filepath.Join(t.TempDir(), "none.pt"),
		"zip: not a valid zip file":       notAZip(t),
		"loading ":                        writeScript(t, "class Towers(", matchExtra...),
		"has more than 67108864 bytes":    writeScript(t, matchCode, matchExtra[0], extra{"pairstream.vocab", strings.Repeat("[PAD]\n", 12<<20)}),
		"caption_words is -1, want 0 to":  writeScript(t, matchCode, config(`{"image_size": 2, "text_tokens": 4, "caption_words": -1}`)...),
	} {
		m, err := model.OpenMatcher(t.Context(), w, path)
		if err == nil {
			_, err = m.Match(t.Context(), make([]float32, 12), [][]int32{{2, 5, 5, 3}}, []model.Pair{{}}, 2)
			m.Free()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

func notAZip(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text.pt")
	must.Do(t, os.WriteFile(path, []byte("text"), 0o644))
	return path
}
