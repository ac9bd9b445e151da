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

	"github.com/pairstream/pairstream/internal/compare"
	"github.com/pairstream/pairstream/internal/console/index"
	"github.com/pairstream/pairstream/internal/stream"
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
