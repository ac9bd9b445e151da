package imaging

import (
	"math"
	"math/rand/v2"
)

// TCL's released code (create_dataset) sometimes changes colours, turns pictures grey and blurs them. These are its
// probabilities and ranges, those of MoCo v2.
const (
	jitterChance = 0.8
	jitterFactor = 0.4 // brightness, contrast and saturation vary within 1-0.4..1+0.4
	jitterHue    = 0.1 // of a turn of the circle of colours, in both directions
	greyChance   = 0.2
	blurChance   = 0.5
	blurLeast    = 0.1 // pixels, standard deviation
	blurMost     = 2.0
)

// change is one operation of a distortion.
type change int

// The operations of the jitter come first. Their order is drawn.
const (
	changeBrightness change = iota
	changeContrast
	changeSaturation
	changeHue
	changeGrey
	changeBlur
)

// changes is the number of operations of the jitter.
const changes = int(changeHue) + 1

// step is a change with its factor, its share of a turn, or its standard deviation.
type step struct {
	change change
	value  float64
}

// drawDistortion draws TCL's operations between crop and mirroring, in its order.
func drawDistortion(rng *rand.Rand) (steps []step) {
	within := func(low, high float64) float64 { return low + (high-low)*rng.Float64() }
	if rng.Float64() < jitterChance {
		var values [changes]float64
		order := rng.Perm(changes)
		for c := range changeHue {
			values[c] = within(1-jitterFactor, 1+jitterFactor)
		}
		values[changeHue] = within(-jitterHue, jitterHue)
		for _, c := range order {
			steps = append(steps, step{change(c), values[c]})
		}
	}
	if rng.Float64() < greyChance {
		steps = append(steps, step{change: changeGrey})
	}
	if rng.Float64() < blurChance {
		steps = append(steps, step{changeBlur, within(blurLeast, blurMost)})
	}
	return steps
}

// distort performs the steps in place, each as Pillow does: results between them are bytes.
func (im *Image) distort(steps []step) {
	for _, s := range steps {
		switch s.change {
		case changeBrightness:
			im.brighten(s.value)
		case changeContrast:
			im.contrast(float32(s.value))
		case changeSaturation:
			im.saturate(float32(s.value))
		case changeHue:
			im.turnHue(s.value)
		case changeGrey:
			im.saturate(0)
		case changeBlur:
			im.blur(s.value)
		}
	}
}

// mix interpolates between two values, and extrapolates beyond the second if share is above 1, as Pillow's Image.blend.
// The conversions keep a compiler from fusing the operations, so every machine rounds in the same way.
func mix(from, to byte, share float32) byte {
	return byte(min(255, max(0, float32(from)+float32(share*float32(int32(to)-int32(from))))))
}

// luma returns the grey of a pixel.
func luma(p []byte) byte { return byte(grey(int32(p[0]), int32(p[1]), int32(p[2]))) }

// contrast scales the distance of every value from the mean grey.
func (im *Image) contrast(factor float32) {
	sum := 0
	for p := im.Pix; len(p) >= 3; p = p[3:] {
		sum += int(luma(p))
	}
	middle := byte(float64(sum)/float64(im.W*im.H) + 0.5)
	var table [256]byte
	for v := range table {
		table[v] = mix(middle, byte(v), factor)
	}
	im.tune(&[3][256]byte{table, table, table})
}

// saturate scales the distance of every pixel from its own grey; by 0 the picture becomes grey.
func (im *Image) saturate(factor float32) {
	for p := im.Pix; len(p) >= 3; p = p[3:] {
		l := luma(p)
		p[0], p[1], p[2] = mix(l, p[0], factor), mix(l, p[1], factor), mix(l, p[2], factor)
	}
}

// turnHue turns the hues by a share of the circle, which has 256 places in Pillow's HSV.
func (im *Image) turnHue(share float64) {
	by := byte(int32(share * 255))
	for p := im.Pix; len(p) >= 3; p = p[3:] {
		h, s, v := toHSV(p[0], p[1], p[2])
		p[0], p[1], p[2] = fromHSV(h+by, s, v)
	}
}

// toHSV returns hue, saturation and value as bytes, rounded as Pillow does.
func toHSV(r, g, b byte) (h, s, v byte) {
	most, least := max(r, g, b), min(r, g, b)
	if most == least {
		return 0, 0, most
	}
	span := float32(most - least)
	below := func(c byte) float32 { return float32(most-c) / span }
	var place float32 // in sixths of a turn
	switch most {
	case r:
		place = below(b) - below(g)
	case g:
		place = float32(2 + float64(below(r)) - float64(below(b)))
	default:
		place = float32(4 + float64(below(g)) - float64(below(r)))
	}
	turn := float32(math.Mod(float64(place)/6+1, 1))
	return byte(float64(turn) * 255), byte(float64(span/float32(most)) * 255), most
}

// fromHSV returns the colour of a hue, a saturation and a value, rounded as Pillow does.
func fromHSV(h, s, v byte) (r, g, b byte) {
	if s == 0 {
		return v, v, v
	}
	place := float64(float32(h)) * 6 / 255
	sixth := int(place)
	rest := float64(float32(place - float64(sixth)))
	share := float64(float32(float64(s) / 255))
	fallen := func(by float64) byte { return byte(min(255, math.Round(float64(v)*(1-by)))) }
	p, q, t := fallen(share), fallen(float64(share*rest)), fallen(float64(share*(1-rest)))
	switch sixth % 6 {
	case 0:
		return v, t, p
	case 1:
		return q, v, p
	case 2:
		return p, v, t
	case 3:
		return p, q, v
	case 4:
		return t, p, v
	default:
		return v, p, q
	}
}
