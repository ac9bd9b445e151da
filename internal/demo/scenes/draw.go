package scenes

import (
	"image"
	"image/color"
	"math"

	"golang.org/x/image/vector"
)

// palette holds the drawn colours.
var palette = map[Colour][3]int{
	"red": {216, 38, 38}, "orange": {250, 138, 20}, "yellow": {248, 214, 36}, "green": {38, 156, 66},
	"blue": {38, 88, 208}, "purple": {136, 58, 178}, "pink": {246, 128, 184}, "black": {44, 44, 48},
}

// lineWidth is the width of the dark line around objects, in units.
const lineWidth = 13

// Draw paints the scene on a picture of side x side pixels.
func (s Scene) Draw(side int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, side, side))
	for y := range side {
		for x := range side {
			light := (s.Slope[0]*(2*x-side) + s.Slope[1]*(2*y-side)) / (2 * side)
			at := m.PixOffset(x, y)
			for c, v := range s.Background {
				m.Pix[at+c] = clamp(v + light)
			}
			m.Pix[at+3] = 255
		}
	}
	b := &brush{target: m, raster: vector.NewRasterizer(side, side), scale: float32(side) / Unit}
	for _, o := range s.Objects {
		b.draw(o)
	}
	return m
}

func clamp(v int) uint8 { return uint8(min(255, max(0, v))) }

// point is a position in units.
type point struct{ x, y float64 }

// brush fills outlines on a picture.
type brush struct {
	target *image.RGBA
	raster *vector.Rasterizer
	scale  float32 // pixels a unit
}

// draw paints an object in a darker shade of its colour and, inside of that, in the colour itself.
func (b *brush) draw(o Object) {
	fill, line := color.RGBA{A: 255}, color.RGBA{A: 255}
	for c, ch := range [3][2]*uint8{{&fill.R, &line.R}, {&fill.G, &line.G}, {&fill.B, &line.B}} {
		v := palette[o.Colour][c] + o.Shade
		*ch[0], *ch[1] = clamp(v), clamp(v*6/10)
	}
	outlines := o.outlines()
	for _, layer := range []struct {
		inset float64
		paint image.Image
	}{{0, image.NewUniform(line)}, {lineWidth, b.paint(o, fill)}} {
		b.raster.Reset(b.target.Rect.Dx(), b.target.Rect.Dy())
		for _, path := range outlines {
			b.add(inset(path, layer.inset))
		}
		b.raster.Draw(b.target, b.target.Rect, layer.paint, image.Point{})
	}
}

// paint returns the filling of an object.
func (b *brush) paint(o Object, fill color.RGBA) image.Image {
	if o.Pattern == "" {
		return image.NewUniform(fill)
	}
	light := color.RGBA{A: 255}
	for _, ch := range [][2]*uint8{{&fill.R, &light.R}, {&fill.G, &light.G}, {&fill.B, &light.B}} {
		*ch[1] = clamp((int(*ch[0]) + 2*255) / 3)
	}
	return &patterned{object: o, fill: fill, light: light, bounds: b.target.Rect, unit: 1 / float64(b.scale)}
}

// patterned is an endless picture of stripes or spots, in a colour and a lighter one.
type patterned struct {
	object      Object
	fill, light color.RGBA
	bounds      image.Rectangle
	unit        float64 // units a pixel
}

// ColorModel implements image.Image.
func (p *patterned) ColorModel() color.Model { return color.RGBAModel }

// Bounds implements image.Image.
func (p *patterned) Bounds() image.Rectangle { return p.bounds }

// period is the distance of stripes and spots, in units.
const period = 90

// At implements image.Image.
func (p *patterned) At(x, y int) color.Color {
	dx, dy := (float64(x)+0.5)*p.unit-float64(p.object.X), (float64(y)+0.5)*p.unit-float64(p.object.Y)
	across, down := fromMiddle(dx), fromMiddle(dy)
	if p.object.Pattern == "striped" && down > period/4 || p.object.Pattern == "spotted" && math.Hypot(across, down) < period*0.3 {
		return p.light
	}
	return p.fill
}

// fromMiddle returns the distance of a position from the middle between two stripes.
func fromMiddle(d float64) float64 { return math.Abs(math.Mod(math.Abs(d), period) - period/2) }

func (b *brush) add(path []point) {
	for i, p := range path {
		x, y := float32(p.x)*b.scale, float32(p.y)*b.scale
		if i == 0 {
			b.raster.MoveTo(x, y)
		} else {
			b.raster.LineTo(x, y)
		}
	}
	b.raster.ClosePath()
}

// outlines returns the closed paths that bound an object: clockwise those with the object inside, counter-clockwise
// those around a hole.
func (o Object) outlines() [][]point {
	r := float64(radii[o.Size])
	switch o.Shape {
	case "circle":
		return [][]point{o.regular(48, 0.92*r, 0.92*r)}
	case "ring":
		return [][]point{o.regular(48, 0.97*r, 0.97*r), reversed(o.regular(48, 0.5*r, 0.5*r))}
	case "square":
		return [][]point{o.regular(4, r, r)}
	case "triangle":
		return [][]point{o.regular(3, 1.05*r, 1.05*r)}
	case "star":
		return [][]point{o.regular(10, 1.05*r, 0.48*r)}
	case "cross":
		return [][]point{o.cross(0.95*r, 0.31*r)}
	default:
		return o.silhouette(r)
	}
}

// regular returns n corners around the centre, the even ones at distance even, the others at distance odd. One corner
// is at the top, except for the square, which has a side there.
func (o Object) regular(n int, even, odd float64) []point {
	start := -90.0
	if o.Shape == "square" {
		start = -45
	}
	path := make([]point, n)
	for i := range path {
		r := even
		if i%2 == 1 {
			r = odd
		}
		sin, cos := math.Sincos((start + float64(o.Angle) + 360*float64(i)/float64(n)) * math.Pi / 180)
		path[i] = point{float64(o.X) + r*cos, float64(o.Y) + r*sin}
	}
	return path
}

// cross returns the twelve corners of two bars of half length a and half width w.
func (o Object) cross(a, w float64) []point {
	sin, cos := math.Sincos(float64(o.Angle) * math.Pi / 180)
	corners := []point{
		{-w, -a}, {w, -a}, {w, -w}, {a, -w}, {a, w}, {w, w}, {w, a}, {-w, a}, {-w, w}, {-a, w}, {-a, -w}, {-w, -w},
	}
	for i, p := range corners {
		corners[i] = point{float64(o.X) + p.x*cos - p.y*sin, float64(o.Y) + p.x*sin + p.y*cos}
	}
	return corners
}

func reversed(path []point) []point {
	out := make([]point, len(path))
	for i, p := range path {
		out[len(path)-1-i] = p
	}
	return out
}

// inset moves every edge of a path by d to its right, which is the inside of a clockwise path on a picture.
func inset(path []point, d float64) []point {
	n := len(path)
	out := make([]point, n)
	for i, p := range path {
		a, b := normal(path[(i+n-1)%n], p), normal(p, path[(i+1)%n])
		// The corner moves along the sum of both edges' normals, far enough to be d from both, unless it is very sharp.
		f := d / max(1+a.x*b.x+a.y*b.y, 0.2)
		out[i] = point{p.x + f*(a.x+b.x), p.y + f*(a.y+b.y)}
	}
	return out
}

// normal returns the unit vector to the right of the direction from p to q, on a picture, whose y grows downwards.
func normal(p, q point) point {
	dx, dy := q.x-p.x, q.y-p.y
	l := math.Hypot(dx, dy)
	return point{-dy / l, dx / l}
}
