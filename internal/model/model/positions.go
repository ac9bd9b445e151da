package model

import (
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/model/safetensors"
)

const positionsName = "visual_encoder.pos_embed"

// resizePositions returns the position embeddings [1, 1 + old x old, dim] of an image encoder for side x side patches,
// as ALBEF resizes them before it fine-tunes on larger images. The class token keeps its own. The patches' are
// interpolated by PyTorch's bicubic filter: a = -0.75, corners not aligned, edges repeated.
func resizePositions(t safetensors.Tensor, side int) (safetensors.Tensor, error) {
	if len(t.Shape) != 3 || t.Shape[1] < 2 {
		return t, fmt.Errorf("has shape %s, want 1 x positions x width", shapeString(t.Shape))
	}
	old, dim := sideOf(int(t.Shape[1])-1), int(t.Shape[2])
	switch {
	case old*old != int(t.Shape[1])-1:
		return t, fmt.Errorf("has %d positions of patches, which are no square", t.Shape[1]-1)
	case old == side:
		return t, nil
	}
	values, err := t.Float32s()
	if err != nil {
		return t, err
	}
	out := make([]float32, (1+side*side)*dim)
	copy(out, values[:dim])
	taps := cubicTaps(old, side)
	for y := range side {
		for x := range side {
			to := out[(1+y*side+x)*dim:][:dim]
			for _, row := range taps[y] {
				for _, column := range taps[x] {
					from, weight := values[(1+row.at*old+column.at)*dim:][:dim], row.weight*column.weight
					for i, v := range from {
						to[i] += float32(weight * float64(v))
					}
				}
			}
		}
	}
	return safetensors.FromFloat32s(out, 1, int64(1+side*side), int64(dim)), nil
}

type tap struct {
	at     int
	weight float64
}

// cubicTaps returns, for each of side places, the four of old places that it is interpolated from.
func cubicTaps(old, side int) [][4]tap {
	const a = -0.75
	weight := func(d float64) float64 {
		if d = math.Abs(d); d <= 1 {
			return ((a+2)*d-(a+3))*d*d + 1
		}
		return ((a*d-5*a)*d+8*a)*d - 4*a
	}
	taps := make([][4]tap, side)
	for i := range taps {
		at := (float64(i)+0.5)*float64(old)/float64(side) - 0.5
		below := math.Floor(at)
		for k := range taps[i] {
			place := int(below) + k - 1
			taps[i][k] = tap{min(max(place, 0), old-1), weight(at - float64(place))}
		}
	}
	return taps
}
