package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
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

// lastNumbers returns the last value of each run, as the page writes it.
func lastNumbers(c compare.Overlay) []string {
	list := make([]string, len(c.Y))
	for i, v := range c.Last() {
		if v != nil {
			list[i] = compare.Number(*v)
		}
	}
	return list
}

type trainingView struct {
	Runs    []string
	Beside  []string     // manifests whose runs can be shown beside this one
	With    string       // the one that is
	Query   template.URL // of the curves
	Curves  []compare.Overlay
	Latest  []runState
	Evals   []evaluation
	Epochs  []index.Epoch
	Missing []string
}

type runState struct {
	Run        string
	Step       int64
	Checkpoint string
	Time       time.Time
}

type evaluation struct {
	Run string
	index.Report
}

// run is the reports of one namespace, or the curves of a manifest.
type run struct {
	name    string
	reports []index.Report
	course  *compare.Course
}

func runName(namespace string) string { return cmp.Or(namespace, "this run") }

// runOf returns the run of a manifest in CONSOLE_MANIFESTS.
func (s *Server) runOf(name string) (run, error) {
	f, err := s.manifestNamed(name)
	if err != nil {
		return run{}, err
	}
	if f.Manifest.Course == nil {
		return run{}, badRequest{fmt.Errorf("%s has no curves: write it anew with `pairstream run-manifest`", name)}
	}
	x := run{name: compare.Names([]string{name})[0], course: f.Manifest.Course}
	for _, e := range x.course.Evaluations {
		x.reports = append(x.reports, index.Report{Kind: schemas.ProgressEval, Step: e.Step, Values: e.Values})
	}
	return x, nil
}

// runs reads the reports of this namespace and of the others, and the run of a manifest that with names, if it does.
func (s *Server) runs(ctx context.Context, with string) (list []run, missing []string, err error) {
	own, err := s.o.Index.Reports(ctx)
	if err != nil {
		return nil, nil, err
	}
	list = append(list, run{name: runName(s.o.Log.Config().Namespace), reports: own})
	for _, ns := range s.o.Settings.Namespaces {
		reports, err := s.others.reports(ctx, s.o.Log, ns)
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v", ns, err))
			continue
		}
		list = append(list, run{name: runName(ns), reports: reports})
	}
	if with != "" {
		x, err := s.runOf(with)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, x)
	}
	return list, missing, nil
}

func (s *Server) trainingPage(w http.ResponseWriter, r *http.Request) error {
	with := r.FormValue("with")
	runs, missing, err := s.runs(r.Context(), with)
	if err != nil {
		return err
	}
	v := trainingView{Missing: missing, Curves: curvesOf(runs), With: with}
	if v.Beside, err = s.manifestNames(); err != nil {
		return err
	}
	if with != "" {
		v.Query = template.URL("?" + url.Values{"with": {with}}.Encode()) //nolint:gosec // encoded here
	}
	for _, x := range runs {
		v.Runs = append(v.Runs, x.name)
		state := runState{Run: x.name, Step: -1}
		if x.course != nil {
			state.Step = x.course.Steps
		}
		for _, report := range lastEvaluations(x.reports) {
			switch report.Kind {
			case schemas.ProgressEval:
				v.Evals = append(v.Evals, evaluation{x.name, report})
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
	if v.Epochs, err = s.o.Index.Epochs(r.Context(), 0); err != nil {
		return err
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

// curves sends the points that the page draws.
func (s *Server) curves(w http.ResponseWriter, r *http.Request) error {
	runs, _, err := s.runs(r.Context(), r.FormValue("with"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(curvesOf(runs))
}

// curvesOf makes the curves of some runs. A step that was repeated after a crash counts once, the last time.
func curvesOf(runs []run) []compare.Overlay {
	var names []string
	var lines [][]compare.Curve
	for _, x := range runs {
		reports := make([]compare.Report, len(x.reports))
		for i, r := range x.reports {
			reports[i] = compare.Report{Kind: r.Kind, Step: r.Step, Values: r.Values}
		}
		own := compare.CurvesOf(reports, mostPoints)
		if x.course != nil {
			own = x.course.Curves
		}
		names, lines = append(names, x.name), append(lines, own)
	}
	return compare.Lay(names, lines)
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
	o.kept[namespace] = otherRun{list, time.Now()}
	return list, nil
}
