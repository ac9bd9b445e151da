package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/model/torch"
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

// MatchPairs returns the ITM logits [n, 2] of the pairs (text textIndex[i], image imageIndex[i]); class 1 is a match.
// It computes nothing twice for a text or an image of several pairs, and nothing for tokens that ITM ignores.
func (m *Model) MatchPairs(s *torch.Scope, hidden, mask *torch.Tensor, images View, textIndex, imageIndex []int64) *torch.Tensor {
	return m.Pairing(s, hidden, mask, images).MatchLogits(s, textIndex, imageIndex)
}

// View holds the keys and values of images [n, tokens, 2*hidden], for each layer that sees images. The zero View has
// none.
type View struct{ layers []*torch.Tensor }

// View prepares images (from [Model.Image]) for any number of texts, for both ITM and MLM.
func (m *Model) View(s *torch.Scope, images *torch.Tensor) View { return View{m.text.view(s, images)} }

// Select returns the images of an index, in its order.
func (v View) Select(s *torch.Scope, index []int64) View {
	rows := s.Int64s(index, int64(len(index)))
	var out View
	for _, kv := range v.layers {
		out.layers = append(out.layers, s.IndexSelect(kv, 0, rows))
	}
	return out
}

// Pairing holds texts and images for scoring many pairs, a part at a time. It lives as long as its scope.
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

// Temperature returns the learned divisor of similarities. It first clamps the weight itself to [0.001, 0.5], as the
// reference code does, so that the gradient never vanishes at a bound. Call it once, before the forward pass that uses
// it. It does not wait for the device.
func (m *Model) Temperature(s *torch.Scope) *torch.Tensor {
	s.NoGrad(func() { m.temperature.CopyFrom(s.Clamp(m.temperature, minTemperature, maxTemperature)) })
	return m.temperature
}

// Bias returns the learned addend of similarities in the sigmoid loss; nil: the model has none.
func (m *Model) Bias() *torch.Tensor { return m.bias }

// ImageRegions returns the local features of images encoded by [Model.Image]: [n, regions, embed]. It projects every
// patch and scales it to length one. Then it averages the patches of a region, without scaling the average. As in TCL,
// a grid of g x g patches has windows of c x c, where c is the integer part of the square root of g. Patches beyond the
// last whole window are left out.
func (m *Model) ImageRegions(s *torch.Scope, tokens *torch.Tensor) *torch.Tensor {
	patches := locals(s, tokens, m.visionProj)
	n, width := patches.Size(0), patches.Size(2)
	grid := int64(m.Config.ImageSize / m.Config.PatchSize)
	window := int64(math.Sqrt(float64(grid)))
	side := grid / window
	x := s.Reshape(patches, n, grid, grid, width)
	x = s.Narrow(s.Narrow(x, 1, 0, side*window), 2, 0, side*window)
	x = s.Reshape(x, n, side, window, side, window, width)
	return s.Reshape(s.Mean(s.Mean(x, 4, false), 2, false), n, side*side, width)
}

// TextTokens returns the local features of texts encoded by [Model.Text]: [n, length-1, embed]. They are unit vectors
// of the tokens after [CLS], including padding.
func (m *Model) TextTokens(s *torch.Scope, hidden *torch.Tensor) *torch.Tensor {
	return locals(s, hidden, m.textProj)
}

// locals projects all tokens except the first and scales them to length one.
func locals(s *torch.Scope, x *torch.Tensor, projection linear) *torch.Tensor {
	return s.Normalize(projection.exact(s, s.Contiguous(s.Narrow(x, 1, 1, x.Size(1)-1))), -1, unitFloor)
}

// BackwardOrder returns the indices of [Model.Params] in the order in which a backward pass finishes with them: heads,
// fusion layers, the text encoder from its end, and the image encoder from its end. The order depends only on the names
// and the configuration.
func (m *Model) BackwardOrder() []int {
	order := make([]int, len(m.params))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(m.Config.backwardPlace(m.params[a].Name), m.Config.backwardPlace(m.params[b].Name))
	})
	return order
}

// backwardPlace returns a number that grows with the time at which a backward pass finishes with a weight.
func (c Config) backwardPlace(name string) int {
	var layer int
	_, err := fmt.Sscanf(name, "text_encoder.bert.encoder.layer.%d.", &layer)
	if err == nil {
		return c.TextLayers - layer
	}
	images := c.TextLayers + 2
	if _, err := fmt.Sscanf(name, "visual_encoder.blocks.%d.", &layer); err == nil {
		return images + c.VisionDepth - layer
	}
	switch {
	case strings.HasPrefix(name, "visual_encoder.norm."):
		return images
	case strings.HasPrefix(name, "visual_encoder."):
		return images + c.VisionDepth + 1
	case strings.HasPrefix(name, "text_encoder.bert."):
		return c.TextLayers + 1
	case strings.HasPrefix(name, maskedHeadName), strings.HasPrefix(name, "itm_head."):
		return 0
	}
	return c.TextLayers - c.FusionLayer // of the contrastive loss, which comes before fusion
}
