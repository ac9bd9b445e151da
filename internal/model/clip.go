package model

import (
	"context"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/internal/torch"
)

// CLIP is OpenAI's dual encoder, under Hugging Face's names. Its owner calls Free.
type CLIP struct {
	Config CLIPConfig

	worker *torch.Worker
	params []Param
	vision clipVision
	text   clipText
}

type clipVision struct {
	class, patch, positions *torch.Tensor
	before, after           norm
	layers                  []clipLayer
	projection              *torch.Tensor
}

type clipText struct {
	words, positions *torch.Tensor
	layers           []clipLayer
	last             norm
	projection       *torch.Tensor
}

// clipLayer is pre-normalised.
type clipLayer struct {
	norm1, norm2      norm
	query, key, value linear
	mixed             linear
	hidden, output    linear
	heads             int
	exact             bool // GELU by the error function; otherwise the quick form
}

func buildCLIP(ctx context.Context, w *torch.Worker, c CLIPConfig, src *source) (*CLIP, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &CLIP{Config: c, worker: w}
	err := w.Do(ctx, func(s *torch.Scope) error {
		src.scope = s
		m.vision = newCLIPVision(src, c)
		m.text = newCLIPText(src, c)
		return src.err()
	})
	m.params = src.params
	slices.SortFunc(m.params, byName)
	if err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

func newCLIPVision(src *source, c CLIPConfig) clipVision {
	const name = "vision_model."
	d := c.VisionDim
	side := c.ImageSize / c.PatchSize
	v := clipVision{
		class:      src.tensor(name+"embeddings.class_embedding", normal, d),
		patch:      src.tensor(name+"embeddings.patch_embedding.weight", fanIn, d, 3, c.PatchSize, c.PatchSize),
		positions:  src.tensor(name+"embeddings.position_embedding.weight", normal, side*side+1, d),
		before:     newNorm(src, name+"pre_layrnorm", d, clipEps), // spelled so in the files
		after:      newNorm(src, name+"post_layernorm", d, clipEps),
		projection: src.tensor("visual_projection.weight", fanIn, c.EmbedDim, d),
	}
	for i := range c.VisionDepth {
		layer := fmt.Sprintf("%sencoder.layers.%d.", name, i)
		v.layers = append(v.layers, newCLIPLayer(src, layer, d, c.VisionMLP, c.VisionHeads, c.ExactGELU))
	}
	return v
}

func newCLIPText(src *source, c CLIPConfig) clipText {
	const name = "text_model."
	h := c.TextHidden
	t := clipText{
		words:      src.tensor(name+"embeddings.token_embedding.weight", normal, c.VocabSize, h),
		positions:  src.tensor(name+"embeddings.position_embedding.weight", normal, c.Positions, h),
		last:       newNorm(src, name+"final_layer_norm", h, clipEps),
		projection: src.tensor("text_projection.weight", fanIn, c.EmbedDim, h),
	}
	for i := range c.TextLayers {
		layer := fmt.Sprintf("%sencoder.layers.%d.", name, i)
		t.layers = append(t.layers, newCLIPLayer(src, layer, h, c.TextMLP, c.TextHeads, c.ExactGELU))
	}
	return t
}

func newCLIPLayer(src *source, name string, width, hidden, heads int, exact bool) clipLayer {
	return clipLayer{
		norm1:  newNorm(src, name+"layer_norm1", width, clipEps),
		query:  newLinear(src, name+"self_attn.q_proj", width, width, normal),
		key:    newLinear(src, name+"self_attn.k_proj", width, width, normal),
		value:  newLinear(src, name+"self_attn.v_proj", width, width, normal),
		mixed:  newLinear(src, name+"self_attn.out_proj", width, width, normal),
		norm2:  newNorm(src, name+"layer_norm2", width, clipEps),
		hidden: newLinear(src, name+"mlp.fc1", width, hidden, normal),
		output: newLinear(src, name+"mlp.fc2", hidden, width, normal),
		heads:  heads,
		exact:  exact,
	}
}

// Free frees the weights.
func (m *CLIP) Free() { free(m.params) }

// Image projects normalised images [n, 3, size, size] to [n, embed], not of unit length.
func (m *CLIP) Image(s *torch.Scope, images *torch.Tensor) *torch.Tensor {
	v := m.vision
	x := embedPatches(s, images, v.patch, nil)
	shape := x.Shape()
	class := s.Expand(s.Reshape(v.class, 1, 1, shape[2]), shape[0], 1, shape[2])
	x = v.before.apply(s, s.Add(s.Cat(1, class, x), v.positions))
	x = through(s, x, len(v.layers), func(s *torch.Scope, i int, x *torch.Tensor) *torch.Tensor {
		return v.layers[i].forward(s, x, nil)
	})
	return linear{w: v.projection}.exact(s, v.after.apply(s, s.Select(x, 1, 0)))
}

// Text projects ids [n, length] to [n, embed], not of unit length. The state at the end token stands for the text. That
// token has the highest id, and what follows it has no influence.
func (m *CLIP) Text(s *torch.Scope, ids *torch.Tensor) *torch.Tensor {
	t := m.text
	n, length := ids.Size(0), ids.Size(1)
	x := s.Add(s.Embedding(t.words, ids, -1), s.Narrow(t.positions, 0, 0, length))
	mask := causalMask(s, length, t.words.DType())
	x = through(s, x, len(t.layers), func(s *torch.Scope, i int, x *torch.Tensor) *torch.Tensor {
		return t.layers[i].forward(s, x, mask)
	})
	width := x.Size(2)
	end := s.Expand(s.Reshape(s.ArgMax(ids, 1), n, 1, 1), n, 1, width)
	pooled := s.Squeeze(s.Gather(x, 1, end), 1)
	return linear{w: t.projection}.exact(s, t.last.apply(s, pooled))
}

// causalMask keeps a token from seeing the later ones: [1, length, length].
func causalMask(s *torch.Scope, length int64, dtype torch.DType) *torch.Tensor {
	seen := s.Tril(s.Full(1, dtype, length, length), 0)
	return s.Unsqueeze(s.MaskedFill(s.Zeros(dtype, length, length), s.EqScalar(seen, 0), minusInfinity), 0)
}

func (l clipLayer) forward(s *torch.Scope, x, mask *torch.Tensor) *torch.Tensor {
	qkv := linears(s, l.norm1.apply(s, x), l.query, l.key, l.value)
	x = s.Add(x, l.mixed.apply(s, s.SelfAttention(qkv, mask, l.heads, scaleOf(x.Size(-1), l.heads), 0)))
	hidden := l.hidden.apply(s, l.norm2.apply(s, x))
	if l.exact {
		hidden = s.GELU(hidden)
	} else {
		hidden = s.QuickGELU(hidden)
	}
	return s.Add(x, l.output.apply(s, hidden))
}
