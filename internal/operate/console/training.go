package console

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/compare"
	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/schemas"
)

const (
	mostPoints    = 600     // of a curve
	mostProgress  = 200_000 // reports that are read of another namespace
	othersFreshes = 10 * time.Second
)

// curve is one measure of some runs, to be drawn.
type curve struct{ compare.Overlay }

// Last returns the last value of each run, as the page writes it.
func (c curve) Last() []string {
	var list []string
	for _, v := range c.Overlay.Last() {
		text := ""
		if v != nil {
			text = compare.Number(*v)
		}
		list = append(list, text)
	}
	return list
}

type trainingView struct {
	Runs    []string
	Curves  []curve
	Latest  []runState
	Evals   []evaluation
	Epochs  []epochShares
	Missing []string
}

type runState struct {
	Run        string
	Step       int64
	Checkpoint string
	Time       time.Time
}

type evaluation struct {
	Run    string
	Step   int64
	Time   time.Time
	Values []measure
}

type measure struct {
	Name  string
	Value float64
}

type epochShares struct{ index.Epoch }

func (e epochShares) Negatives() int64 { return e.Candidates - e.Connections - e.Ambiguous }

// run is the reports of one namespace.
type run struct {
	name    string
	reports []index.Report
}

func runName(namespace string) string {
	if namespace == "" {
		return "this run"
	}
	return namespace
}

// runs reads the reports of this namespace and of the others.
func (s *Server) runs(ctx context.Context) (list []run, missing []string, err error) {
	own, err := s.o.Index.Reports(ctx)
	if err != nil {
		return nil, nil, err
	}
	list = append(list, run{runName(s.o.Log.Config().Namespace), own})
	for _, ns := range s.o.Settings.Namespaces {
		reports, err := s.others.reports(ctx, s.o.Log, ns)
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v", ns, err))
			continue
		}
		list = append(list, run{runName(ns), reports})
	}
	return list, missing, nil
}

func (s *Server) trainingPage(w http.ResponseWriter, r *http.Request) error {
	runs, missing, err := s.runs(r.Context())
	if err != nil {
		return err
	}
	v := trainingView{Missing: missing, Curves: curvesOf(runs)}
	for _, x := range runs {
		v.Runs = append(v.Runs, x.name)
		state := runState{Run: x.name, Step: -1}
		for _, report := range lastEvaluations(x.reports) {
			switch report.Kind {
			case schemas.ProgressEval:
				v.Evals = append(v.Evals, evaluationOf(x.name, report))
			case schemas.ProgressCheckpoint:
				state.Checkpoint = report.Checkpoint
			default:
				state.Step, state.Time = max(state.Step, report.Step), report.Time
			}
		}
		if state.Step >= 0 {
			v.Latest = append(v.Latest, state)
		}
	}
	epochs, err := s.o.Index.Epochs(r.Context(), 0)
	if err != nil {
		return err
	}
	for _, e := range epochs {
		v.Epochs = append(v.Epochs, epochShares{e})
	}
	return s.answer(w, r, "training.html", page{Title: "Training", Path: "/training", Data: v})
}

// lastEvaluations leaves out evaluations of a step that was evaluated again, after a crash.
func lastEvaluations(reports []index.Report) []index.Report {
	last := make(map[int64]int)
	for i, r := range reports {
		if r.Kind == schemas.ProgressEval {
			last[r.Step] = i
		}
	}
	var list []index.Report
	for i, r := range reports {
		if r.Kind != schemas.ProgressEval || last[r.Step] == i {
			list = append(list, r)
		}
	}
	return list
}

func evaluationOf(name string, r index.Report) evaluation {
	e := evaluation{Run: name, Step: r.Step, Time: r.Time}
	for _, m := range slices.Sorted(maps.Keys(r.Values)) {
		e.Values = append(e.Values, measure{m, r.Values[m]})
	}
	return e
}

// curves sends the points that the page draws.
func (s *Server) curves(w http.ResponseWriter, r *http.Request) error {
	runs, _, err := s.runs(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(curvesOf(runs))
}

// curvesOf makes the curves of some runs. A step that was made again after a crash counts once, the last time.
func curvesOf(runs []run) []curve {
	var names []string
	var lines [][]compare.Curve
	for _, x := range runs {
		reports := make([]compare.Report, len(x.reports))
		for i, r := range x.reports {
			reports[i] = compare.Report{Kind: r.Kind, Step: r.Step, Values: r.Values}
		}
		names, lines = append(names, x.name), append(lines, compare.CurvesOf(reports, mostPoints))
	}
	return overlaid(compare.Lay(names, lines))
}

func overlaid(list []compare.Overlay) []curve {
	var curves []curve
	for _, o := range list {
		curves = append(curves, curve{o})
	}
	return curves
}

// others keeps the reports of other namespaces for a moment.
type others struct {
	mu   sync.Mutex
	kept map[string]otherRun
}

type otherRun struct {
	reports []index.Report
	at      time.Time
}

// reports reads the topic progress of another namespace on the same brokers.
func (o *others) reports(ctx context.Context, log *stream.Log, namespace string) ([]index.Report, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x, ok := o.kept[namespace]; ok && time.Since(x.at) < othersFreshes {
		return x.reports, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	other, err := another(ctx, log.Config(), namespace)
	if err != nil {
		return nil, err
	}
	defer other.Close()
	b, err := other.Bounds(ctx, schemas.ProgressLog, 0)
	if err != nil {
		return nil, err
	}
	var list []index.Report
	for rec, err := range other.Records(ctx, schemas.ProgressLog, 0, stream.Position{Offset: max(b.Start, b.End-mostProgress)}, b.End) {
		if err != nil {
			return nil, err
		}
		if p, ok := stream.As[*schemas.Progress](rec); ok {
			list = append(list, index.Report{Kind: p.Kind, Step: p.Step, Time: time.UnixMilli(p.Time), Values: p.Values, Checkpoint: p.Checkpoint})
		}
	}
	if o.kept == nil {
		o.kept = make(map[string]otherRun)
	}
	o.kept[namespace] = otherRun{list, time.Now()}
	return list, nil
}

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
