package console

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/compare"
)

// The drawing of a curve, in its own units.
const (
	plotWide, plotTall = 420.0, 200.0
	plotLeft, plotDown = 52.0, 24.0
	plotTop, plotRight = 10.0, 8.0
)

// lineColours tell runs apart, on light and on dark ground.
var lineColours = []string{"#3b6fe0", "#c77a1b", "#1e8c63", "#c8453c", "#8452d8", "#0f8aa0", "#b03a86", "#7a7d2b"}

// SVG draws a curve by itself, for pages without scripts and for documents.
func (c curve) SVG() template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" font-family="system-ui, sans-serif" font-size="11"><title>%s over the training steps</title>`,
		plotWide, plotTall, template.HTMLEscapeString(c.Title))
	low, high := c.span()
	x0, x1 := float64(c.X[0]), float64(c.X[len(c.X)-1])
	if x1 == x0 {
		x1++
	}
	atX := func(v float64) float64 { return plotLeft + (v-x0)/(x1-x0)*(plotWide-plotLeft-plotRight) }
	atY := func(v float64) float64 { return plotTop + (high-v)/(high-low)*(plotTall-plotTop-plotDown) }
	for _, v := range ticks(low, high, 5) {
		fmt.Fprintf(&b, `<path d="M%g %.1fH%g" stroke="#8884"/><text x="%g" y="%.1f" text-anchor="end" fill="#888">%s</text>`,
			plotLeft, atY(v), plotWide-plotRight, plotLeft-6, atY(v)+4, tick(v))
	}
	for _, v := range ticks(x0, x1, 5) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="middle" fill="#888">%s</text>`, atX(v), plotTall-6, tick(v))
	}
	for i, row := range c.Y {
		var path strings.Builder
		for k, v := range row {
			if v == nil {
				continue
			}
			command := "L"
			if path.Len() == 0 {
				command = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", command, atX(float64(c.X[k])), atY(*v))
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.6" stroke-linejoin="round"/>`, path.String(), lineColours[i%len(lineColours)])
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // numbers, and a title that is escaped
}

// span returns the bounds of the drawing: those of the values, with a little room.
func (c curve) span() (low, high float64) {
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

// tick writes a round number as short as it is.
func tick(v float64) string {
	if v == math.Trunc(v) {
		return compare.Number(v)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
