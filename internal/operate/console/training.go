package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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

// run is the reports of one namespace.
type run struct {
	name    string
	reports []index.Report
}

func runName(namespace string) string { return cmp.Or(namespace, "this run") }

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
	runs, _, err := s.runs(r.Context())
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
		names, lines = append(names, x.name), append(lines, compare.CurvesOf(reports, mostPoints))
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
