package model

import (
	"math"

	"github.com/pairstream/pairstream/internal/torch"
)

// ImageRegions returns the local features of images encoded by [Model.Image]: [n, regions, embed]. It projects every patch
// and scales it to length one. Then it averages the patches of a region, and does not scale the average again. As in TCL,
// a grid of g x g patches has windows of c x c. Here c is the whole part of the root of g. It leaves out patches beyond
// the last whole window.
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

// TextTokens returns the local features of texts encoded by [Model.Text]: [n, length-1, embed]. They are unit vectors of
// the tokens behind [CLS], padding included.
func (m *Model) TextTokens(s *torch.Scope, hidden *torch.Tensor) *torch.Tensor {
	return locals(s, hidden, m.textProj)
}

// locals projects all tokens but the first and scales them to length one.
func locals(s *torch.Scope, x *torch.Tensor, projection linear) *torch.Tensor {
	return s.Normalize(projection.exact(s, s.Contiguous(s.Narrow(x, 1, 1, x.Size(1)-1))), -1, unitFloor)
}
