package compare

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/pairstream/pairstream/schemas"
)

// Report is a report of training without its time.
type Report struct {
	Kind   string
	Step   int64
	Values map[string]float64
}

// Curve is one measure of one run over its steps.
type Curve struct {
	Name   string    `json:"name"`
	Steps  []int64   `json:"steps"`
	Values []float64 `json:"values"`
}

// connectionsShare is the measure that is computed from two others.
const connectionsShare = "connections_share"

// curveTitles lists the measures that have curves, in the order of the page.
var curveTitles = []struct{ name, title string }{
	{"loss", "Loss"},
	{"loss_itc", "Contrastive loss (ITC)"},
	{"loss_itm", "Matching loss (ITM)"},
	{"loss_mlm", "Masked words (MLM)"},
	{"loss_uni", "Uni-modal loss"},
	{connectionsShare, "Connections among the candidates, %"},
	{"pairs_per_second", "Pairs a second"},
	{"learning_rate", "Learning rate"},
	{"recall", "Recall on held-out pairs, %"},
	{"matching_error", "Matching error on held-out pairs, %"},
}

// Overlay is one measure of several runs over the same steps.
type Overlay struct {
	Name  string       `json:"name"`
	Title string       `json:"title"`
	Runs  []string     `json:"runs"`
	X     []int64      `json:"x"`
	Y     [][]*float64 `json:"y"` // one row for each run; null where it has no point
}

// CurvesOf returns the curves of a run, each with at most so many points. It leaves out curves that are zero everywhere.
func CurvesOf(reports []Report, most int) []Curve {
	var list []Curve
	for _, t := range curveTitles {
		points := make(map[int64]float64)
		varies := false
		for _, r := range reports {
			if v, ok := r.value(t.name); ok {
				points[r.Step] = v
				varies = varies || v != 0
			}
		}
		if varies {
			list = append(list, thin(t.name, points, most))
		}
	}
	return list
}

// value returns a measure of a report.
func (r Report) value(name string) (v float64, ok bool) {
	if r.Kind != schemas.ProgressStep && r.Kind != schemas.ProgressEval {
		return 0, false
	}
	if name != connectionsShare {
		v, ok = r.Values[name]
		return v, ok
	}
	all := r.Values["candidates"]
	return 100 * r.Values["connections"] / all, all > 0
}

// thin replaces neighbouring points by their mean if a curve has too many.
func thin(name string, points map[int64]float64, most int) Curve {
	c := Curve{Name: name}
	width := (len(points) + most - 1) / most
	for steps := range slices.Chunk(slices.Sorted(maps.Keys(points)), width) {
		sum := 0.0
		for _, step := range steps {
			sum += points[step]
		}
		c.Steps = append(c.Steps, steps[len(steps)-1])
		c.Values = append(c.Values, round(sum/float64(len(steps))))
	}
	return c
}

// round rounds a measure to its significant digits.
func round(v float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil {
		return math.NaN() // unreachable: FormatFloat writes numbers
	}
	return short
}

// Lay combines the curves of runs by measure.
func Lay(runs []string, curves [][]Curve) []Overlay {
	var list []Overlay
	for _, t := range curveTitles {
		points := make([]map[int64]float64, len(runs))
		steps := make(map[int64]bool)
		for i, own := range curves {
			points[i] = make(map[int64]float64)
			at := slices.IndexFunc(own, func(c Curve) bool { return c.Name == t.name })
			if at < 0 {
				continue
			}
			for k, step := range own[at].Steps[:min(len(own[at].Steps), len(own[at].Values))] {
				points[i][step] = own[at].Values[k]
				steps[step] = true
			}
		}
		if len(steps) == 0 {
			continue
		}
		o := Overlay{Name: t.name, Title: t.title, Runs: runs, X: slices.Sorted(maps.Keys(steps))}
		for i := range runs {
			row := make([]*float64, len(o.X))
			for k, step := range o.X {
				if v, ok := points[i][step]; ok {
					row[k] = &v
				}
			}
			o.Y = append(o.Y, row)
		}
		list = append(list, o)
	}
	return list
}

// Last returns the last value of each run; nil where it has none.
func (o Overlay) Last() []*float64 {
	last := make([]*float64, len(o.Y))
	for i, row := range o.Y {
		for _, v := range row {
			if v != nil {
				last[i] = v
			}
		}
	}
	return last
}
