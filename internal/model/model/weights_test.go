package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func fingerprint(t testing.TB, m *model.Model) string {
	t.Helper()
	name := must.Get(m.Fingerprint(context.Background()))(t)
	return name
}

// saved returns a small model and the path of its weights file.
func saved(t testing.TB, w *torch.Worker) (*model.Model, string) {
	t.Helper()
	m := newModel(t, w, smallConfig(), 5)
	m.Vocab = smallVocab()
	path := filepath.Join(t.TempDir(), "w.safetensors")
	must.Do(t, m.Save(context.Background(), path))
	return m, path
}

func TestSaveThenLoad(t *testing.T) {
	w := worker(t)
	m, path := saved(t, w)
	loaded := must.Get(model.Load(context.Background(), w, path, model.LoadOptions{}))(t)
	defer loaded.Free()
	if loaded.Config != m.Config || !slices.Equal(loaded.Vocab, m.Vocab) || !loaded.HasMasked() {
		t.Errorf("configuration %+v and %d tokens", loaded.Config, len(loaded.Vocab))
	}
	if got, want := fingerprint(t, loaded), fingerprint(t, m); got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
	again := filepath.Join(t.TempDir(), "again.safetensors")
	must.Do(t, loaded.Save(context.Background(), again))
	if !bytes.Equal(readFile(t, path), readFile(t, again)) {
		t.Error("saved again, the file has other bytes")
	}
	if loaded.Params()[0].Tensor.RequiresGrad() || !m.Params()[0].Tensor.RequiresGrad() {
		t.Error("a new model is for training, a loaded one is not unless asked for")
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return data
}

func TestSaveLeavesNothingBehindWhenItFails(t *testing.T) {
	w := worker(t)
	m := newModel(t, w, smallConfig(), 5)
	folder := t.TempDir()
	blocked := filepath.Join(folder, "folder")
	must.Do(t, os.MkdirAll(filepath.Join(blocked, "full"), 0o755))
	if err := m.Save(context.Background(), blocked); err == nil || !strings.Contains(err.Error(), blocked) {
		t.Errorf("error %v", err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

// rewrite changes the tensors of a weights file.
func rewrite(t testing.TB, path string, change func(tensors map[string]safetensors.Tensor, metadata map[string]string)) string {
	t.Helper()
	f := must.Get(safetensors.Open(path))(t)
	tensors := map[string]safetensors.Tensor{}
	for _, name := range f.Names() {
		tensors[name], _ = f.Tensor(name)
	}
	change(tensors, f.Metadata)
	var list []safetensors.NamedTensor
	for name, x := range tensors {
		list = append(list, safetensors.NamedTensor{Name: name, Tensor: x})
	}
	out := filepath.Join(t.TempDir(), "w.safetensors")
	must.Do(t, safetensors.WriteFile(out, list, f.Metadata))
	return out
}

const words = "text_encoder.bert.embeddings.word_embeddings.weight"

func TestLoadRefuses(t *testing.T) {
	w := worker(t)
	_, path := saved(t, w)
	type tensors = map[string]safetensors.Tensor
	for name, test := range map[string]struct {
		change func(x tensors, metadata map[string]string)
		want   string
	}{
		"another shape": {func(x tensors, _ map[string]string) {
			x["itm_head.weight"] = safetensors.FromFloat32s(make([]float32, 96), 2, 48)
		}, "tensor itm_head.weight has shape 2x48, want 2x28"},
		"another rank": {func(x tensors, _ map[string]string) {
			x["temp"] = safetensors.FromFloat32s([]float32{0.1}, 1)
		}, "tensor temp has shape 1, want scalar"},
		"a missing tensor": {func(x tensors, _ map[string]string) { delete(x, "vision_proj.bias") }, "tensor vision_proj.bias is missing"},
		"many missing tensors": {func(x tensors, _ map[string]string) {
			delete(x, "vision_proj.bias")
			delete(x, "text_proj.bias")
		}, "tensor vision_proj.bias is missing (and 1 more like this)"},
		"integers": {func(x tensors, _ map[string]string) {
			x["text_proj.bias"] = safetensors.FromInt64s(make([]int64, 13), 13)
		}, "tensor text_proj.bias has type I64, which does not convert to float32"},
		"not a number": {func(x tensors, _ map[string]string) {
			x["itm_head.bias"] = safetensors.FromFloat32s([]float32{0, float32(math.NaN())}, 2)
		}, "tensor itm_head.bias has NaN as value 1"},
		"half a head for masked words": {func(x tensors, _ map[string]string) {
			delete(x, "text_encoder.cls.predictions.bias")
		}, "tensor text_encoder.cls.predictions.bias is missing"},
		"a decoder of its own": {func(x tensors, _ map[string]string) {
			x["text_encoder.cls.predictions.decoder.weight"] = safetensors.FromFloat32s(make([]float32, 57*28), 57, 28)
		}, "tensor text_encoder.cls.predictions.decoder.weight differs from " + words},
		"a vocabulary of another size": {
			func(_ tensors, m map[string]string) { m["pairstream.vocab"] = "a\nb" },
			"the vocabulary has 2 tokens, want vocab_size, 57",
		},
		"a configuration that is not JSON": {
			func(_ tensors, m map[string]string) { m["pairstream.config"] = "{" },
			"decoding metadata pairstream.config",
		},
		"an endless configuration": {func(_ tensors, m map[string]string) {
			m["pairstream.config"] = strings.Replace(m["pairstream.config"], `"vision_depth":2`, `"vision_depth":2000000000`, 1)
		}, "vision_depth is 2000000000, want 1 to 256"},
		"a giant configuration": {func(_ tensors, m map[string]string) {
			m["pairstream.config"] = strings.Replace(m["pairstream.config"], `"vision_dim":36`, `"vision_dim":1048575`, 1)
		}, "tensor visual_encoder.patch_embed.proj.weight has shape 36x3x4x4, want 1048575x3x4x4"},
		"no configuration": {func(x tensors, m map[string]string) {
			delete(m, "pairstream.config")
			delete(x, "visual_encoder.pos_embed")
		}, "tensor visual_encoder.pos_embed is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := rewrite(t, path, test.change)
			m, err := model.Load(context.Background(), w, changed, model.LoadOptions{})
			if err == nil {
				m.Free()
				t.Fatal("loaded")
			}
			if want := "loading " + changed + ": " + test.want; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %q, want %q", err, want)
			}
		})
	}
}

func TestLoadAcceptsFilesOfOthers(t *testing.T) {
	w := worker(t)
	original, path := saved(t, w)
	type tensors = map[string]safetensors.Tensor
	renamed := func(x tensors, rename func(string) string) {
		for _, name := range slices.Collect(maps.Keys(x)) {
			t := x[name]
			delete(x, name)
			x[rename(name)] = t
		}
	}
	config := original.Config
	for name, test := range map[string]struct {
		options model.LoadOptions
		change  func(x tensors, metadata map[string]string)
		masked  bool
	}{
		"a prefix": {model.LoadOptions{Prefix: "module."}, func(x tensors, _ map[string]string) {
			renamed(x, func(name string) string { return "module." + name })
		}, true},
		"aliases, buffers, queues and momentum copies": {model.LoadOptions{}, func(x tensors, _ map[string]string) {
			x["text_encoder.cls.predictions.decoder.weight"] = x[words]
			x["text_encoder.cls.predictions.decoder.bias"] = x["text_encoder.cls.predictions.bias"]
			x["text_encoder.bert.embeddings.position_ids"] = safetensors.FromInt64s(make([]int64, 11), 1, 11)
			x["image_queue"] = safetensors.FromFloat32s(make([]float32, 13), 13, 1)
			x["temp_m"] = x["temp"]
		}, true},
		"no head for masked words, and the text encoder a level higher": {model.LoadOptions{}, func(x tensors, _ map[string]string) {
			renamed(x, func(name string) string { return strings.Replace(name, "text_encoder.bert.", "text_encoder.", 1) })
			for name := range x {
				if strings.Contains(name, ".cls.predictions.") {
					delete(x, name)
				}
			}
		}, false},
		"a configuration given": {model.LoadOptions{Config: &config}, func(_ tensors, m map[string]string) {
			delete(m, "pairstream.config")
		}, true},
		"half precision": {model.LoadOptions{}, func(x tensors, _ map[string]string) {
			x["itm_head.bias"] = safetensors.Tensor{DType: "BF16", Shape: []int64{2}, Data: []byte{0, 0, 0, 0}}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := must.Get(model.Load(context.Background(), w, rewrite(t, path, test.change), test.options))(t)
			defer m.Free()
			if m.HasMasked() != test.masked {
				t.Errorf("a head for masked words: %v", m.HasMasked())
			}
			if test.masked && fingerprint(t, m) != fingerprint(t, original) {
				t.Error("another fingerprint")
			}
		})
	}
}

func TestLoadReadsTheShapes(t *testing.T) {
	w := worker(t)
	config := smallConfig()
	config.VisionDim, config.VisionHeads, config.TextHidden, config.TextHeads = 384, 6, 192, 3
	config.MaxPositions, config.TextTokens = 40, 25
	m := newModel(t, w, config, 1)
	path := filepath.Join(t.TempDir(), "w.safetensors")
	must.Do(t, m.Save(context.Background(), path))
	bare := rewrite(t, path, func(_ map[string]safetensors.Tensor, metadata map[string]string) { clear(metadata) })
	loaded := must.Get(model.Load(context.Background(), w, bare, model.LoadOptions{}))(t)
	defer loaded.Free()
	config.CaptionWords = 30 // weights without a configuration are the authors', who prepare captions
	if loaded.Config != config {
		t.Errorf("configuration %+v, want %+v", loaded.Config, config)
	}
}

// A file that does not say its heads is refused, unless its width is one of which all published models have the same.
func TestLoadGuessesNoHeads(t *testing.T) {
	for part, widths := range map[string][2]int{"image": {128, 192}, "text": {192, 128}} {
		config := smallConfig()
		config.VisionDim, config.VisionHeads, config.TextHidden, config.TextHeads = widths[0], 4, widths[1], 4
		m := newModel(t, worker(t), config, 1)
		path := filepath.Join(t.TempDir(), "w.safetensors")
		must.Do(t, m.Save(t.Context(), path))
		bare := rewrite(t, path, func(_ map[string]safetensors.Tensor, metadata map[string]string) { clear(metadata) })
		want := "how many attention heads its " + part + " encoder has"
		if _, err := model.Load(t.Context(), worker(t), bare, model.LoadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("widths of %v: error %v, want %q", widths, err, want)
		}
	}
}

// Position embeddings are resized as PyTorch resizes them: interpolate(grid, 3, mode="bicubic", align_corners=False) of
// 2 x 2 patches 0, 1, 2, 3.
func TestLoadResizesPositions(t *testing.T) {
	w := worker(t)
	config := smallConfig()
	config.ImageSize = 2 * config.PatchSize
	m := newModel(t, w, config, 1)
	path := filepath.Join(t.TempDir(), "w.safetensors")
	must.Do(t, m.Save(t.Context(), path))
	counted := rewrite(t, path, func(x map[string]safetensors.Tensor, _ map[string]string) {
		values := make([]float32, 5*config.VisionDim)
		for i := range values {
			values[i] = float32(i/config.VisionDim) - 1
		}
		x["visual_encoder.pos_embed"] = safetensors.FromFloat32s(values, 1, 5, int64(config.VisionDim))
	})
	larger := must.Get(model.Load(t.Context(), w, counted, model.LoadOptions{ImageSize: 3 * config.PatchSize}))(t)
	defer larger.Free()
	want := []float64{-1, -0.260417, 0.326389, 0.913194, 0.913194, 1.5, 2.086806, 2.086806, 2.673611, 3.260417}
	for _, p := range larger.Params() {
		if p.Name != "visual_encoder.pos_embed" {
			continue
		}
		got := p.Tensor.Float64s()
		for i := range want {
			if math.Abs(got[i*config.VisionDim]-want[i]) > 1e-5 {
				t.Errorf("position %d is %v, want %v", i, got[i*config.VisionDim], want[i])
			}
		}
	}
	if larger.Config.ImageSize != 3*config.PatchSize {
		t.Errorf("images of %d pixels", larger.Config.ImageSize)
	}
	if _, err := model.Load(t.Context(), w, path, model.LoadOptions{ImageSize: 3*config.PatchSize + 1}); err == nil || !strings.Contains(err.Error(), "patch_size is") {
		t.Errorf("a size that is no multiple of the patch size: %v", err)
	}
}

func TestFingerprintSeesEverything(t *testing.T) {
	w := worker(t)
	m, path := saved(t, w)
	base := fingerprint(t, m)
	for name, change := range map[string]func(map[string]safetensors.Tensor, map[string]string){
		"a bit of a weight": func(x map[string]safetensors.Tensor, _ map[string]string) { x["text_proj.weight"].Data[0] ^= 1 },
		"the configuration": func(_ map[string]safetensors.Tensor, m map[string]string) {
			m["pairstream.config"] = strings.Replace(m["pairstream.config"], `"text_tokens":9`, `"text_tokens":8`, 1)
		},
		"the vocabulary": func(_ map[string]safetensors.Tensor, m map[string]string) {
			m["pairstream.vocab"] = strings.Replace(m["pairstream.vocab"], "\nz", "\nZ", 1)
		},
	} {
		other := must.Get(model.Load(context.Background(), w, rewrite(t, path, change), model.LoadOptions{}))(t)
		if fingerprint(t, other) == base {
			t.Errorf("%s does not count", name)
		}
		other.Free()
	}
}

func TestPresets(t *testing.T) {
	for _, name := range model.PresetNames() {
		c := must.Get(model.Preset(name, 100))(t)
		text := must.Get(json.Marshal(c))(t)
		var back model.Config
		if err := json.Unmarshal(text, &back); err != nil || back != c || strings.ToLower(string(text)) != string(text) {
			t.Errorf("%s becomes %s", name, text)
		}
	}
	if _, err := model.Preset("huge", 100); err == nil || !strings.Contains(err.Error(), "tiny, small, base") {
		t.Errorf("an unknown preset: %v", err)
	}
	if _, err := model.Preset("tiny", 0); err == nil || !strings.Contains(err.Error(), "vocab_size is 0") {
		t.Errorf("an empty vocabulary: %v", err)
	}
}
