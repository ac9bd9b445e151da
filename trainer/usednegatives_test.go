package trainer

import (
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/schemas"
)

// Texts 0, 1, 2 lie ever farther from image 0. The step's rules decide which one is a negative.
func TestUsedNegatives(t *testing.T) {
	block := &schemas.FeatureBlock{
		Positions: schemas.Int32s{0, 1, 2}, Dim: 2,
		V: schemas.NewFloat16s([]float32{1, 0, 0, 1, 0.6, 0.8}), T: schemas.NewFloat16s([]float32{1, 0, 0.8, 0.6, 0, 1}),
	}
	scored := func(probability float32) *schemas.ScoredBatch {
		b := &schemas.ScoredBatch{Batch: schemas.Batch{Samples: make([]schemas.Sample, 3), M: 2}}
		b.I2T, b.T2I = schemas.Int32s{1, 2, 0, 2, 0, 1}, schemas.Int32s{1, 2, 0, 2, 0, 1}
		b.ProbI2T = schemas.Floats32{probability, 0, 0, 0, 0, 0}
		b.ProbT2I = make(schemas.Floats32, 6)
		return b
	}
	for name, c := range map[string]struct {
		probability float32
		itm         bool
		masked      []schemas.Mask
		want        int32
	}{
		"a negative":              {0.1, true, nil, 1},
		"an ambiguous one":        {0.8, true, nil, 2},
		"a connection":            {0.9, true, nil, -1},
		"connections are off":     {0.9, false, nil, 1},
		"the hardest has no part": {0.1, true, []schemas.Mask{{Sample: 1}}, 2},
		"the anchor has no part":  {0.1, true, []schemas.Mask{{Sample: 0}}, -1},
	} {
		o := MAFA()
		o.ECM.ITM = c.itm
		block.Masked = c.masked
		ofImage, ofText, err := UsedNegatives(scored(c.probability), block, o)
		if err != nil || ofImage[0] != c.want || len(ofText) != 3 {
			t.Errorf("%s: %v and %v, want %d first (%v)", name, ofImage, ofText, c.want, err)
		}
	}
	block.Masked = nil
	_, ofText, err := UsedNegatives(scored(0.1), block, MAFA())
	if want := []int32{2, 2, 1}; err != nil || !slices.Equal(ofText, want) {
		t.Errorf("images of the texts are %v, want %v (%v)", ofText, want, err)
	}
	o := MAFA()
	o.ITMNegatives = MultinomialNegatives
	if _, _, err := UsedNegatives(scored(0.1), block, o); err == nil || !strings.Contains(err.Error(), "ITMNegatives is") {
		t.Errorf("drawn negatives: %v", err)
	}
}
