package model

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// openCLIPFile is the name of the configuration that open_clip writes beside its weights.
const openCLIPFile = "open_clip_config.json"

// anEncoder tells how to convert unsupported models to encoders.
const anEncoder = "`python -m pairstream export-encoder` makes an encoder of whatever open_clip or transformers load"

// openCLIPConfig has open_clip's fields of a plain CLIP: two transformers of its own, and byte-pair encoding. Unknown
// fields are refused, because they would change the network or its words.
type openCLIPConfig struct {
	EmbedDim  int     `json:"embed_dim"`
	QuickGELU bool    `json:"quick_gelu"`
	Custom    bool    `json:"custom_text"`     // the text tower is a separate module, text
	Bias      float64 `json:"init_logit_bias"` // of the loss, as the scale is
	Scale     float64 `json:"init_logit_scale"`
	Vision    struct {
		ImageSize openCLIPSide `json:"image_size"`
		Layers    int          `json:"layers"`
		Width     int          `json:"width"`
		HeadWidth int          `json:"head_width"`
		MLPRatio  float64      `json:"mlp_ratio"`
		PatchSize openCLIPSide `json:"patch_size"`
		Dropout   float64      `json:"patch_dropout"` // only in training
	} `json:"vision_cfg"`
	Text struct {
		Context  int     `json:"context_length"`
		Vocab    int     `json:"vocab_size"`
		Width    int     `json:"width"`
		Heads    int     `json:"heads"`
		Layers   int     `json:"layers"`
		MLPRatio float64 `json:"mlp_ratio"`
	} `json:"text_cfg"`
}

// openCLIPSide is a side in pixels, alone or twice in a list.
type openCLIPSide int

// UnmarshalJSON implements json.Unmarshaler.
func (s *openCLIPSide) UnmarshalJSON(text []byte) error {
	var sides [2]int
	if json.Unmarshal(text, &sides) == nil && sides[0] == sides[1] {
		*s = openCLIPSide(sides[0])
		return nil
	}
	if err := json.Unmarshal(text, &sides[0]); err != nil {
		return fmt.Errorf("%s is no side of a square", text)
	}
	*s = openCLIPSide(sides[0])
	return nil
}

// openCLIPPictures is open_clip's preparation of pictures.
type openCLIPPictures struct {
	Mean          [3]float32 `json:"mean"`
	Std           [3]float32 `json:"std"`
	Interpolation string     `json:"interpolation"`
	Resize        string     `json:"resize_mode"`
}

// readOpenCLIP reads open_clip_config.json. The weights show neither heads nor activation nor the preparation of
// pictures, so the file must exist.
func readOpenCLIP(path string) (CLIPConfig, imaging.Preprocess, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return CLIPConfig{}, imaging.Preprocess{}, fmt.Errorf("reading the configuration that open_clip writes beside its weights: %w", err)
	}
	var file struct {
		Model    openCLIPConfig   `json:"model_cfg"`
		Pictures openCLIPPictures `json:"preprocess_cfg"`
	}
	in := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	in.DisallowUnknownFields()
	file.Model.Vision.HeadWidth, file.Model.Vision.MLPRatio, file.Model.Text.MLPRatio = headWidth, 4, 4
	file.Pictures = openCLIPPictures{Mean: imaging.CLIPMean, Std: imaging.CLIPStd, Interpolation: "bicubic", Resize: "shortest"}
	if err := in.Decode(&file); err != nil {
		return CLIPConfig{}, imaging.Preprocess{}, fmt.Errorf("decoding %s: %w; %s", path, err, anEncoder)
	}
	m, v, t := file.Model, file.Model.Vision, file.Model.Text
	c := CLIPConfig{
		ImageSize: int(v.ImageSize), PatchSize: int(v.PatchSize), VisionDim: v.Width, VisionDepth: v.Layers,
		VisionHeads: v.Width / max(1, v.HeadWidth), VisionMLP: int(float64(v.Width) * v.MLPRatio),
		TextHidden: t.Width, TextLayers: t.Layers, TextHeads: t.Heads, TextMLP: int(float64(t.Width) * t.MLPRatio),
		VocabSize: t.Vocab, Positions: t.Context, EmbedDim: m.EmbedDim, ExactGELU: !m.QuickGELU,
	}
	pre, err := file.Pictures.preprocess(c.ImageSize)
	if err != nil {
		return CLIPConfig{}, pre, fmt.Errorf("%s: %w; %s", path, err, anEncoder)
	}
	return c, pre, nil
}

func (p openCLIPPictures) preprocess(size int) (imaging.Preprocess, error) {
	pre := imaging.Preprocess{Size: size, Mode: imaging.CenterCrop}
	switch p.Resize {
	case "shortest":
	case "squash":
		pre.Mode = imaging.Squash
	default:
		return pre, fmt.Errorf("resize_mode is %q, want shortest or squash", p.Resize)
	}
	if p.Interpolation != "bicubic" {
		return pre, fmt.Errorf("interpolation is %q, want bicubic", p.Interpolation)
	}
	return pre, pre.Normalize(p.Mean, p.Std)
}

// loadOpenCLIP reads open_clip's files: open_clip_model.safetensors, with open_clip_config.json beside it.
func loadOpenCLIP(ctx context.Context, w *torch.Worker, f *safetensors.File, path string) (*CLIP, error) {
	c, pre, err := readOpenCLIP(filepath.Join(filepath.Dir(path), openCLIPFile))
	if err != nil {
		return nil, err
	}
	m, err := buildCLIP(ctx, w, c, &source{values: fromOpenCLIP(f), frozen: true})
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, anEncoder)
	}
	m.pictures = pre
	return m, nil
}

// isOpenCLIP reports whether the file has the vision tower of open_clip's own transformer.
func isOpenCLIP(f *safetensors.File) bool { return slices.Contains(f.Names(), "visual.conv1.weight") }

// Names of a layer's tensors in open_clip.
var openCLIPLayer = strings.NewReplacer(
	"layer_norm1", "ln_1", "layer_norm2", "ln_2", "mlp.fc1", "mlp.c_fc", "mlp.fc2", "mlp.c_proj", "self_attn.out_proj", "attn.out_proj",
	"self_attn.q_proj.", "attn.in_proj_", "self_attn.k_proj.", "attn.in_proj_", "self_attn.v_proj.", "attn.in_proj_",
)

// Names of the other tensors, and prefixes of the layers' names. The text tower's may have the prefix "text.".
var openCLIPTop = strings.NewReplacer(
	"vision_model.embeddings.class_embedding", "visual.class_embedding",
	"vision_model.embeddings.patch_embedding.weight", "visual.conv1.weight",
	"vision_model.embeddings.position_embedding.weight", "visual.positional_embedding",
	"vision_model.pre_layrnorm", "visual.ln_pre", "vision_model.post_layernorm", "visual.ln_post",
	"vision_model.encoder.layers", "visual.transformer.resblocks", "visual_projection.weight", "visual.proj",
	"text_model.embeddings.token_embedding.weight", "token_embedding.weight",
	"text_model.embeddings.position_embedding.weight", "positional_embedding",
	"text_model.final_layer_norm", "ln_final", "text_model.encoder.layers", "transformer.resblocks",
	"text_projection.weight", "text_projection",
)

// fromOpenCLIP returns a function that reads values, by Hugging Face's names, from a file with open_clip's. There,
// queries, keys and values are in one tensor, and projections are transposed.
func fromOpenCLIP(f *safetensors.File) func(string, []int64, initial) (safetensors.Tensor, error) {
	take := fromFile(f, func(name string) []string { return []string{name, "text." + name} }, 0)
	return func(name string, shape []int64, first initial) (safetensors.Tensor, error) {
		theirs := openCLIPLayer.Replace(openCLIPTop.Replace(name))
		part := -1
		for i, of := range []string{".q_proj.", ".k_proj.", ".v_proj."} {
			if strings.Contains(name, of) {
				part = i
			}
		}
		transposed := theirs == "visual.proj" || theirs == "text_projection"
		stored := slices.Clone(shape)
		switch {
		case part >= 0:
			stored[0] *= 3
		case transposed:
			slices.Reverse(stored)
		}
		t, err := take(theirs, stored, first)
		if err != nil || part < 0 && !transposed {
			return t, err
		}
		values, err := t.Float32s()
		if err != nil {
			return t, err
		}
		if part >= 0 {
			n := len(values) / 3
			return safetensors.FromFloat32s(values[part*n:(part+1)*n], shape...), nil
		}
		out, rows, columns := make([]float32, len(values)), int(shape[0]), int(shape[1])
		for i := range rows {
			for j := range columns {
				out[i*columns+j] = values[j*rows+i]
			}
		}
		return safetensors.FromFloat32s(out, shape...), nil
	}
}
