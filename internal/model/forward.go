package model

import (
	"github.com/pairstream/pairstream/internal/torch"
)

// Image encodes normalised images [n, 3, size, size] as tokens [n, tokens, dim], the class token first.
func (m *Model) Image(s *torch.Scope, images *torch.Tensor) *torch.Tensor {
	return m.vision.forward(s, images, false)
}

// Text encodes ids [n, length] as hidden states [n, length, hidden]. mask [n, length] is 1 for real tokens.
func (m *Model) Text(s *torch.Scope, ids, mask *torch.Tensor) *torch.Tensor {
	return m.text.encode(s, m.text.embed(s, ids), m.text.scores(s, mask), false)
}

// ImageFeature returns the unit vectors [n, embed] of images encoded by [Model.Image].
func (m *Model) ImageFeature(s *torch.Scope, tokens *torch.Tensor) *torch.Tensor {
	return unit(s, tokens, m.visionProj)
}

// TextFeature returns the unit vectors [n, embed] of texts encoded by [Model.Text].
func (m *Model) TextFeature(s *torch.Scope, hidden *torch.Tensor) *torch.Tensor {
	return unit(s, hidden, m.textProj)
}

// matchLogits returns the ITM logits [n, 2] of fused pairs; class 1 is a match.
func (m *Model) matchLogits(s *torch.Scope, fused *torch.Tensor) *torch.Tensor {
	return m.match.exact(s, s.Select(fused, 1, 0))
}

// MatchPairs returns the ITM logits [n, 2] of the pairs (text textIndex[i], image imageIndex[i]); class 1 is a match. It
// computes nothing twice for a text or an image of several pairs, and nothing for tokens that ITM does not look at.
func (m *Model) MatchPairs(s *torch.Scope, hidden, mask *torch.Tensor, images View, textIndex, imageIndex []int64) *torch.Tensor {
	return m.Pairing(s, hidden, mask, images).MatchLogits(s, textIndex, imageIndex)
}

// View holds the keys and values of images [n, tokens, 2*hidden], for each layer that sees images. The zero View has none.
type View struct{ layers []*torch.Tensor }

// View prepares images (from [Model.Image]) for any number of texts: for ITM's and MLM's alike.
func (m *Model) View(s *torch.Scope, images *torch.Tensor) View { return View{m.text.view(s, images)} }

// Select returns the images that index names, in its order.
func (v View) Select(s *torch.Scope, index []int64) View {
	rows := s.Int64s(index, int64(len(index)))
	var out View
	for _, kv := range v.layers {
		out.layers = append(out.layers, s.IndexSelect(kv, 0, rows))
	}
	return out
}

// Pairing holds texts and images of which many pairs will be scored, a part at a time. It lives as long as its scope.
type Pairing struct {
	model *Model
	prepared
}

// Pairing prepares texts (from [Model.Text], with their mask) and a view of images for [Pairing.MatchLogits].
func (m *Model) Pairing(s *torch.Scope, hidden, mask *torch.Tensor, images View) *Pairing {
	return &Pairing{model: m, prepared: m.text.prepare(s, hidden, m.text.scores(s, mask), images.layers)}
}

// MatchLogits returns the ITM logits [n, 2] of the pairs (text textIndex[i], image imageIndex[i]).
func (p *Pairing) MatchLogits(s *torch.Scope, textIndex, imageIndex []int64) *torch.Tensor {
	texts := s.Int64s(textIndex, int64(len(textIndex)))
	images := s.Int64s(imageIndex, int64(len(imageIndex)))
	return p.model.matchLogits(s, p.model.text.fuseFirst(s, p.prepared, texts, images))
}

// HasMasked reports whether the model has an MLM head. [Model.MaskedLogitsAt] needs one.
func (m *Model) HasMasked() bool { return m.masked != nil }

// MaskedLogitsAt returns the logits of every word at the given positions, row*length + column each: [positions, vocab].
// Text i sees image i, or none of the zero View. It computes the product with the vocabulary for these positions only.
func (m *Model) MaskedLogitsAt(s *torch.Scope, ids, mask *torch.Tensor, images View, positions []int64) *torch.Tensor {
	fused := m.fuseWords(s, ids, mask, images)
	rows := s.Reshape(fused, -1, fused.Size(-1))
	return m.decode(s, s.IndexSelect(rows, 0, s.Int64s(positions, int64(len(positions)))))
}

func (m *Model) fuseWords(s *torch.Scope, ids, mask *torch.Tensor, images View) *torch.Tensor {
	scores := m.text.scores(s, mask)
	return m.text.fuse(s, m.text.encode(s, m.text.embed(s, ids), scores, false), scores, images.layers)
}

func (m *Model) decode(s *torch.Scope, x *torch.Tensor) *torch.Tensor {
	x = m.masked.norm.apply(s, s.GELU(m.masked.dense.apply(s, x)))
	return s.Linear(x, m.text.words, m.masked.bias)
}

// Temperature returns the learned divisor of similarities. It first brings back a value that has left [0.001, 0.5], in the
// weight itself, as the reference code does. So the gradient never vanishes at a bound. Call it once, before the
// forward pass that uses it. It does not wait for the device.
func (m *Model) Temperature(s *torch.Scope) *torch.Tensor {
	s.NoGrad(func() { m.temperature.CopyFrom(s.Clamp(m.temperature, minTemperature, maxTemperature)) })
	return m.temperature
}
