package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/pairstream/pairstream/lab/experiments/evidence"
)

const (
	figureWidth  = 6 * vg.Inch
	figureHeight = 3.4 * vg.Inch
)

// series holds the means of a line, and the ends of their intervals.
type series struct {
	plotter.XYs
	plotter.YErrors
}

// drawFigure writes a figure as SVG.
func drawFigure(path string, f evidence.Figure, r *evidence.Result) error {
	if len(f.Arms) > 0 {
		return drawArms(path, f, r)
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.Title, f.X, f.Y
	p.Legend.Top, p.Legend.Left = true, true
	p.Y.Min = 0
	p.Add(plotter.NewGrid())
	var ticks []plot.Tick
	for i, l := range f.Lines {
		s, found := measured(l, f, r)
		if len(found) == 0 {
			continue
		}
		if err := add(p, i, l.Label, s); err != nil {
			return err
		}
		if len(found) > len(ticks) {
			ticks = found
		}
	}
	if len(ticks) == 0 {
		return errNothing
	}
	if f.LogX {
		p.X.Scale = plot.LogScale{}
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Max *= 1.25 // room for the legend
	return save(path, p)
}

// measured returns a line's points, with a tick at every x.
func measured(l evidence.Line, f evidence.Figure, r *evidence.Result) (s series, ticks []plot.Tick) {
	factor := max(f.Factor, 1)
	for _, x := range r.Xs(l.Arm, l.Name) {
		at := r.Interval(evidence.Point{Arm: l.Arm, X: x, Name: l.Name})
		half := at.Half * factor
		if math.IsInf(half, 0) {
			half = 0
		}
		s.XYs = append(s.XYs, plotter.XY{X: x, Y: at.Mean * factor})
		s.YErrors = append(s.YErrors, struct{ Low, High float64 }{half, half})
		ticks = append(ticks, plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'g', -1, 64)})
	}
	return s, ticks
}

// add adds the i-th line to a plot.
func add(p *plot.Plot, i int, label string, s series) error {
	line, points, err := plotter.NewLinePoints(s.XYs)
	if err != nil {
		return fmt.Errorf("line %q: %w", label, err)
	}
	bars, err := plotter.NewYErrorBars(s)
	if err != nil {
		return fmt.Errorf("intervals of line %q: %w", label, err)
	}
	line.Color, points.Color, bars.Color = plotutil.Color(i), plotutil.Color(i), plotutil.Color(i)
	points.Shape = plotutil.Shape(i)
	p.Add(line, points, bars)
	p.Legend.Add(label, line, points)
	return nil
}

// drawArms writes a figure of differences, an arm a line, the first at the top.
func drawArms(path string, f evidence.Figure, r *evidence.Result) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = f.Title, f.X
	p.Add(plotter.NewGrid())
	var points differences
	var names []string
	for _, a := range slices.Backward(f.Arms) {

		base := evidence.Point{Arm: f.Base, Name: f.Measure}
		d := evidence.Claim{More: evidence.Point{Arm: a.Arm, X: a.X, Name: f.Measure}, Less: base}.Judge(r).Difference
		if d.N == 0 {
			continue
		}
		half := d.Half
		if math.IsInf(half, 0) {
			half = 0
		}
		factor := max(f.Factor, 1)
		points.XYs = append(points.XYs, plotter.XY{X: d.Mean * factor, Y: float64(len(names))})
		points.XErrors = append(points.XErrors, struct{ Low, High float64 }{half * factor, half * factor})
		names = append(names, a.Label)
	}
	if len(names) == 0 {
		return errNothing
	}
	scatter, err := plotter.NewScatter(points.XYs)
	if err != nil {
		return fmt.Errorf("figure %s: %w", f.Name, err)
	}
	bars, err := plotter.NewXErrorBars(points)
	if err != nil {
		return fmt.Errorf("intervals of figure %s: %w", f.Name, err)
	}
	zero, err := plotter.NewLine(plotter.XYs{{X: 0, Y: -0.5}, {X: 0, Y: float64(len(names)) - 0.5}})
	if err != nil {
		return fmt.Errorf("figure %s: %w", f.Name, err)
	}
	scatter.Color, bars.Color, scatter.Shape = plotutil.Color(0), plotutil.Color(0), plotutil.Shape(0)
	p.Add(zero, scatter, bars)
	p.NominalY(names...)
	return save(path, p)
}

// differences hold the mean differences of arms, and the ends of their intervals.
type differences struct {
	plotter.XYs
	plotter.XErrors
}

func save(path string, p *plot.Plot) error {
	canvas := vgsvg.New(figureWidth, figureHeight)
	p.Draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of figures: %w", err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
