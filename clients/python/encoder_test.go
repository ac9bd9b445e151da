package python

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// encoderCaptions are those of tests/test_encoder.py.
var encoderCaptions = []string{
	"A red dog on a beach!", "two_green kites,   beside the Umbrella", "", strings.Repeat("crème brûlée & a zebra ☃ ", 9), "don't 3 cats",
}

// TestExportedEncoder compares the encoder stage's vectors with those of the model itself, whose own code prepares
// pictures and captions: what `export-encoder` makes of models of transformers and open_clip, and open_clip's own file.
func TestExportedEncoder(t *testing.T) {
	run := python(t, "torch", "transformers", "open_clip", "sentencepiece", "pytest", "PIL")
	w := must.Get(torch.NewWorker(torch.WorkerOptions{Device: "cpu", Threads: 1}))(t)
	defer w.Close()
	for _, kind := range []string{"clip", "siglip", "open_clip", "open_clip-siglip"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			const make = "import sys; sys.path.insert(0, 'tests'); from pathlib import Path; from test_encoder import make; make(sys.argv[1], Path(sys.argv[2]))"
			printed := mustRun(t, run, "-W", "ignore", "-c", make, kind, dir)
			var want struct{ Images, Texts [][]float32 }
			lines := strings.Split(strings.TrimSpace(printed), "\n")
			must.Do(t, json.Unmarshal([]byte(lines[len(lines)-1]), &want))
			if len(want.Images) != 4 || len(want.Texts) != len(encoderCaptions) {
				t.Fatalf("vectors of %d images and %d texts", len(want.Images), len(want.Texts))
			}
			files := map[string]model.EncoderOptions{"encoder.pt": {}}
			if kind == "open_clip" {
				path := filepath.Join(dir, "merges.gz")
				mustRun(t, run, "-W", "ignore", "-c", "import shutil, sys; from open_clip.tokenizer import default_bpe; shutil.copy(default_bpe(), sys.argv[1])", path)
				files["open_clip_model.safetensors"] = model.EncoderOptions{VocabPath: path}
			}
			for file, o := range files {
				e := must.Get(model.OpenEncoder(t.Context(), w, filepath.Join(dir, file), o))(t)
				defer e.Free()
				compareRows(t, file+": image", encodePictures(t, e, dir, len(want.Images)), want.Images)
				compareRows(t, file+": text", must.Get(e.EncodeTexts(t.Context(), encoderCaptions))(t), want.Texts)
			}
		})
	}
}

// encodePictures embeds the files 0.png, 1.png, ... of a folder.
func encodePictures(t *testing.T, e *model.Encoder, dir string, n int) []float32 {
	t.Helper()
	pre := e.Preprocessing()
	pixels := make([]byte, n*pre.Values())
	for i := range n {
		im := must.Get(imaging.Decode(must.Get(os.ReadFile(filepath.Join(dir, strconv.Itoa(i)+".png")))(t)))(t)
		pre.Bytes(pixels[i*pre.Values():(i+1)*pre.Values()], im)
	}
	vectors := must.Get(e.EncodeImages(t.Context(), pixels, n))(t)
	return vectors
}

// compareRows wants the values of want, and rows that differ.
func compareRows(t *testing.T, what string, got []float32, want [][]float32) {
	t.Helper()
	spread := float32(0)
	for i, row := range want {
		for k, v := range row {
			if d := got[i*len(row)+k] - v; d > 2e-3 || d < -2e-3 {
				t.Errorf("%s %d has %v as value %d, the model %v", what, i, got[i*len(row)+k], k, v)
				break
			}
			spread = max(spread, v-want[0][k])
		}
	}
	if spread < 0.02 {
		t.Errorf("%s: the model's vectors are all alike", what)
	}
}
