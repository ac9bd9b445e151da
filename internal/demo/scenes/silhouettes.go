package scenes

import "math"

// silhouettes holds the outlines of things, in hundredths of the object's radius around its centre, with y downwards.
// Parts may overlap. A hole is drawn in the other direction.
var silhouettes = map[Shape][]part{
	"heart":     {disc(-38, -28, 46), disc(38, -28, 46), poly(-82, -12, 82, -12, 0, 92)},
	"arrow":     {poly(-92, -26, 8, -26, 8, -68, 98, 0, 8, 68, 8, 26, -92, 26)},
	"moon":      {crescent(92, 52)},
	"house":     {poly(-95, -8, 0, -95, 95, -8), box(-70, -10, 70, 78), hole(box(-22, 20, 22, 78))},
	"tree":      {poly(0, -102, 78, 48, -78, 48), box(-20, 44, 20, 98)},
	"car":       {box(-98, -5, 98, 42), poly(-62, -3, -36, -50, 40, -50, 66, -3), disc(-52, 46, 27), disc(52, 46, 27)},
	"boat":      {poly(-98, 22, 98, 22, 60, 78, -60, 78), poly(-6, -95, -6, 12, -78, 12), poly(16, -72, 16, 12, 74, 12)},
	"fish":      {oval(-18, 0, 76, 46), poly(38, 0, 96, -52, 96, 52)},
	"cup":       {box(-75, -62, 38, 75), disc(48, 4, 46), hole(disc(48, 4, 21))},
	"key":       {disc(-52, 0, 46), hole(disc(-52, 0, 20)), box(-14, -17, 98, 17), box(42, 14, 64, 52), box(76, 14, 98, 52)},
	"flower":    append(petals(5, 56, 38), hole(disc(0, 0, 20))),
	"mushroom":  {dome(92, 62, 10), box(-27, 5, 27, 88)},
	"umbrella":  {dome(98, 88, 5), box(-13, 0, 13, 98)},
	"ladder":    {box(-58, -88, -30, 88), box(30, -88, 58, 88), box(-32, -62, 32, -38), box(-32, -12, 32, 12), box(-32, 38, 32, 62)},
	"hammer":    {box(-74, -84, 74, -36), box(-19, -40, 19, 100)},
	"bottle":    {box(-21, -100, 21, -45), poly(-21, -52, 21, -52, 50, -8, 50, 86, -50, 86, -50, -8)},
	"lamp":      {poly(-36, -92, 36, -92, 80, -4, -80, -4), box(-15, -6, 15, 70), box(-55, 62, 55, 90)},
	"chair":     {box(-62, -85, -32, 85), box(-60, 2, 62, 32), box(32, 28, 62, 85)},
	"table":     {box(-95, -44, 95, -10), box(-84, -14, -52, 66), box(52, -14, 84, 66)},
	"hat":       {box(-96, 32, 96, 62), box(-52, -66, 52, 36)},
	"shoe":      {poly(-60, -82, 2, -82, 4, 2, 78, 26, 78, 70, -60, 70)},
	"cloud":     {disc(-50, 14, 42), disc(0, -20, 52), disc(52, 12, 42), box(-52, 14, 54, 56)},
	"kite":      {poly(0, -102, 62, -18, 0, 100, -62, -18)},
	"rocket":    {poly(0, -104, 36, -52, 36, 62, -36, 62, -36, -52), poly(32, 4, 76, 70, 32, 62), poly(-32, 4, -32, 62, -76, 70)},
	"flag":      {box(-72, -72, -44, 100), box(-46, -70, 82, 12)},
	"bird":      {oval(-4, 16, 60, 38), disc(50, -32, 30), poly(70, -48, 104, -28, 70, -12), poly(-46, 2, -100, -26, -92, 36)},
	"cat":       {disc(0, 18, 70), poly(-68, 6, -62, -82, -8, -44), poly(68, 6, 8, -44, 62, -82)},
	"bell":      {poly(-30, -84, 30, -84, 54, 26, 88, 52, -88, 52, -54, 26), disc(0, 66, 24)},
	"book":      {poly(-92, -56, -5, -38, -5, 74, -92, 54), poly(92, -56, 92, 54, 5, 74, 5, -38)},
	"leaf":      {lens(100, 46)},
	"candle":    {box(-29, -28, 29, 95), poly(0, -102, 25, -58, 0, -36, -25, -58)},
	"snowman":   {disc(0, 52, 48), disc(0, -22, 37), disc(0, -74, 28)},
	"window":    {box(-72, -72, 72, 72), hole(box(-50, -50, -12, -12)), hole(box(12, -50, 50, -12)), hole(box(-50, 12, -12, 50)), hole(box(12, 12, 50, 50))},
	"crown":     {poly(-80, 64, -92, -46, -44, 6, 0, -78, 44, 6, 92, -46, 80, 64)},
	"butterfly": {disc(-50, -34, 46), disc(50, -34, 46), disc(-42, 44, 38), disc(42, 44, 38), oval(0, 2, 16, 80)},
}

// part is a closed path of a silhouette, clockwise, or counter-clockwise around a hole.
type part []point

// poly returns a polygon, clockwise, of its corners' coordinates.
func poly(xy ...float64) part {
	var p part
	area := 0.0
	for i := 0; i < len(xy); i += 2 {
		j := (i + 2) % len(xy)
		area += xy[i]*xy[j+1] - xy[j]*xy[i+1]
		p = append(p, point{xy[i], xy[i+1]})
	}
	if area < 0 { // y grows downwards
		return reversed(p)
	}
	return p
}

func box(left, top, right, bottom float64) part {
	return poly(left, top, right, top, right, bottom, left, bottom)
}

func disc(x, y, r float64) part { return oval(x, y, r, r) }

func oval(x, y, rx, ry float64) part { return arc(x, y, rx, ry, 0, 360, 24) }

// arc returns n points of an ellipse, clockwise from an angle to another.
func arc(x, y, rx, ry, from, to float64, n int) part {
	p := make(part, n)
	for i := range p {
		sin, cos := math.Sincos((from + (to-from)*float64(i)/float64(n)) * math.Pi / 180)
		p[i] = point{x + rx*cos, y + ry*sin}
	}
	return p
}

// dome returns the upper half of an ellipse above the height y.
func dome(rx, ry, y float64) part { return append(arc(0, y, rx, ry, 180, 360, 16), point{rx, y}) }

// petals returns n discs of radius r around the centre, at a distance.
func petals(n int, distance, r float64) []part {
	var out []part
	for _, c := range arc(0, 0, distance, distance, -90, 270, n) {
		out = append(out, disc(c.x, c.y, r))
	}
	return out
}

// crescent returns a disc of radius r without another that has its centre to the right by shift.
func crescent(r, shift float64) part {
	inner := r * 0.8
	x := (r*r - inner*inner + shift*shift) / (2 * shift) // where the circles meet
	a := math.Acos(x/r) * 180 / math.Pi
	b := math.Acos((x-shift)/inner) * 180 / math.Pi
	p := arc(0, 0, r, r, a, 360-a, 24)
	return append(p, reversed(arc(shift, 0, inner, inner, b, 360-b, 20)[1:])...)
}

// lens returns the shape enclosed by two arcs of the given height and width.
func lens(height, width float64) part {
	var p part
	for i := range 12 {
		t := float64(i)/6 - 1
		p = append(p, point{width * (1 - t*t), height * t})
	}
	for i := range 12 {
		t := 1 - float64(i)/6
		p = append(p, point{-width * (1 - t*t), height * t})
	}
	return p
}

func hole(p part) part { return reversed(p) }

// silhouette returns the paths of a thing at its position.
func (o Object) silhouette(r float64) [][]point {
	sin, cos := math.Sincos(float64(o.Angle) * math.Pi / 180)
	var out [][]point
	for _, p := range silhouettes[o.Shape] {
		path := make([]point, len(p))
		for i, q := range p {
			x, y := q.x*r/100, q.y*r/100
			path[i] = point{float64(o.X) + x*cos - y*sin, float64(o.Y) + x*sin + y*cos}
		}
		out = append(out, path)
	}
	return out
}
