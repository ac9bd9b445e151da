package trainer

import "github.com/pairstream/pairstream/internal/model/torch"

// sigmoidLoss returns the mean over anchors of -sum(log sigmoid(z * (similarity / temperature + bias))) over all
// candidates (SigLIP eq. 1, whose t is 1 / temperature). z is 1 for the positives of a row and -1 for the others: one
// positive does not take from another, so that a connection is one more. Candidates that are dropped have no part.
// anchors is [rows, E] and keys [columns, E], both of unit rows. Gradients reach both, if the keys are not constants, as
// SigLIP's do.
func sigmoidLoss(s *torch.Scope, anchors, keys, temperature, bias *torch.Tensor, rows rowTargets) *torch.Tensor {
	logits := s.Add(s.Div(s.MatMul(anchors, s.Transpose(keys, 0, 1)), temperature), bias)
	z := s.Unsqueeze(logits, 2)
	shares := s.LogSoftmax(s.Cat(2, z, s.MulScalar(z, 0)), 2) // log sigmoid of the logit, and of minus it
	loss := s.Where(rows.positive(s), s.Select(shares, 2, 0), s.Select(shares, 2, 1))
	if dropped := rows.dropped(s); dropped != nil {
		loss = s.MaskedFill(loss, dropped, 0)
	}
	return s.Neg(s.MeanAll(s.Sum(loss, 1, false)))
}

// positive returns a mask [rows, columns] on the device of the positives.
func (t rowTargets) positive(s *torch.Scope) *torch.Tensor { return t.mask(s, t.places) }
