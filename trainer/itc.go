package trainer

import (
	"slices"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// outOfRow replaces the similarity of a candidate that is taken out of a row. Its share of any softmax is then exactly
// 0. 0 times its logarithm is 0, which minus infinity would not give.
const outOfRow = -1e9

// direction is one of the two ways to contrast, image to text or text to image. It has a row per anchor and a column
// per candidate.
type direction struct {
	sim     *torch.Tensor // similarity / temperature; the loss's gradient ends here
	hard    *torch.Tensor // row targets before softening, each row summing to 1
	drop    *torch.Tensor // Bool: candidates out of their rows; nil: none
	teacher *torch.Tensor // similarity / temperature of the momentum model, for Distilled; else nil
}

// similarities compares anchors with keys, both of unit rows. The keys are constants, as in the authors' code. So the
// gradient of image-to-text reaches the image features alone, and that of text-to-image the text features. Both reach
// the temperature.
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

// rowTargets are one direction's hard targets. They have a row per anchor, and a column per sample of the batch and
// then per entry of the queue. Few elements are not 0, and only those travel to the device: a queue of 65,536 makes 50
// MB of zeros for 96 anchors.
type rowTargets struct {
	rows, columns int
	places        []int64   // row*columns + column of each element that is not 0
	values        []float64 // of these; those of a row sum to 1
	drop          []int64   // places that [ECMOptions.Eliminate] takes out of a row
}

// hardTargets returns the targets before any softening. An anchor's row is shared equally by its own pair, its
// connection, and the samples and queue entries that show the same image (these as in ALBEF's retrieval fine-tuning). A
// connection is not mirrored into the other direction's rows, as in both MAFA's paper and its code.
func hardTargets(samples []schemas.Sample, queue []schemas.ImageID, picks []pick, ecm ECMOptions) rowTargets {
	n := len(samples)
	t := rowTargets{rows: n, columns: n + len(queue)}
	queued := queuedOf(samples, queue)
	for anchor, sample := range samples {
		columns := []int{anchor}
		for _, j := range sample.Partners {
			columns = append(columns, int(j))
		}
		for _, j := range queued[sample.ImageID] {
			columns = append(columns, n+j)
		}
		first := int64(anchor * t.columns)
		if k := picks[anchor]; k.class == Connection && ecm.ITC {
			if ecm.Eliminate {
				t.drop = append(t.drop, first+int64(k.hardest))
			} else {
				columns = append(columns, int(k.hardest))
			}
		}
		slices.Sort(columns)
		columns = slices.Compact(columns)
		for _, j := range columns {
			t.places, t.values = append(t.places, first+int64(j)), append(t.values, 1/float64(len(columns)))
		}
	}
	return t
}

// queuedOf lists the entries of the queue that show an image of the batch.
func queuedOf(samples []schemas.Sample, queue []schemas.ImageID) map[schemas.ImageID][]int {
	found := make(map[schemas.ImageID][]int, len(samples))
	for i := range samples {
		found[samples[i].ImageID] = nil
	}
	for j, id := range queue {
		if at, wanted := found[id]; wanted {
			found[id] = append(at, j)
		}
	}
	return found
}

// hard makes the targets on the device: [rows, columns].
func (t rowTargets) hard(s *torch.Scope, dtype torch.DType) *torch.Tensor {
	x := s.Zeros(dtype, int64(t.rows*t.columns))
	n := int64(len(t.places))
	x.IndexAdd(0, s.Int64s(t.places, n), s.To(s.Float64s(t.values, n), dtype))
	return s.Reshape(x, int64(t.rows), int64(t.columns))
}

// dropped returns a mask [rows, columns] on the device of the entries that are excluded from their rows; nil: none.
func (t rowTargets) dropped(s *torch.Scope) *torch.Tensor {
	if len(t.drop) == 0 {
		return nil
	}
	return t.mask(s, t.drop)
}

// mask returns [rows, columns], Bool, true at the given places.
func (t rowTargets) mask(s *torch.Scope, places []int64) *torch.Tensor {
	x := s.Zeros(torch.Bool, int64(t.rows*t.columns))
	x.IndexFill(0, s.Int64s(places, int64(len(places))), 1)
	return s.Reshape(x, int64(t.rows), int64(t.columns))
}
