package console

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pairstream/pairstream/internal/operate/compare"
)

// The drawing of a curve, in its own units.
const (
	plotWide, plotTall = 420.0, 200.0
	plotLeft, plotDown = 52.0, 24.0
	plotTop, plotRight = 10.0, 8.0
	glyph              = 6.6 // width of a digit, at most
)

// lineColours distinguish runs, on a light and on a dark background.
var lineColours = []string{"#3b6fe0", "#c77a1b", "#1e8c63", "#c8453c", "#8452d8", "#0f8aa0", "#b03a86", "#7a7d2b"}

// plot is a drawing with axes, for pages without scripts and for documents.
type plot struct {
	strings.Builder
	x0, x1, low, high float64
	left              float64 // room for the labels of y
}

func (p *plot) x(v float64) float64 {
	return p.left + (v-p.x0)/(p.x1-p.x0)*(plotWide-p.left-plotRight)
}

func (p *plot) y(v float64) float64 {
	return plotTop + (p.high-v)/(p.high-p.low)*(plotTall-plotTop-plotDown)
}

// axes begins the drawing, with labelled lines across at some values. No label reaches beyond the drawing.
func (p *plot) axes(title string, across []float64, label func(float64) string) {
	p.left = plotLeft
	for _, v := range across {
		p.left = max(p.left, width(label(v))+8)
	}
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" font-family="system-ui, sans-serif" font-size="11"><title>%s</title>`,
		plotWide, plotTall, template.HTMLEscapeString(title))
	for _, v := range across {
		fmt.Fprintf(p, `<path d="M%g %.1fH%g" stroke="#8884"/><text x="%g" y="%.1f" text-anchor="end" fill="#888">%s</text>`,
			p.left, p.y(v), plotWide-plotRight, p.left-6, p.y(v)+4, label(v))
	}
	for _, v := range ticks(p.x0, p.x1, 5) {
		x, anchor := p.x(v), "middle"
		if x+width(tick(v))/2 > plotWide {
			x, anchor = plotWide, "end"
		}
		fmt.Fprintf(p, `<text x="%.1f" y="%g" text-anchor="%s" fill="#888">%s</text>`, x, plotTall-6, anchor, tick(v))
	}
}

// width returns how wide a label is at most.
func width(label string) float64 { return glyph * float64(utf8.RuneCountInString(label)) }

// html ends the drawing.
func (p *plot) html() template.HTML {
	p.WriteString("</svg>")
	return template.HTML(p.String()) //nolint:gosec // numbers, and a title that is escaped
}

// line is a line in a plot.
type line struct{ strings.Builder }

// to draws to a point, or begins there.
func (l *line) to(p *plot, x, y float64) {
	command := "L"
	if l.Len() == 0 {
		command = "M"
	}
	fmt.Fprintf(l, "%s%.1f %.1f", command, p.x(x), p.y(y))
}

// curveSVG draws one measure of some runs.
func curveSVG(c compare.Overlay) template.HTML {
	p := plot{x0: float64(c.X[0]), x1: float64(c.X[len(c.X)-1])}
	p.low, p.high = bounds(c)
	if p.x1 == p.x0 {
		p.x1++
	}
	p.axes(c.Title+" over the training steps", ticks(p.low, p.high, 5), tick)
	for i, row := range c.Y {
		var l line
		for k, v := range row {
			if v != nil {
				l.to(&p, float64(c.X[k]), *v)
			}
		}
		fmt.Fprintf(&p, `<path d="%s" fill="none" stroke="%s" stroke-width="1.6" stroke-linejoin="round"/>`, l.String(), lineColours[i%len(lineColours)])
	}
	return p.html()
}

// legend is a run and the colour of its line.
type legend struct{ Run, Colour string }

// keyOf returns the runs that have a line in a drawing.
func keyOf(c compare.Overlay) (key []legend) {
	for i, row := range c.Y {
		if slices.ContainsFunc(row, func(v *float64) bool { return v != nil }) {
			key = append(key, legend{c.Runs[i], lineColours[i%len(lineColours)]})
		}
	}
	return key
}

// bounds returns the bounds of a drawing: those of the values, with a little room.
func bounds(c compare.Overlay) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, row := range c.Y {
		for _, v := range row {
			if v != nil {
				low, high = min(low, *v), max(high, *v)
			}
		}
	}
	room := (high - low) / 20
	if room == 0 {
		room = max(math.Abs(high)/10, 1e-9)
	}
	if low >= 0 && low-room < 0 {
		return 0, high + room
	}
	return low - room, high + room
}

// ticks returns round numbers between two bounds, at most so many.
func ticks(low, high float64, most int) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/float64(most))))
	for _, m := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*m) <= float64(most) {
			step *= m
			break
		}
	}
	var list []float64
	for k := math.Ceil(low / step); k*step <= high && len(list) <= most; k++ {
		list = append(list, k*step)
	}
	return list
}

// tick writes a round number in its shortest form.
func tick(v float64) string {
	if v == math.Trunc(v) {
		return compare.Number(v)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
