package model_test

import (
	"context"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// What a forward pass leaves in its scope does not grow with the number of layers.
func TestForwardKeepsNoIntermediates(t *testing.T) {
	w := worker(t)
	left := func(depth int) (image, text int64) {
		c := smallConfig()
		c.VisionDepth, c.FusionLayer, c.TextLayers = depth, depth, depth+1
		m := newModel(t, w, c, 3)
		b := newBatch(c, 2)
		must.Do(t, w.Do(context.Background(), func(s *torch.Scope) error {
			pixels := s.Float32s(b.pixels, 2, 3, int64(c.ImageSize), int64(c.ImageSize))
			ids, mask := s.Int64s(b.ids, 2, int64(c.TextTokens)), s.Int64s(b.mask, 2, int64(c.TextTokens))
			before := torch.Live()
			m.Image(s, pixels)
			image = torch.Live() - before
			m.Text(s, ids, mask)
			text = torch.Live() - before - image
			return nil
		}))
		return image, text
	}
	image, text := left(1)
	if deepImage, deepText := left(3); deepImage != image || deepText != text {
		t.Errorf("%d and %d tensors are left of three layers, of one layer %d and %d", deepImage, deepText, image, text)
	}
}
