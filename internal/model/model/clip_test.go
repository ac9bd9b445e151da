package model_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// mergesPath writes a merge file with four merges; the vocabulary then has 518 tokens.
func mergesPath(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "merges.txt.gz")
	out := must.Get(os.Create(path))(t)
	w := gzip.NewWriter(out)
	must.Get(w.Write([]byte("#version\na b\na b</w>\nab ab</w>\na a\n")))(t)
	must.Do(t, w.Close())
	must.Do(t, out.Close())
	return path
}

func clipWords(t testing.TB) *token.CLIP {
	t.Helper()
	in := must.Get(os.Open(mergesPath(t)))(t)
	defer in.Close()
	words := must.Get(token.NewCLIP(in))(t)
	return words
}

const clipVocab = 518

// writeCLIP writes a small CLIP with random weights, and returns the path.
func writeCLIP(t testing.TB, folder string) string {
	t.Helper()
	r := rng.New(4, "CLIP of a test")
	var tensors []safetensors.NamedTensor
	add := func(name string, shape ...int64) {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		values := noise(r, int(n))
		for i := range values {
			values[i] *= 0.2
		}
		tensors = append(tensors, safetensors.NamedTensor{Name: name, Tensor: safetensors.FromFloat32s(values, shape...)})
	}
	layer := func(name string, d, hidden int64) {
		for _, part := range []string{"layer_norm1", "layer_norm2"} {
			add(name+part+".weight", d)
			add(name+part+".bias", d)
		}
		for _, part := range []string{"q_proj", "k_proj", "v_proj", "out_proj"} {
			add(name+"self_attn."+part+".weight", d, d)
			add(name+"self_attn."+part+".bias", d)
		}
		add(name+"mlp.fc1.weight", hidden, d)
		add(name+"mlp.fc1.bias", hidden)
		add(name+"mlp.fc2.weight", d, hidden)
		add(name+"mlp.fc2.bias", d)
	}
	add("vision_model.embeddings.class_embedding", 64)
	add("vision_model.embeddings.patch_embedding.weight", 64, 3, 5, 5)
	add("vision_model.embeddings.position_embedding.weight", 10, 64)
	for _, name := range []string{"pre_layrnorm", "post_layernorm"} {
		add("vision_model."+name+".weight", 64)
		add("vision_model."+name+".bias", 64)
	}
	layer("vision_model.encoder.layers.0.", 64, 96)
	add("visual_projection.weight", 11, 64)
	add("text_model.embeddings.token_embedding.weight", clipVocab, 32)
	add("text_model.embeddings.position_embedding.weight", 7, 32)
	layer("text_model.encoder.layers.0.", 32, 40)
	layer("text_model.encoder.layers.1.", 32, 40)
	add("text_model.final_layer_norm.weight", 32)
	add("text_model.final_layer_norm.bias", 32)
	add("text_projection.weight", 11, 32)
	add("logit_scale")
	path := filepath.Join(folder, "model.safetensors")
	must.Do(t, safetensors.WriteFile(path, tensors, nil))
	return path
}

func TestCLIPConfiguration(t *testing.T) {
	tests := []struct {
		name, json string
		heads      int
		exact      bool
		problem    string
	}{
		{name: "no config.json", heads: 1},
		{name: "heads", json: `{"text_config": {"num_attention_heads": 2}, "vision_config": {"num_attention_heads": 4}}`, heads: 4},
		{name: "activation", json: `{"text_config": {"hidden_act": "gelu"}}`, heads: 1, exact: true},
		{name: "an activation that is not known", json: `{"text_config": {"hidden_act": "relu"}}`, problem: "relu"},
		{name: "heads that do not divide", json: `{"vision_config": {"num_attention_heads": 5}}`, problem: "vision_heads is 5"},
		{name: "not JSON", json: `{`, problem: "config.json"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			path := writeCLIP(t, folder)
			if test.json != "" {
				must.Do(t, os.WriteFile(filepath.Join(folder, "config.json"), []byte(test.json), 0o644))
			}
			m, err := model.LoadCLIP(context.Background(), worker(t), path, model.CLIPOptions{})
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) || !strings.Contains(err.Error(), path) {
					t.Errorf("error %v", err)
				}
				return
			}
			must.Do(t, err)
			defer m.Free()
			c := m.Config
			if c.VisionHeads != test.heads || c.ExactGELU != test.exact || c.ImageSize != 15 || c.TextLayers != 2 {
				t.Errorf("configuration %+v", c)
			}
		})
	}
}

// An encoder gives bytes the bits that its network gives the same picture in float32, in whole batches and in one that
// is filled up.
func TestEncoderNormalisesBytes(t *testing.T) {
	path, r := writeCLIP(t, t.TempDir()), rng.New(1, "bytes of the encoder")
	for name, o := range torchtest.Ways(torch.WorkerOptions{Threads: 2, Deterministic: true}) {
		t.Run(name, func(t *testing.T) {
			w := must.Get(torch.NewWorker(o))(t)
			t.Cleanup(w.Close)
			e := must.Get(model.OpenEncoder(t.Context(), w, path, model.EncoderOptions{BatchSize: 3, VocabPath: mergesPath(t)}))(t)
			defer e.Free()
			m := must.Get(model.LoadCLIP(t.Context(), w, path, model.CLIPOptions{}))(t)
			defer m.Free()
			const n, batches = 5, 2
			p := e.Preprocessing()
			bytes, values := make([]byte, n*p.Values()), make([]float32, batches*3*p.Values())
			for i := range n {
				im := imaging.New(p.Size, p.Size)
				copy(im.Pix, noisePixels(r, len(im.Pix)))
				p.Bytes(bytes[i*p.Values():(i+1)*p.Values()], im)
				p.Into(values[i*p.Values():(i+1)*p.Values()], im)
			}
			got := must.Get(e.EncodeImages(t.Context(), bytes, n))(t)
			var want []float32
			for b := range batches {
				must.Do(t, w.Do(t.Context(), func(s *torch.Scope) error {
					s.NoGrad(func() {
						x := s.Float32s(values[b*3*p.Values():(b+1)*3*p.Values()], 3, 3, int64(p.Size), int64(p.Size))
						want = append(want, s.Normalize(m.Image(s, x), -1, 1e-12).Float32s()...)
					})
					return nil
				}))
			}
			if want = want[:n*e.Dim()]; !slices.Equal(got, want) {
				t.Errorf("vectors %v, want %v", got, want)
			}
		})
	}
}

// Every kind of file makes an encoder whose rows are independent, with a fingerprint of its own.
func TestOpenEncoder(t *testing.T) {
	ctx := context.Background()
	w := worker(t)
	folder := t.TempDir()
	albef := filepath.Join(folder, "albef.safetensors")
	m := newModel(t, w, smallConfig(), 5)
	m.Vocab = smallVocab()
	must.Do(t, m.Save(ctx, albef))
	merges := mergesPath(t)
	seen := map[string]string{}
	for name, file := range map[string]struct {
		path    string
		options model.EncoderOptions
		dim     int
	}{
		"ALBEF":       {albef, model.EncoderOptions{BatchSize: 3}, 13},
		"CLIP":        {writeCLIP(t, folder), model.EncoderOptions{BatchSize: 3, VocabPath: merges}, 11},
		"TorchScript": {writeScript(t, fmt.Sprintf(towersCode, 6)), model.EncoderOptions{VocabPath: merges, ImageSize: 6, TextTokens: 9}, 6},
	} {
		e, err := model.OpenEncoder(ctx, w, file.path, file.options)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if e.Dim() != file.dim {
			t.Errorf("%s: %d values, want %d", name, e.Dim(), file.dim)
		}
		if other, taken := seen[e.Fingerprint()]; taken || len(e.Fingerprint()) != 32 {
			t.Errorf("%s: fingerprint %q, %s has it too", name, e.Fingerprint(), other)
		}
		t.Cleanup(e.Free)
		seen[e.Fingerprint()] = name
		checkRows(t, e, 5)
	}
}

// TestMergesBesideTheWeights takes merges.txt, as transformers saves it, and a gzipped file, for the same words.
func TestMergesBesideTheWeights(t *testing.T) {
	w, dir := worker(t), t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	must.Do(t, os.Rename(writeCLIP(t, dir), path))
	open := func(vocab string) string {
		e := must.Get(model.OpenEncoder(t.Context(), w, path, model.EncoderOptions{VocabPath: vocab}))(t)
		defer e.Free()
		return e.Fingerprint()
	}
	want := open(mergesPath(t))
	must.Do(t, os.WriteFile(filepath.Join(dir, "merges.txt"), []byte("#version: 0.2\na b\na b</w>\nab ab</w>\na a\n"), 0o644))
	if got := open(""); got != want {
		t.Errorf("fingerprint %s with merges.txt, want %s", got, want)
	}
	for given, want := range map[string]string{dir: path, path: path, "none": "none"} {
		if got := must.Get(model.WeightsIn(given))(t); got != want {
			t.Errorf("weights of %s are %s, want %s", given, got, want)
		}
	}
	if _, err := model.WeightsIn(t.TempDir()); err == nil || !strings.Contains(err.Error(), "holds neither open_clip_model.safetensors nor model.safetensors") {
		t.Errorf("a folder without weights: %v", err)
	}
}

func TestOpenEncoderRefuses(t *testing.T) {
	ctx := context.Background()
	w := worker(t)
	folder := t.TempDir()
	m := newModel(t, w, smallConfig(), 5)
	wordless := filepath.Join(folder, "wordless.safetensors")
	must.Do(t, m.Save(ctx, wordless))
	clip, merges := writeCLIP(t, folder), mergesPath(t)
	uneven := strings.Replace(towersCode, "torch.slice(_0, 1, 0, %d)", "torch.slice(_0, 1, 0, 4)", 1)
	oneTower := strings.Replace(towersCode, "encode_text", "encode", 1)
	for name, test := range map[string]struct {
		path    string
		options model.EncoderOptions
		want    string
	}{
		"a file that is not there":      {filepath.Join(folder, "none"), model.EncoderOptions{}, "no such file"},
		"a file of something else":      {merges, model.EncoderOptions{}, "not a safetensors file"},
		"no vocabulary":                 {wordless, model.EncoderOptions{}, "no vocabulary"},
		"another vocabulary":            {wordless, model.EncoderOptions{VocabPath: merges}, "the vocabulary has"},
		"CLIP without merges":           {clip, model.EncoderOptions{}, "merges"},
		"CLIP with merges of something": {clip, model.EncoderOptions{VocabPath: clip}, "merges"},
		"a script of images of 60":      {writeScript(t, fmt.Sprintf(oneSizeCode, 60*60)), model.EncoderOptions{VocabPath: merges}, "takes images of none of [224 256 "},
		"a script without words":        {writeScript(t, fmt.Sprintf(towersCode, 6)), model.EncoderOptions{ImageSize: 6}, "needs the file of its words"},
		"a script with uneven towers":   {writeScript(t, uneven), model.EncoderOptions{VocabPath: merges, ImageSize: 6}, "image vectors of 6 values and text vectors of 4"},
		"a script with one tower":       {writeScript(t, fmt.Sprintf(oneTower, 6)), model.EncoderOptions{VocabPath: merges, ImageSize: 6}, "encode_text"},
		"a script that is none":         {brokenScript(t), model.EncoderOptions{VocabPath: merges, ImageSize: 6}, "broken.pt"},
		"a batch of less than one":      {clip, model.EncoderOptions{VocabPath: merges, BatchSize: -1}, "a batch of -1"},
	} {
		e, err := model.OpenEncoder(ctx, w, test.path, test.options)
		if err == nil {
			e.Free()
			t.Errorf("%s: opened", name)
			continue
		}
		if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.path) {
			t.Errorf("%s: error %q, want one with %q and the path", name, err, test.want)
		}
	}
}

func brokenScript(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "broken.pt")
	must.Do(t, os.WriteFile(path, []byte("PK\x03\x04 and nothing more"), 0o644))
	return path
}
