package console

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pairstream/pairstream/internal/console/index"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

const (
	mostPoints    = 600     // of a curve
	mostProgress  = 200_000 // reports that are read of another namespace
	othersFreshes = 10 * time.Second
)

// curve is one measure over the steps.
type curve struct {
	Name  string       `json:"name"`
	Title string       `json:"title"`
	Runs  []string     `json:"runs"`
	X     []int64      `json:"x"`
	Y     [][]*float64 `json:"y"` // one row for each run; null where it has no point
	Last  []string     `json:"-"`
}

// curveTitles names the measures of the trainer, in the order in which they are shown.
var curveTitles = []struct{ name, title string }{
	{"loss", "Loss"},
	{"loss_itc", "Contrastive loss (ITC)"},
	{"loss_itm", "Matching loss (ITM)"},
	{"loss_mlm", "Masked words (MLM)"},
	{"loss_uni", "Uni-modal loss"},
	{"connections_share", "Connections among the candidates, %"},
	{"pairs_per_second", "Pairs a second"},
	{"learning_rate", "Learning rate"},
	{"recall", "Recall on held-out pairs, %"},
	{"matching_error", "Matching error on held-out pairs, %"},
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
	s.render(w, r, http.StatusOK, "training.html", page{Title: "Training", Path: "/training", Data: v})
	return nil
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
	var list []curve
	for _, c := range curveTitles {
		out := curve{Name: c.name, Title: c.title}
		points := make([]map[int64]float64, len(runs))
		steps := make(map[int64]bool)
		varies := false
		for i, x := range runs {
			out.Runs = append(out.Runs, x.name)
			points[i] = thin(pointsOf(x.reports, c.name))
			for step, v := range points[i] {
				steps[step] = true
				varies = varies || v != 0
			}
			if len(points[i]) > 0 {
				last := slices.Max(slices.Collect(maps.Keys(points[i])))
				out.Last = append(out.Last, number(points[i][last]))
			} else {
				out.Last = append(out.Last, "")
			}
		}
		if !varies {
			continue
		}
		out.X = slices.Sorted(maps.Keys(steps))
		for i := range runs {
			row := make([]*float64, len(out.X))
			for k, step := range out.X {
				if v, ok := points[i][step]; ok {
					row[k] = &v
				}
			}
			out.Y = append(out.Y, row)
		}
		list = append(list, out)
	}
	return list
}

func pointsOf(reports []index.Report, name string) map[int64]float64 {
	points := make(map[int64]float64)
	for _, r := range reports {
		if r.Kind != schemas.ProgressStep && r.Kind != schemas.ProgressEval {
			continue
		}
		if name == "connections_share" {
			if all := r.Values["candidates"]; all > 0 {
				points[r.Step] = 100 * r.Values["connections"] / all
			}
			continue
		}
		if v, ok := r.Values[name]; ok {
			points[r.Step] = v
		}
	}
	return points
}

// thin replaces neighbouring points by their mean where there are too many to draw.
func thin(points map[int64]float64) map[int64]float64 {
	width := (len(points) + mostPoints - 1) / mostPoints
	if width <= 1 {
		return points
	}
	out := make(map[int64]float64, mostPoints)
	sum, n := 0.0, 0
	for _, step := range slices.Sorted(maps.Keys(points)) {
		sum += points[step]
		if n++; n == width {
			out[step] = sum / float64(n)
			sum, n = 0, 0
		}
	}
	return out
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
		r, err := schemas.Unmarshal(rec.Schema, rec.Value)
		if p, ok := r.(*schemas.Progress); err == nil && ok {
			list = append(list, index.Report{Kind: p.Kind, Step: p.Step, Time: time.UnixMilli(p.Time), Values: p.Values, Checkpoint: p.Checkpoint})
		}
	}
	if o.kept == nil {
		o.kept = make(map[string]otherRun)
	}
	o.kept[namespace] = otherRun{list, time.Now()}
	return list, nil
}
