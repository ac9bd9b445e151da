package imaging_test

import (
	"testing"

	"github.com/pairstream/pairstream/internal/testing/oddpictures"
)

// TestDecodesOddPictures holds the rule of odd pictures, which the Python package follows (clients/python,
// TestOddPictures).
func TestDecodesOddPictures(t *testing.T) {
	for _, p := range oddpictures.All(t, "testdata") {
		t.Run(p.Name, func(t *testing.T) {
			im := decode(t, p.Encoded)
			if im.W != oddpictures.Width || im.H != oddpictures.Height {
				t.Fatalf("%d x %d, want %d x %d", im.W, im.H, oddpictures.Width, oddpictures.Height)
			}
			for i, want := range p.Want {
				wantPixel(t, im, 16*(i%3)+8, 16*(i/3)+8, want, p.Within)
			}
		})
	}
}
