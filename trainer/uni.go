package trainer

import "github.com/pairstream/pairstream/internal/model/torch"

// UniReading names a reading of the uni-modal loss, GPN-S eq. 10. The loss is -log of exp(v.pos/tau) over a sum. The
// paper prints a sum over the images of the batch, with the anchor and without the positive.
type UniReading string

const (
	// UniInfoNCE sums over the positive and the other images of the batch. It is the usual form, and the default.
	UniInfoNCE UniReading = "infonce"
	// UniPrinted sums over all images of the batch, as printed; the anchor's own exp(1/tau) dominates it.
	UniPrinted UniReading = "printed"
	// UniWithPositive adds the positive to the printed sum.
	UniWithPositive UniReading = "with_pos"
)

func (u UniReading) valid() bool {
	return u == UniInfoNCE || u == UniPrinted || u == UniWithPositive
}

// loss returns the mean of GPN-S eq. 10 over the batch.
func (u UniReading) loss(s *torch.Scope, image, positive, temperature *torch.Tensor) *torch.Tensor {
	return s.MeanAll(u.rows(s, image, positive, temperature))
}

// rows returns GPN-S eq. 10 for every anchor, with unit features. It pulls the image to its positive, against the other
// images of the batch. Gradients reach all of them, and the temperature.
func (u UniReading) rows(s *torch.Scope, image, positive, temperature *torch.Tensor) *torch.Tensor {
	n := image.Shape()[0]
	near := s.Div(s.Sum(s.Mul(image, positive), 1, true), temperature)      // [n, 1]
	others := s.Div(s.MatMul(image, s.Transpose(image, 0, 1)), temperature) // [n, n]
	switch u {
	case UniPrinted:
		// The logarithm of a row's sum of exponentials is any entry less that entry's log softmax.
		sum := s.Sub(s.Diagonal(others), s.Diagonal(s.LogSoftmax(others, 1)))
		return s.Sub(sum, s.Reshape(near, n))
	case UniInfoNCE:
		self := make([]bool, n*n)
		for i := range n {
			self[i*n+i] = true
		}
		others = s.MaskedFill(others, s.Bools(self, n, n), outOfRow)
	case UniWithPositive:
	}
	return s.Neg(s.Select(s.LogSoftmax(s.Cat(1, near, others), 1), 1, 0))
}
