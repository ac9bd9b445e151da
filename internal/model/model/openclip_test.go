package model_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/testing/must"
)

const openCLIPModel = `"embed_dim": 11, "quick_gelu": true,
	"vision_cfg": {"image_size": [15, 15], "layers": 1, "width": 64, "patch_size": 5, "mlp_ratio": 1.5},
	"text_cfg": {"context_length": 7, "vocab_size": 518, "width": 32, "heads": 1, "layers": 2, "mlp_ratio": 1.25}`

// writeOpenCLIP writes the weights of a file with Hugging Face's names under open_clip's, and the configuration.
func writeOpenCLIP(t *testing.T, theirs, text, config string) string {
	t.Helper()
	f := must.Get(safetensors.Open(theirs))(t)
	get := func(name string) ([]float32, []int64) {
		tensor, ok := f.Tensor(name)
		if !ok {
			t.Fatalf("no tensor %s", name)
		}
		return must.Get(tensor.Float32s())(t), tensor.Shape
	}
	var out []safetensors.NamedTensor
	add := func(name string, values []float32, shape ...int64) {
		if !strings.HasPrefix(name, "visual") && name != "logit_scale" {
			name = text + name
		}
		out = append(out, safetensors.NamedTensor{Name: name, Tensor: safetensors.FromFloat32s(values, shape...)})
	}
	names := strings.NewReplacer(
		"vision_model.embeddings.position_embedding.weight", "visual.positional_embedding", "vision_model.embeddings.patch_embedding", "visual.conv1",
		"vision_model.embeddings.", "visual.", "text_model.embeddings.position_embedding.weight", "positional_embedding", "text_model.embeddings.", "",
		"vision_model.encoder.layers", "visual.transformer.resblocks", "text_model.encoder.layers", "transformer.resblocks",
		"vision_model.pre_layrnorm", "visual.ln_pre", "vision_model.post_layernorm", "visual.ln_post", "text_model.final_layer_norm", "ln_final",
		"layer_norm", "ln_", "fc1", "c_fc", "fc2", "c_proj", "self_attn.out", "attn.out",
	)
	for _, name := range f.Names() {
		values, shape := get(name)
		switch {
		case name == "visual_projection.weight" || name == "text_projection.weight":
			rows, columns := int(shape[0]), int(shape[1])
			transposed := make([]float32, len(values))
			for i := range rows {
				for k := range columns {
					transposed[k*rows+i] = values[i*columns+k]
				}
			}
			add(map[string]string{"visual_projection.weight": "visual.proj", "text_projection.weight": "text_projection"}[name], transposed, shape[1], shape[0])
		case strings.Contains(name, "q_proj"):
			keys, _ := get(strings.Replace(name, "q_proj", "k_proj", 1))
			last, _ := get(strings.Replace(name, "q_proj", "v_proj", 1))
			add(strings.Replace(names.Replace(name), "self_attn.q_proj.", "attn.in_proj_", 1), slices.Concat(values, keys, last), append([]int64{3 * shape[0]}, shape[1:]...)...)
		case strings.Contains(name, "k_proj") || strings.Contains(name, "v_proj"):
		default:
			add(names.Replace(name), values, shape...)
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "open_clip_model.safetensors")
	must.Do(t, safetensors.WriteFile(path, out, nil))
	if config != "" {
		must.Do(t, os.WriteFile(filepath.Join(dir, "open_clip_config.json"), []byte(config), 0o644))
	}
	return path
}

// TestOpenCLIP reads open_clip's own file, whose text tower may be a module of its own: the vectors are those of the
// same weights under Hugging Face's names, and other statistics of pictures change the fingerprint.
func TestOpenCLIP(t *testing.T) {
	w, theirs := worker(t), writeCLIP(t, t.TempDir())
	o := model.EncoderOptions{VocabPath: mergesPath(t), BatchSize: 2}
	vectors := func(path string) (image, text []float32, e *model.Encoder) {
		e = must.Get(model.OpenEncoder(t.Context(), w, path, o))(t)
		t.Cleanup(e.Free)
		pixels := make([]byte, 2*e.Preprocessing().Values())
		for i := range pixels {
			pixels[i] = byte(i * 7919 % 251)
		}
		return must.Get(e.EncodeImages(t.Context(), pixels, 2))(t), must.Get(e.EncodeTexts(t.Context(), []string{"ab", "a b"}))(t), e
	}
	image, text, hugging := vectors(theirs)
	for prefix, config := range map[string]string{
		"":      `{"model_cfg": {` + openCLIPModel + `}}`,
		"text.": `{"model_cfg": {` + openCLIPModel + `, "custom_text": true}, "preprocess_cfg": {"interpolation": "bicubic", "resize_mode": "shortest"}}`,
	} {
		gotImage, gotText, e := vectors(writeOpenCLIP(t, theirs, prefix, config))
		if !slices.Equal(gotImage, image) || !slices.Equal(gotText, text) || e.Fingerprint() != hugging.Fingerprint() {
			t.Errorf("prefix %q: other vectors than under Hugging Face's names", prefix)
		}
	}
	_, _, other := vectors(writeOpenCLIP(t, theirs, "", `{"model_cfg": {`+openCLIPModel+`}, "preprocess_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "resize_mode": "squash"}}`))
	if pre := other.Preprocessing(); pre.Mode != imaging.Squash || pre.Mean[1] != 0.5 || other.Fingerprint() == hugging.Fingerprint() {
		t.Errorf("pictures are prepared as %+v, with fingerprint %s", pre, other.Fingerprint())
	}
}

func TestOpenCLIPRefuses(t *testing.T) {
	w, theirs := worker(t), writeCLIP(t, t.TempDir())
	change := func(old, by string) string {
		return `{"model_cfg": {` + strings.Replace(openCLIPModel, old, by, 1) + `}}`
	}
	for want, config := range map[string]string{
		"open_clip_config.json: no such file":                   "",
		`unknown field "hf_model_name"`:                         change(`"heads": 1`, `"hf_model_name": "roberta-base"`),
		"is no side of a square":                                change("[15, 15]", "[15, 10]"),
		`resize_mode is "longest"`:                              `{"model_cfg": {` + openCLIPModel + `}, "preprocess_cfg": {"resize_mode": "longest"}}`,
		`interpolation is "bilinear"`:                           `{"model_cfg": {` + openCLIPModel + `}, "preprocess_cfg": {"interpolation": "bilinear"}}`,
		"std above 0":                                           `{"model_cfg": {` + openCLIPModel + `}, "preprocess_cfg": {"std": [0, 1, 1]}}`,
		"tensor text_model.encoder.layers.2.layer_norm1.weight": change(`"layers": 2`, `"layers": 3`),
	} {
		_, err := model.OpenEncoder(t.Context(), w, writeOpenCLIP(t, theirs, "", config), model.EncoderOptions{VocabPath: mergesPath(t)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

// TestScriptWithItsInputsInside needs no settings: the archive says what its images and words are.
func TestScriptWithItsInputsInside(t *testing.T) {
	w := worker(t)
	const sizes = `{"image_size": 6, "text_tokens": 8, "resize": "squash", "mean": [0, 0, 0], "std": [1, 1, 1], "tokenizer": "%s"}`
	pieces := string(must.Get(os.ReadFile("../../content/token/testdata/siglip/siglip.bin"))(t))
	write := func(config, words string) string {
		return writeScript(t, fmt.Sprintf(towersCode, 6), extra{"pairstream.encoder", config}, extra{"pairstream.words", words})
	}
	for tokenizer, words := range map[string]string{
		"clip": "#version\na b\na b</w>\n", "wordpiece": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nab\n", "siglip": pieces,
	} {
		e := must.Get(model.OpenEncoder(t.Context(), w, write(fmt.Sprintf(sizes, tokenizer), words), model.EncoderOptions{BatchSize: 3}))(t)
		defer e.Free()
		if pre := e.Preprocessing(); pre.Size != 6 || pre.Mode != imaging.Squash || pre.Std != [3]float32{1, 1, 1} {
			t.Errorf("%s: pictures are prepared as %+v", tokenizer, pre)
		}
		first := map[string]float32{"clip": 514, "wordpiece": 2, "siglip": 6}[tokenizer]
		got := must.Get(e.EncodeTexts(t.Context(), []string{"ab"}))(t)
		want := map[string]float32{"clip": 513, "wordpiece": 5}[tokenizer] / first
		if ratio := got[1] / got[0]; tokenizer != "siglip" && (ratio < want-1e-4 || ratio > want+1e-4) {
			t.Errorf("%s: a text begins with %v", tokenizer, got)
		}
		if tokenizer == "siglip" && (got[5] == 0 || got[0] < 5.99*got[5] || got[0] > 6.01*got[5]) {
			t.Errorf("siglip: a text is %v, want it filled up with id 1", got)
		}
	}
	good := write(fmt.Sprintf(sizes, "siglip"), pieces)
	for want, open := range map[string]func() (*model.Encoder, error){
		"want clip, wordpiece or siglip": func() (*model.Encoder, error) {
			return model.OpenEncoder(t.Context(), w, write(fmt.Sprintf(sizes, "gemma"), ""), model.EncoderOptions{})
		},
		"want crop or squash": func() (*model.Encoder, error) {
			return model.OpenEncoder(t.Context(), w, write(strings.Replace(fmt.Sprintf(sizes, "siglip"), "squash", "pad", 1), pieces), model.EncoderOptions{})
		},
		"text_tokens is 0": func() (*model.Encoder, error) {
			return model.OpenEncoder(t.Context(), w, write(`{"image_size": 6}`, pieces), model.EncoderOptions{})
		},
		"the image size that is set is 7": func() (*model.Encoder, error) {
			return model.OpenEncoder(t.Context(), w, good, model.EncoderOptions{ImageSize: 7})
		},
		"it has its words inside: name no vocabulary": func() (*model.Encoder, error) {
			return model.OpenEncoder(t.Context(), w, good, model.EncoderOptions{VocabPath: "x"})
		},
	} {
		if _, err := open(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
	// An archive of one's own takes SigLIP's words from the setting.
	e := must.Get(model.OpenEncoder(t.Context(), w, writeScript(t, fmt.Sprintf(towersCode, 6)), model.EncoderOptions{
		VocabPath: "../../content/token/testdata/siglip/siglip.bin", ImageSize: 6, BatchSize: 3,
	}))(t)
	defer e.Free()
	if got := must.Get(e.EncodeTexts(t.Context(), []string{""}))(t); got[0] != got[5] || got[0] == 0 {
		t.Errorf("an empty text is %v, want id 1 everywhere", got)
	}
}
