package imaging

import (
	"math"
	"math/rand/v2"
)

// AugmentOptions configure the random variation of a picture in training. The zero value changes nothing.
type AugmentOptions struct {
	Size     int     // pixels a side of the result; 0: those of the crop
	MinScale float64 // smallest share of the area that a random crop keeps, in (0, 1); 0 or 1: no crop
	Distort  bool    // sometimes change colours, turn grey and blur, as TCL does
	Flip     float64 // probability of mirroring left to right; 0 where captions speak of left and right
	Color    float64 // brightness, contrast and saturation vary by factors within 1-Color..1+Color
	Ops      int     // operations of [RandAugment]; 0: none
	Level    int     // their level, 0..10
}

// cropAttempts is how often a random shape is tried before the largest allowed crop from the middle is taken.
const cropAttempts = 10

// Augment returns a random variation of the picture; the same generator state gives the same one. The picture itself
// is not changed.
func Augment(im *Image, o AugmentOptions, rng *rand.Rand) *Image {
	x, y, w, h := 0, 0, im.W, im.H
	if o.MinScale > 0 && o.MinScale < 1 {
		x, y, w, h = randomCrop(im.W, im.H, o.MinScale, rng)
	}
	outW, outH := o.Size, o.Size
	if o.Size == 0 {
		outW, outH = w, h
	}
	out := resample(im.view(x, y, w, h), window{outW: outW, outH: outH, w: outW, h: outH})
	if o.Distort {
		out.distort(drawDistortion(rng))
	}
	if o.Flip > 0 && rng.Float64() < o.Flip {
		out.mirror()
	}
	if o.Color > 0 {
		out.jitter(factor(o.Color, rng), factor(o.Color, rng), factor(o.Color, rng))
	}
	if o.Ops > 0 {
		out = RandAugment(out, o.Ops, o.Level, rng)
	}
	return out
}

// widest is the largest width of a crop by its height, and the largest height by its width.
const widest = 4.0 / 3

// randomCrop draws a rectangle of minScale..1 of the area. Its shape is between 3:4 and 4:3; the logarithm of the ratio
// is uniform, so wide and high shapes are equally likely (RandomResizedCrop, as the authors use it).
func randomCrop(w, h int, minScale float64, rng *rand.Rand) (x, y, cw, ch int) {
	for range cropAttempts {
		area := float64(w*h) * (minScale + (1-minScale)*rng.Float64())
		ratio := math.Exp(math.Log(widest) * (2*rng.Float64() - 1))
		cw = int(math.Round(math.Sqrt(area * ratio)))
		ch = int(math.Round(math.Sqrt(area / ratio)))
		if cw >= 1 && ch >= 1 && cw <= w && ch <= h {
			return rng.IntN(w - cw + 1), rng.IntN(h - ch + 1), cw, ch
		}
	}
	// The picture is longer than the shapes allow: keep the whole short side.
	cw, ch = min(w, max(1, h*4/3)), min(h, max(1, w*4/3))
	return (w - cw) / 2, (h - ch) / 2, cw, ch
}

// factor draws from 1-strength..1+strength, as a number with 16 binary places.
func factor(strength float64, rng *rand.Rand) int32 {
	return int32(math.Round((1 + strength*(2*rng.Float64()-1)) * (1 << 16)))
}

// jitter scales brightness, then the distance of every pixel from the mean grey (contrast), then its distance from its
// own grey (saturation), in place.
func (im *Image) jitter(brightness, contrast, saturation int32) {
	var lut [256]int32
	for v := range lut {
		lut[v] = clampByte(scaled(int32(v), brightness))
	}
	var total int64
	for p := im.Pix; len(p) >= 3; p = p[3:] {
		total += int64(grey(lut[p[0]], lut[p[1]], lut[p[2]]))
	}
	mean := int32(total / int64(im.W*im.H))
	for v := range lut {
		lut[v] = clampByte(mean + scaled(lut[v]-mean, contrast))
	}
	for p := im.Pix; len(p) >= 3; p = p[3:] {
		r, g, b := lut[p[0]], lut[p[1]], lut[p[2]]
		l := grey(r, g, b)
		p[0] = byte(clampByte(l + scaled(r-l, saturation)))
		p[1] = byte(clampByte(l + scaled(g-l, saturation)))
		p[2] = byte(clampByte(l + scaled(b-l, saturation)))
	}
}

func scaled(v, factor int32) int32 { return (v*factor + 1<<15) >> 16 }

// grey returns the luma of ITU-R BT.601, whose weights are given here in 1/2^16.
func grey(r, g, b int32) int32 { return (19595*r + 38470*g + 7471*b + 1<<15) >> 16 }

func clampByte(v int32) int32 { return min(255, max(0, v)) }
