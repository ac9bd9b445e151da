package model

import (
	"fmt"

	"github.com/pairstream/pairstream/internal/model/torch"
)

// paddedScore is added to attention scores at padded positions, as BERT's code does.
const paddedScore = -10000

// text is the BERT-style encoder. Layers below fusion see only the text; the others also see the image.
type text struct {
	words, positions, types *torch.Tensor
	norm                    norm
	layers                  []textLayer
	fusion                  int
	drop                    *dropout
}

// dropout is the share of activations dropped in training, one share for all layers; 0 otherwise. It applies where BERT
// has it: after the embeddings, to attention's probabilities, and to the outputs of attention and ffn.
type dropout struct {
	share float64
}

func (d *dropout) apply(s *torch.Scope, x *torch.Tensor) *torch.Tensor {
	if d.share == 0 {
		return x
	}
	return s.Dropout(x, d.share)
}

// textLayer is post-normalised; cross is nil below the fusion layer.
type textLayer struct {
	self           attention
	cross          *attention
	hidden, output linear
	norm           norm
	drop           *dropout
}

// attention holds the projections, the residual connection and the normalisation after it.
type attention struct {
	query, key, value linear
	output            linear
	norm              norm
	heads             int
	drop              *dropout
}

func newText(src *source, c Config) text {
	const name = "text_encoder.bert."
	h, drop := c.TextHidden, new(dropout)
	t := text{
		drop:      drop,
		words:     src.tensor(name+"embeddings.word_embeddings.weight", normal, c.VocabSize, h),
		positions: src.tensor(name+"embeddings.position_embeddings.weight", normal, c.MaxPositions, h),
		types:     src.tensor(name+"embeddings.token_type_embeddings.weight", normal, tokenTypes, h),
		norm:      newNorm(src, name+"embeddings.LayerNorm", h, bertEps),
		fusion:    c.FusionLayer,
	}
	for i := range c.TextLayers {
		layer := fmt.Sprintf("%sencoder.layer.%d.", name, i)
		l := textLayer{
			drop:   drop,
			self:   newAttention(src, layer+"attention.", c.TextHeads, h, h, drop),
			hidden: newLinear(src, layer+"intermediate.dense", h, c.TextIntermediate, normal),
			output: newLinear(src, layer+"output.dense", c.TextIntermediate, h, normal),
			norm:   newNorm(src, layer+"output.LayerNorm", h, bertEps),
		}
		if i >= c.FusionLayer {
			cross := newAttention(src, layer+"crossattention.", c.TextHeads, h, c.VisionDim, drop)
			l.cross = &cross
		}
		t.layers = append(t.layers, l)
	}
	return t
}

func newAttention(src *source, name string, heads, width, keyWidth int, drop *dropout) attention {
	return attention{
		query:  newLinear(src, name+"self.query", width, width, normal),
		key:    newLinear(src, name+"self.key", keyWidth, width, normal),
		value:  newLinear(src, name+"self.value", keyWidth, width, normal),
		output: newLinear(src, name+"output.dense", width, width, normal),
		norm:   newNorm(src, name+"output.LayerNorm", width, bertEps),
		heads:  heads,
		drop:   drop,
	}
}

// embed maps ids [n, length] to [n, length, hidden]. The padding row takes no gradient from here (only from the MLM
// decoder, which shares the table).
func (t text) embed(s *torch.Scope, ids *torch.Tensor) *torch.Tensor {
	place := s.Add(s.Narrow(t.positions, 0, 0, ids.Size(1)), s.Narrow(t.types, 0, 0, 1))
	return t.drop.apply(s, t.norm.apply(s, s.Add(s.Embedding(t.words, ids, paddingID), place)))
}

// scores turns a mask [n, length], 1 for real tokens, into the summand of attention scores: [n, 1, length].
func (t text) scores(s *torch.Scope, mask *torch.Tensor) *torch.Tensor {
	padded := s.AddScalar(s.Neg(s.To(mask, t.words.DType())), 1)
	return s.Unsqueeze(s.MulScalar(padded, paddedScore), 1)
}

// encode runs the text encoder: the layers below fusion. With firstOnly the last of these layers computes only the
// first token.
func (t text) encode(s *torch.Scope, x, scores *torch.Tensor, firstOnly bool) *torch.Tensor {
	return through(s, x, t.fusion, func(s *torch.Scope, i int, x *torch.Tensor) *torch.Tensor {
		l := t.layers[i]
		return l.ffn(s, l.self.selfAttend(s, x, scores, firstOnly && i == t.fusion-1))
	})
}

// fuse runs the layers from fusion on, text i with image i of [text.view]. Without images it skips cross-attention.
func (t text) fuse(s *torch.Scope, x, scores *torch.Tensor, images []*torch.Tensor) *torch.Tensor {
	layers := t.layers[t.fusion:]
	return through(s, x, len(layers), func(s *torch.Scope, i int, x *torch.Tensor) *torch.Tensor {
		x = layers[i].self.selfAttend(s, x, scores, false)
		if images != nil {
			x = layers[i].cross.crossAttend(s, x, images[i], nil)
		}
		return layers[i].ffn(s, x)
	})
}

// view returns the keys and values of images for cross-attention, by layer. They do not depend on texts.
func (t text) view(s *torch.Scope, images *torch.Tensor) (kv []*torch.Tensor) {
	for _, l := range t.layers[t.fusion:] {
		kv = append(kv, l.cross.keysAndValues(s, images))
	}
	return kv
}

// prepared holds the parts of texts and images for the fusion layers that are independent of their pairing.
type prepared struct {
	attended, scores *torch.Tensor   // texts after the first layer's self-attention; the summand of their scores
	images           []*torch.Tensor // of text.view
}

// prepare computes everything that is independent of the pairing. Before the first cross-attention a text does not
// depend on an image.
func (t text) prepare(s *torch.Scope, x, scores *torch.Tensor, images []*torch.Tensor) prepared {
	layers := t.layers[t.fusion:]
	return prepared{attended: layers[0].self.selfAttend(s, x, scores, len(layers) == 1), scores: scores, images: images}
}

// fuseFirst fuses the pairs of texts and images given by the indices. It returns only the first tokens [pairs, 1,
// hidden], for ITM. It gives the same result as fuse with less work: the last layer has one query for each pair.
func (t text) fuseFirst(s *torch.Scope, p prepared, textIndex, imageIndex *torch.Tensor) *torch.Tensor {
	layers := t.layers[t.fusion:]
	x := s.IndexSelect(p.attended, 0, textIndex)
	scores := s.IndexSelect(p.scores, 0, textIndex)
	return through(s, x, len(layers), func(s *torch.Scope, i int, x *torch.Tensor) *torch.Tensor {
		l := layers[i]
		if i > 0 {
			x = l.self.selfAttend(s, x, scores, i == len(layers)-1)
		}
		return l.ffn(s, l.cross.crossAttend(s, x, s.IndexSelect(p.images[i], 0, imageIndex), nil))
	})
}

// selfAttend attends from the tokens of x, or only from the first, to the tokens of x.
func (a attention) selfAttend(s *torch.Scope, x, scores *torch.Tensor, firstOnly bool) *torch.Tensor {
	if firstOnly {
		return a.crossAttend(s, firstToken(s, x), a.keysAndValues(s, x), scores)
	}
	qkv := linears(s, x, a.query, a.key, a.value)
	return a.finish(s, x, s.SelfAttention(qkv, scores, a.heads, scaleOf(x.Size(-1), a.heads), a.drop.share))
}

// crossAttend attends from the tokens of x to keys and values side by side.
func (a attention) crossAttend(s *torch.Scope, x, kv, scores *torch.Tensor) *torch.Tensor {
	q := a.query.apply(s, x)
	return a.finish(s, x, s.CrossAttention(q, kv, scores, a.heads, scaleOf(x.Size(-1), a.heads), a.drop.share))
}

func (a attention) keysAndValues(s *torch.Scope, x *torch.Tensor) *torch.Tensor {
	return linears(s, x, a.key, a.value)
}

func (a attention) finish(s *torch.Scope, x, mixed *torch.Tensor) *torch.Tensor {
	return a.norm.applySum(s, a.drop.apply(s, a.output.apply(s, mixed)), x)
}

// ffn applies the layer's feed-forward network.
func (l textLayer) ffn(s *torch.Scope, x *torch.Tensor) *torch.Tensor {
	return l.norm.applySum(s, l.drop.apply(s, l.output.apply(s, s.GELU(l.hidden.apply(s, x)))), x)
}
