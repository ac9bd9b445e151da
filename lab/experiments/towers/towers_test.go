package towers

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// code is the program of towers without weights: every channel of a place is a colour of it, three of them over and
// over.
const code = `class Towers(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def features(self: __torch__.Towers,
    x: Tensor) -> Tensor:
    _0 = torch.adaptive_avg_pool2d(x, [4, 4])
    return torch.repeat(_0, [1, 64, 1, 1])
`

func worker(t *testing.T) *torch.Worker {
	t.Helper()
	before := torch.Live()
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Device: "cpu", Threads: 1, Deterministic: true}))(t)
	t.Cleanup(func() {
		w.Close()
		if n := torch.Live() - before; n != 0 {
			t.Errorf("%d tensors were not given back", n)
		}
	})
	return w
}

var colours = []string{"red", "green", "blue", "white"}

// small returns towers of a few words, whose vectors are random, and a program without weights.
func small(t *testing.T) *Towers {
	t.Helper()
	to := &Towers{t.TempDir()}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for _, entry := range [][2]string{
		{"data.pkl", "\x80\x02c__torch__\nTowers\nq\x00)\x81}(X\x08\x00\x00\x00trainingq\x01\x89ub."},
		{"code/__torch__.py", code},
		{"constants.pkl", "\x80\x02)."},
		{"version", "3\n"},
	} {
		w := must.Get(z.CreateHeader(&zip.FileHeader{Name: "towers/" + entry[0], Method: zip.Store}))(t)
		must.Get(w.Write([]byte(entry[1])))(t)
	}
	must.Do(t, z.Close())
	vocab := append([]string{"[PAD]", "unused", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "wall"}, colours...)
	draws := rng.New(1, "words")
	table := make([]float32, 70*len(vocab))
	for i := range table {
		table[i] = float32(draws.NormFloat64())
	}
	for name, content := range map[string][]byte{"towers.pt": archive.Bytes(), "vocab.txt": []byte(strings.Join(vocab, "\n"))} {
		must.Do(t, os.WriteFile(filepath.Join(to.dir, name), content, 0o644))
	}
	words := safetensors.NamedTensor{Name: "words", Tensor: safetensors.FromFloat32s(table, int64(len(vocab)), 70)}
	must.Do(t, safetensors.WriteFile(filepath.Join(to.dir, "words.safetensors"), []safetensors.NamedTensor{words}, nil))
	return to
}

// photo returns a picture of one colour, a little brighter with i.
func photo(colour, i int) []byte {
	c := [][3]uint8{{150, 30, 40}, {20, 140, 30}, {10, 30, 160}, {200, 210, 220}}[colour]
	im := image.NewNRGBA(image.Rect(0, 0, 30, 20))
	for p := range 600 {
		im.SetNRGBA(p%30, p/30, color.NRGBA{c[0] + uint8(3*i), c[1] + uint8(2*i), c[2] + uint8(i), 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, im); err != nil {
		panic(err) // into memory
	}
	return b.Bytes()
}

// Pictures hold every channel of every place, with mean 0 and deviation 1 as far as a byte goes.
func TestPicturesHoldWhatTheTowerSays(t *testing.T) {
	to, w := small(t), worker(t)
	made := must.Get(to.Pictures(t.Context(), w, 10, func(i int) ([]byte, error) { return photo(i%4, i), nil }))(t)
	var sums, squares [channels]float64
	for i, picture := range made {
		var values [channels]float64
		must.Do(t, pooled(picture, values[:]))
		for c, v := range values {
			if math.Abs(v-values[c%3]) > 1e-9 {
				t.Errorf("channel %d of picture %d is %v, want %v, that of its colour", c, i, v, values[c%3])
			}
			sums[c] += v / 10
			squares[c] += v * v / 10
		}
	}
	for c := range channels {
		if math.Abs(sums[c]) > 0.02 || math.Abs(squares[c]-1) > 0.05 {
			t.Errorf("channel %d has mean %v and mean square %v", c, sums[c], squares[c])
		}
	}
	broken := func(int) ([]byte, error) { return []byte("none"), nil }
	if _, err := to.Pictures(t.Context(), w, 1, broken); err == nil || !strings.Contains(err.Error(), "decoding photograph 0") {
		t.Errorf("error %v for what is no image", err)
	}
}

// A first model that has not made a step finds captions of pictures, and knows no word that the captions lack.
func TestStartKnowsWhatTheTowersKnow(t *testing.T) {
	to, w := small(t), worker(t)
	pictures := must.Get(to.Pictures(t.Context(), w, 24, func(i int) ([]byte, error) { return photo(i%4, i/4), nil }))(t)
	var pairs []Pair
	for i, p := range pictures {
		pairs = append(pairs, Pair{p, "a " + colours[i%4] + " wall"})
	}
	captions := func(yield func(string) bool) {
		for _, p := range pairs {
			if !yield(p.Caption) {
				return
			}
		}
	}
	c := must.Get(model.Preset("micro", 1))(t)
	c.VisionDepth, c.TextLayers, c.FusionLayer, c.EmbedDim = 1, 3, 1, c.VisionDim
	path := filepath.Join(t.TempDir(), "start.safetensors")
	must.Do(t, to.Start(t.Context(), w, c, captions, pairs, 1, path))
	e := must.Get(model.OpenEncoder(t.Context(), w, path, model.EncoderOptions{}))(t)
	defer e.Free()
	found := best(t, e, pictures[:4], []string{pairs[0].Caption, pairs[1].Caption, pairs[2].Caption, pairs[3].Caption})
	if !slices.Equal(found, []int{0, 1, 2, 3}) {
		t.Errorf("four colours are most similar to captions %v", found)
	}
	f := must.Get(safetensors.Open(path))(t)
	if vocab := f.Metadata["pairstream.vocab"]; strings.Contains(vocab, "unused") || !strings.Contains(vocab, "[MASK]") || !strings.Contains(vocab, "white") {
		t.Errorf("vocabulary %q", vocab)
	}
	c.TextHidden, c.VisionDim = 80, 80
	if err := to.Start(t.Context(), w, c, captions, pairs, 1, path); err == nil || !strings.Contains(err.Error(), "want at least 80 a word") {
		t.Errorf("error %v for a model that is wider than the words", err)
	}
}

// best returns the caption that is most similar to each picture.
func best(t *testing.T, e *model.Encoder, pictures [][]byte, captions []string) (found []int) {
	t.Helper()
	pre := e.Preprocessing()
	pixels := make([]byte, len(pictures)*pre.Values())
	for i, p := range pictures {
		im := must.Get(imaging.Decode(p))(t)
		pre.Bytes(pixels[i*pre.Values():(i+1)*pre.Values()], im)
	}
	v := must.Get(e.EncodeImages(t.Context(), pixels, len(pictures)))(t)
	texts := must.Get(e.EncodeTexts(t.Context(), captions))(t)
	for i := range pictures {
		at, most := 0, math.Inf(-1)
		for j := range captions {
			var dot float64
			for k := range e.Dim() {
				dot += float64(v[i*e.Dim()+k]) * float64(texts[j*e.Dim()+k])
			}
			if dot > most {
				at, most = j, dot
			}
		}
		found = append(found, at)
	}
	return found
}

// The exported archive says what the authors' own code says, as vector.py has written it down.
func TestArchiveSaysWhatItsAuthorsSay(t *testing.T) {
	cache := os.Getenv("PAIRSTREAM_TOWERS")
	if cache == "" {
		t.Skip("PAIRSTREAM_TOWERS names no folder for the towers, whose wheels have 100 MB: make test-towers does")
	}
	to := must.Get(Install(t.Context(), cache, func(line string) { t.Log(line) }))(t)
	f := must.Get(safetensors.Open(filepath.Join("testdata", "vector.safetensors")))(t)
	want := func(name string) []float32 {
		tensor, _ := f.Tensor(name)
		v := must.Get(tensor.Float32s())(t)
		return v
	}
	tensor, _ := f.Tensor("ids")
	ids := must.Get(tensor.Int64s())(t)
	features, text := says(t.Context(), t, to, ids)
	for i, w := range want("features") { // of the places 0, 5, 10 and 15
		if got := features[i/4*grid*grid+i%4*5]; math.Abs(float64(got-w)) > 2e-3 {
			t.Errorf("channel %d at place %d is %v, want %v", i/4, i%4*5, got, w)
		}
	}
	for i, w := range want("text") {
		if math.Abs(float64(text[i]-w)) > 1e-4 {
			t.Errorf("value %d of the texts is %v, want %v", i, text[i], w)
		}
	}
	// It is an encoder of the pipeline.
	e := must.Get(model.OpenEncoder(t.Context(), worker(t), to.Archive(), model.EncoderOptions{VocabPath: to.Vocab(), ImageSize: input}))(t)
	defer e.Free()
	if found := best(t, e, [][]byte{photo(1, 0)}, []string{"A plain green wall.", "Two men play football."}); found[0] != 0 {
		t.Error("a green picture is more similar to a game of football than to a wall")
	}
}

// says returns what the archive says of the image and the texts of the vector.
func says(ctx context.Context, t *testing.T, to *Towers, ids []int64) (features, text []float32) {
	t.Helper()
	w := worker(t)
	pixels := make([]float32, 0, 3*input*input)
	for c := range 3 {
		for p := range input * input {
			raw := float32((7*(p/input)+13*(p%input)+29*c)%97) / 96
			pixels = append(pixels, (raw-imaging.CLIPMean[c])/imaging.CLIPStd[c])
		}
	}
	must.Do(t, w.Do(ctx, func(s *torch.Scope) error {
		script, err := s.LoadScript(to.Archive())
		if err != nil {
			return fmt.Errorf("loading the towers: %w", err)
		}
		defer script.Free()
		s.NoGrad(func() {
			features = s.Call(script, "features", s.Float32s(pixels, 1, 3, input, input)).Float32s()
			text = s.Call(script, "encode_text", s.Int64s(ids, 3, int64(len(ids)/3))).Float32s()
		})
		return nil
	}))
	return features, text
}
