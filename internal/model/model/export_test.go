package model

import "github.com/pairstream/pairstream/internal/model/torch"

// Tests check the methods that save work against these plain forward passes.

// Fuse lets text i (from [Model.Text], with its mask) see image i (from [Model.Image]): [n, length, hidden].
func (m *Model) Fuse(s *torch.Scope, hidden, mask, images *torch.Tensor) *torch.Tensor {
	return m.text.fuse(s, hidden, m.text.scores(s, mask), m.text.view(s, images))
}

// MatchLogits returns the ITM logits [n, 2] of fused pairs.
func (m *Model) MatchLogits(s *torch.Scope, fused *torch.Tensor) *torch.Tensor {
	return m.matchLogits(s, fused)
}

// MaskedLogits returns the logits of every word at every position [n, length, vocab]. Text i sees image i.
func (m *Model) MaskedLogits(s *torch.Scope, ids, mask, images *torch.Tensor) *torch.Tensor {
	return m.decode(s, m.fuseWords(s, ids, mask, m.View(s, images)))
}
