package model

import (
	"fmt"

	"github.com/pairstream/pairstream/internal/torch"
)

// vision is the vision transformer. It has pre-normalised blocks, and a normalisation of all tokens at the end.
type vision struct {
	patch     linear // weight [dim, 3, patch, patch]
	class     *torch.Tensor
	positions *torch.Tensor
	blocks    []visionBlock
	last      norm
}

type visionBlock struct {
	norm1, norm2   norm
	qkv, proj      linear
	hidden, output linear
	heads          int
}

func newVision(src *source, c Config) vision {
	const name = "visual_encoder."
	d := c.VisionDim
	v := vision{
		patch: linear{
			w: src.tensor(name+"patch_embed.proj.weight", fanIn, d, 3, c.PatchSize, c.PatchSize),
			b: src.tensor(name+"patch_embed.proj.bias", zeros, d),
		},
		class:     src.tensor(name+"cls_token", truncated, 1, 1, d),
		positions: src.tensor(name+"pos_embed", truncated, 1, c.imageTokens(), d),
		last:      newNorm(src, name+"norm", d, visionEps),
	}
	for i := range c.VisionDepth {
		block := fmt.Sprintf("%sblocks.%d.", name, i)
		v.blocks = append(v.blocks, visionBlock{
			norm1:  newNorm(src, block+"norm1", d, visionEps),
			qkv:    newLinear(src, block+"attn.qkv", d, 3*d, truncated),
			proj:   newLinear(src, block+"attn.proj", d, d, truncated),
			norm2:  newNorm(src, block+"norm2", d, visionEps),
			hidden: newLinear(src, block+"mlp.fc1", d, visionMLPRatio*d, truncated),
			output: newLinear(src, block+"mlp.fc2", visionMLPRatio*d, d, truncated),
			heads:  c.VisionHeads,
		})
	}
	return v
}

// forward maps images [n, 3, size, size] to tokens [n, tokens, dim], the class token first. With classOnly it returns the
// class token alone [n, 1, dim], without the work that only the others need.
func (v vision) forward(s *torch.Scope, images *torch.Tensor, classOnly bool) *torch.Tensor {
	x := embedPatches(s, images, v.patch.w, v.patch.b)
	shape := x.Shape()
	x = s.Add(s.Cat(1, s.Expand(v.class, shape[0], 1, shape[2]), x), v.positions)
	x = through(s, x, len(v.blocks), func(s *torch.Scope, i int, x *torch.Tensor) *torch.Tensor {
		return v.blocks[i].forward(s, x, classOnly && i == len(v.blocks)-1)
	})
	return v.last.apply(s, x)
}

func (b visionBlock) forward(s *torch.Scope, x *torch.Tensor, classOnly bool) *torch.Tensor {
	d := x.Size(-1)
	normed, scale := b.norm1.apply(s, x), scaleOf(d, b.heads)
	var mixed *torch.Tensor
	if classOnly {
		q := b.qkv.rows(s, 0, d).apply(s, firstToken(s, normed))
		mixed = s.CrossAttention(q, b.qkv.rows(s, d, 2*d).apply(s, normed), nil, b.heads, scale, 0)
		x = firstToken(s, x)
	} else {
		mixed = s.SelfAttention(b.qkv.apply(s, normed), nil, b.heads, scale, 0)
	}
	x = s.Add(x, b.proj.apply(s, mixed))
	return s.Add(x, b.output.apply(s, s.GELU(b.hidden.apply(s, b.norm2.apply(s, x)))))
}
