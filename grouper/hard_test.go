package grouper

import (
	"cmp"
	"context"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// hardByDefinition sorts all candidates of every sample.
func hardByDefinition(anchors, others *dotproduct.Matrix, image []int32, m int) []int32 {
	var out []int32
	n := anchors.Rows()
	for i := range n {
		scores := make([]float32, n)
		dotproduct.Block(scores, anchors, i, 1, others, 0, n)
		var candidates []int32
		for j := range int32(n) {
			if image[j] != image[i] {
				candidates = append(candidates, j)
			}
		}
		slices.SortStableFunc(candidates, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
		candidates = append(candidates, slices.Repeat([]int32{-1}, m)...)
		out = append(out, candidates[:m]...)
	}
	return out
}

func TestHardCandidates(t *testing.T) {
	pairsOf := func(n, captions int) []int32 {
		image := make([]int32, n)
		for i := range image {
			image[i] = int32(i / captions)
		}
		return image
	}
	for name, c := range map[string]struct {
		image  []int32
		m      int
		spread float64
	}{
		"two":                      {distinct(96), 2, 1},
		"all others":               {distinct(40), 39, 1},
		"ties":                     {distinct(40), 5, 0},
		"partners are left out":    {pairsOf(30, 5), 29, 0.5},
		"more than there are":      {pairsOf(6, 2), 9, 1},
		"one sample":               {distinct(1), 1, 1},
		"one image":                {pairsOf(5, 5), 2, 1},
		"several tiles of samples": {pairsOf(600, 3), 3, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			n := len(c.image)
			v, tt := features(n, 10, 4, c.spread, 1), features(n, 10, 4, c.spread, 2)
			i2t, t2i := must.Get2(HardCandidates(context.Background(), v, tt, c.image, c.m))(t)
			if want := hardByDefinition(v, tt, c.image, c.m); !slices.Equal(i2t, want) {
				t.Errorf("image to text: got %d\nwant %d", i2t, want)
			}
			if want := hardByDefinition(tt, v, c.image, c.m); !slices.Equal(t2i, want) {
				t.Errorf("text to image: got %d\nwant %d", t2i, want)
			}
		})
	}
	if i2t, t2i, err := HardCandidates(context.Background(), dotproduct.NewMatrix(3, 2), dotproduct.NewMatrix(3, 2), distinct(3), 0); i2t != nil || t2i != nil || err != nil {
		t.Errorf("no candidates: got %v, %v, %v", i2t, t2i, err)
	}
}

func TestPartners(t *testing.T) {
	got := Partners([]int32{7, 3, 7, 4, 7, 3})
	want := [][]int32{{2, 4}, {5}, {0, 4}, nil, {0, 2}, {1}}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("sample %d: partners %d, want %d", i, got[i], want[i])
		}
	}
}
