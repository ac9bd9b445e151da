package trainer

import "github.com/pairstream/pairstream/internal/torch"

// outOfRow replaces the similarity of a candidate that is taken out of a row. Its share of any softmax is then exactly 0.
// 0 times its logarithm is 0, which minus infinity would not give.
const outOfRow = -1e9

// direction is one of the two ways to contrast, image to text or text to image. It has a row per anchor and a column per
// candidate.
type direction struct {
	sim     *torch.Tensor // similarity / temperature; the loss's gradient ends here
	hard    *torch.Tensor // row targets before softening, each row summing to 1
	drop    *torch.Tensor // Bool: candidates out of their rows; nil: none
	teacher *torch.Tensor // similarity / temperature of the momentum model, for Distilled; else nil
}

// similarities compares anchors with keys, both of unit rows. The keys are constants, as in the authors' code. So the
// gradient of image-to-text reaches the image features alone, and that of text-to-image the text features. Both reach the
// temperature.
func similarities(s *torch.Scope, anchors, keys, temperature *torch.Tensor) *torch.Tensor {
	return s.Div(s.MatMul(anchors, s.Transpose(s.Detach(keys), 0, 1)), temperature)
}

// loss returns half the sum over both directions of the mean over rows of -sum(target * log softmax(row)). alpha is the
// share of the soft part, if there is one.
func (o ITCOptions) loss(s *torch.Scope, i2t, t2i direction, alpha float64) *torch.Tensor {
	total := s.Add(o.half(s, i2t, t2i, alpha), o.half(s, t2i, i2t, alpha))
	return s.MulScalar(total, 0.5)
}

func (o ITCOptions) half(s *torch.Scope, d, other direction, alpha float64) *torch.Tensor {
	soft := o.soft(s, d, other)
	target := o.targets(s, d, soft, alpha)
	loss := rowCrossEntropy(s, target, s.LogSoftmax(masked(s, d.sim, d.drop), 1))
	if o.Targets == Consistency && o.ReportKL {
		entropy := rowCrossEntropy(s, soft, s.LogSoftmax(masked(s, s.Detach(other.sim), d.drop), 1))
		loss = s.Sub(loss, s.MulScalar(entropy, o.Lambda))
	}
	return loss
}

// soft returns the constant that softens the rows of d; nil when nothing does.
func (o ITCOptions) soft(s *torch.Scope, d, other direction) *torch.Tensor {
	switch o.Targets {
	case Consistency:
		if o.Form == Literal {
			p := s.Transpose(s.Softmax(s.Detach(other.sim), 1), 0, 1)
			if d.drop != nil {
				p = s.MaskedFill(p, d.drop, 0)
			}
			return p
		}
		return s.Softmax(masked(s, s.Detach(other.sim), d.drop), 1)
	case Distilled:
		return s.Softmax(masked(s, s.Detach(d.teacher), d.drop), 1)
	case Smoothed:
		// This is the softmax of equal scores: every candidate that is in the row has the same share.
		return s.Softmax(masked(s, s.Zeros(d.sim.DType(), d.sim.Shape()...), d.drop), 1)
	case OneHot:
	}
	return nil
}

// targets softens the hard targets.
func (o ITCOptions) targets(s *torch.Scope, d direction, soft *torch.Tensor, alpha float64) *torch.Tensor {
	share := alpha
	switch o.Targets {
	case OneHot:
		return d.hard
	case Consistency:
		share = o.Lambda
		if o.Form == Additive {
			return s.Add(d.hard, s.MulScalar(soft, share))
		}
	case Smoothed, Distilled:
	}
	if share == 0 {
		return d.hard
	}
	return s.Add(s.MulScalar(d.hard, 1-share), s.MulScalar(soft, share))
}

// alpha returns the share of the soft part at a step, in a batch of the given epoch.
func (o ITCOptions) alpha(epoch int32, step int64) float64 {
	switch o.Targets {
	case Smoothed:
		if epoch < o.SoftFromEpoch {
			return 0
		}
	case Distilled:
		return o.ramp(o.Alpha, step)
	case OneHot, Consistency:
	}
	return o.Alpha
}

// ramp raises a share from 0 over the first AlphaRampSteps.
func (o ITCOptions) ramp(share float64, step int64) float64 {
	if step < o.AlphaRampSteps {
		return share * float64(step) / float64(o.AlphaRampSteps)
	}
	return share
}

// mlmShare returns the share of the distilled part of MLM at a step.
func (o Options) mlmShare(step int64) float64 { return o.ITC.ramp(o.MLMDistill, step) }

func masked(s *torch.Scope, sim, drop *torch.Tensor) *torch.Tensor {
	if drop == nil {
		return sim
	}
	return s.MaskedFill(sim, drop, outOfRow)
}

// rowCrossEntropy returns the mean over rows of -sum(target * logProb).
func rowCrossEntropy(s *torch.Scope, target, logProb *torch.Tensor) *torch.Tensor {
	return s.Neg(s.MeanAll(s.Sum(s.Mul(target, logProb), 1, false)))
}
