package model

import (
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/model/torch"
)

// These are the epsilons of the layer normalisations, as in the reference code.
const (
	visionEps = 1e-6
	bertEps   = 1e-12
	clipEps   = 1e-5
)

// minusInfinity excludes a score from a softmax.
var minusInfinity = math.Inf(-1)

// unitFloor is the least norm that a projection is divided by.
const unitFloor = 1e-12

// through passes x through n layers. It frees a layer's temporaries when the layer returns, and its result when the
// next layer has used it. That bounds the memory of a forward pass without gradients. With gradients, autograd keeps
// the tensors that it needs.
func through(s *torch.Scope, x *torch.Tensor, n int, layer func(s *torch.Scope, i int, x *torch.Tensor) *torch.Tensor) *torch.Tensor {
	for i := range n {
		var y *torch.Tensor
		err := s.Nest(func(s *torch.Scope) error {
			y = s.Keep(layer(s, i, x))
			return nil
		})
		if err != nil {
			panic(err) // like every failed operation
		}
		if i > 0 {
			x.Free()
		}
		x = s.Adopt(y)
	}
	return x
}

// linear computes x wᵀ + b.
type linear struct {
	w, b   *torch.Tensor // b may be nil
	factor *torch.Tensor // w, or w in bfloat16
}

func newLinear(src *source, name string, in, out int, first initial) linear {
	w, factor := src.weight(name+".weight", first, out, in)
	return linear{w: w, factor: factor, b: src.tensor(name+".bias", zeros, out)}
}

func (l linear) apply(s *torch.Scope, x *torch.Tensor) *torch.Tensor {
	return s.Linear(x, l.factor, l.b)
}

// exact is apply in float32, whatever the worker's precision. It is for the small last layers, whose results leave the
// network.
func (l linear) exact(s *torch.Scope, x *torch.Tensor) (y *torch.Tensor) {
	s.InFloat32(func() { y = s.Linear(x, l.w, l.b) })
	return y
}

// rows returns the part of the layer that computes outputs [from, from+n).
func (l linear) rows(s *torch.Scope, from, n int64) linear {
	return linear{w: s.Narrow(l.w, 0, from, n), factor: s.Narrow(l.factor, 0, from, n), b: s.Narrow(l.b, 0, from, n)}
}

// norm is a layer normalisation.
type norm struct {
	w, b *torch.Tensor
	eps  float64
}

func newNorm(src *source, name string, width int, eps float64) norm {
	return norm{w: src.tensor(name+".weight", ones, width), b: src.tensor(name+".bias", zeros, width), eps: eps}
}

func (n norm) apply(s *torch.Scope, x *torch.Tensor) *torch.Tensor {
	return s.LayerNorm(x, n.w, n.b, n.eps)
}

// applySum normalises x + y.
func (n norm) applySum(s *torch.Scope, x, y *torch.Tensor) *torch.Tensor {
	return s.AddLayerNorm(x, y, n.w, n.b, n.eps)
}

// linears applies several layers to the same input and puts their outputs side by side.
func linears(s *torch.Scope, x *torch.Tensor, layers ...linear) *torch.Tensor {
	ws, bs := make([]*torch.Tensor, len(layers)), make([]*torch.Tensor, len(layers))
	for i, l := range layers {
		ws[i], bs[i] = l.factor, l.b
	}
	return s.Linears(x, ws, bs)
}

// scaleOf returns the factor of attention scores: 1 over the root of a head's width.
func scaleOf(width int64, heads int) float64 { return 1 / math.Sqrt(float64(width)/float64(heads)) }

// firstToken returns the first token of x [batch, length, width]: [batch, 1, width].
func firstToken(s *torch.Scope, x *torch.Tensor) *torch.Tensor { return s.Narrow(x, 1, 0, 1) }

// unit projects the first token's vector and scales it to length one.
func unit(s *torch.Scope, x *torch.Tensor, projection linear) *torch.Tensor {
	return s.Normalize(projection.exact(s, s.Select(x, 1, 0)), -1, unitFloor)
}

// patches cuts images [n, 3, height, width] into squares: [n, squares, 3*patch*patch], row by row. Each square has the
// layout of the convolution's weight.
func patches(s *torch.Scope, images *torch.Tensor, patch int64) *torch.Tensor {
	shape := images.Shape()
	n, channels, down, across := shape[0], shape[1], shape[2]/patch, shape[3]/patch
	x := s.Reshape(images, n, channels, down, patch, across, patch)
	return s.Reshape(s.Permute(x, 0, 2, 4, 1, 3, 5), n, down*across, channels*patch*patch)
}

// embedPatches computes the strided convolution of a vision transformer as one matrix product. bias may be nil.
func embedPatches(s *torch.Scope, images, weight, bias *torch.Tensor) *torch.Tensor {
	shape := weight.Shape()
	return s.Linear(patches(s, images, shape[2]), s.Reshape(weight, shape[0], -1), bias)
}

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

// forward maps images [n, 3, size, size] to tokens [n, tokens, dim], the class token first. With classOnly it returns
// only the class token [n, 1, dim], without the work for the others.
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
