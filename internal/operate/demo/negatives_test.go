package demo

import (
	"context"
	"testing"

	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// Of three pictures the first two show a red circle. For the first picture the second caption is the hardest, and true.
// For the second picture the third caption is, and true as well.
func TestFalseNegativesAreCounted(t *testing.T) {
	circle := scenes.Object{Shape: "circle", Colour: "red", Size: "large"}
	star := scenes.Object{Shape: "star", Colour: "blue", Size: "large"}
	shows := map[schemas.ImageID]scenes.Scene{
		{1}: {Objects: []scenes.Object{circle}}, {2}: {Objects: []scenes.Object{circle, star}}, {3}: {Objects: []scenes.Object{star}},
	}
	truth := &truth{knowledge: knowledge{fits: func(id schemas.ImageID, caption string) bool { return scenes.Matches(shows[id], caption) }}}
	embedding := func(image byte, caption string, v, u [2]float32) *schemas.Embedding {
		return &schemas.Embedding{
			ID: schemas.PairID{image}, ImageID: schemas.ImageID{image}, Caption: caption, V: schemas.NewFloat16s(v[:]), T: schemas.NewFloat16s(u[:]),
		}
	}
	batch := []*schemas.Embedding{
		embedding(1, "a red circle", [2]float32{1, 0}, [2]float32{1, 0}),
		embedding(2, "a large red circle", [2]float32{0, 1}, [2]float32{0.8, 0.6}),
		embedding(3, "a blue star", [2]float32{0.6, 0.8}, [2]float32{0.6, 0.8}),
	}
	var n negatives
	must.Do(t, truth.hardest(context.Background(), &n, batch, map[[2]int32]bool{{0, 1}: true, {2, 1}: true}))
	// Images: 1 takes caption 2 (0.8 against 0.6), true. 2 takes caption 3 (0.8 against 0), true: it shows a star. 3 takes
	// caption 2 (0.96 against 0.6), false. Captions: 1 takes image 3 (0.6 against 0), false. 2 takes image 3 (0.96 against
	// 0.8), false. 3 takes image 2 (0.8 against 0.6), true.
	// Con-D has confirmed caption 2 for image 1. What it confirmed wrongly is no false negative, and none is left of it.
	if n.all != 6 || n.untrue != 3 || n.left != 2 || n.remaining() != 100.0/3 {
		t.Errorf("%d of %d hardest negatives are true of their picture, want 3 of 6", n.untrue, n.all)
	}
	found := members(map[schemas.PairID]*schemas.Embedding{{1}: batch[0]}, []schemas.Sample{{ID: schemas.PairID{1}}, {ID: schemas.PairID{9}}})
	if len(found) != 1 || found[0] != batch[0] {
		t.Errorf("members are %v, want the first", found)
	}
	if err := truth.hardest(context.Background(), &n, nil, nil); err != nil || n.all != 6 {
		t.Errorf("an empty mini-batch counts: %+v, %v", n, err)
	}
}
