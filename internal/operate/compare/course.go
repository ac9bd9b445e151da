package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/pairstream/pairstream/schemas"
)

// Course says what came of a run, for people. A replay does not compare it.
type Course struct {
	Pairs       Pairs              `json:"pairs"`
	Mined       []Mined            `json:"mined"`            // by epoch and strategy
	Unread      int64              `json:"unread,omitempty"` // mini-batches and reports that the manifest's writer could not read
	Steps       int64              `json:"steps"`            // the last one that was reported
	Last        map[string]float64 `json:"last,omitempty"`   // means over the last tenth of the reports of steps
	Evaluations []Evaluation       `json:"evaluations,omitempty"`
	Curves      []Curve            `json:"curves,omitempty"`
}

// Pairs says what became of the records of `pairs`.
type Pairs struct {
	Published  int64            `json:"published"`
	Grouped    int64            `json:"grouped"`              // members of groups
	Again      int64            `json:"again"`                // pairs that a group had already
	Near       int64            `json:"near,omitempty"`       // left out for an image that resembles another
	Filtered   map[string]int64 `json:"filtered,omitempty"`   // by rule
	Refused    map[string]int64 `json:"refused,omitempty"`    // set aside by the stages, by reason
	NoPairs    int64            `json:"no_pairs,omitempty"`   // set aside, as they are no pairs
	Unfinished int64            `json:"unfinished,omitempty"` // in no group yet
}

// Mined says what Con-D made of the candidates of one epoch's mini-batches.
type Mined struct {
	Epoch       int32  `json:"epoch"`
	Strategy    string `json:"strategy"`
	Batches     int64  `json:"batches"`
	Candidates  int64  `json:"candidates"`
	Connections int64  `json:"connections"`
	Ambiguous   int64  `json:"ambiguous"`
}

// Evaluation is what was measured at a step.
type Evaluation struct {
	Step   int64              `json:"step"`
	Values map[string]float64 `json:"values"`
}

// Thresholds say which candidates are connections where a mini-batch does not say it.
type Thresholds struct{ High, Low float64 }

// Recorder collects the course of a run.
type Recorder struct {
	limits  Thresholds
	mined   map[minedKey]*Mined
	reports []Report
	unread  int64
}

type minedKey struct {
	epoch    int32
	strategy string
}

// NewRecorder makes a recorder.
func NewRecorder(t Thresholds) *Recorder {
	return &Recorder{limits: t, mined: make(map[minedKey]*Mined)}
}

// Batch takes up what Con-D made of a mini-batch.
func (r *Recorder) Batch(b *schemas.ScoredBatch) {
	key := minedKey{b.Epoch, b.Strategy}
	m := r.mined[key]
	if m == nil {
		m = &Mined{Epoch: b.Epoch, Strategy: b.Strategy}
		r.mined[key] = m
	}
	m.Batches++
	limits := r.limits
	if b.High > 0 {
		limits = Thresholds{b.High, min(limits.Low, b.High)}
	}
	m.count(b.I2T, b.ProbI2T, limits)
	m.count(b.T2I, b.ProbT2I, limits)
}

func (m *Mined) count(candidates schemas.Int32s, probabilities schemas.Floats32, t Thresholds) {
	for k, c := range candidates {
		if c < 0 {
			continue
		}
		m.Candidates++
		switch p := float64(probabilities[k]); {
		case p > t.High:
			m.Connections++
		case p >= t.Low:
			m.Ambiguous++
		}
	}
}

// Progress takes up a report of training.
func (r *Recorder) Progress(p *schemas.Progress) {
	r.reports = append(r.reports, Report{p.Kind, p.Step, p.Values})
}

// Skip counts a mini-batch or report that cannot be read.
func (r *Recorder) Skip() { r.unread++ }

// keptPoints is the most points of a curve that a course keeps.
const keptPoints = 200

// Course returns what came of the run.
func (r *Recorder) Course(pairs Pairs) *Course {
	c := &Course{Pairs: pairs, Mined: []Mined{}, Unread: r.unread, Curves: CurvesOf(r.reports, keptPoints)}
	for _, m := range r.mined {
		c.Mined = append(c.Mined, *m)
	}
	slices.SortFunc(c.Mined, func(a, b Mined) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Strategy, b.Strategy))
	})
	var steps []Report
	for _, report := range lastOfEach(r.reports) {
		switch report.Kind {
		case schemas.ProgressStep:
			steps = append(steps, report)
			c.Steps = report.Step
		case schemas.ProgressEval:
			c.Evaluations = append(c.Evaluations, Evaluation{report.Step, report.Values})
		}
	}
	c.Last = means(steps[len(steps)-(len(steps)+9)/10:])
	return c
}

// means returns the mean of each value that reports have.
func means(reports []Report) map[string]float64 {
	sums, counts := make(map[string]float64), make(map[string]int)
	for _, r := range reports {
		for name, v := range r.Values {
			sums[name] += v
			counts[name]++
		}
	}
	for name, n := range counts {
		sums[name] = round(sums[name] / float64(n))
	}
	return sums
}

// lastOfEach returns reports by step. Of those of one kind and step, which a trainer repeats after a crash, the last
// counts.
func lastOfEach(reports []Report) []Report {
	type place struct {
		kind string
		step int64
	}
	last := make(map[place]Report)
	for _, r := range reports {
		last[place{r.Kind, r.Step}] = r
	}
	return slices.SortedFunc(maps.Values(last), func(a, b Report) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Kind, b.Kind))
	})
}

// total sums up what Con-D found in all epochs.
func (c *Course) total() (t Mined) {
	for _, m := range c.Mined {
		t.Batches += m.Batches
		t.Candidates += m.Candidates
		t.Connections += m.Connections
		t.Ambiguous += m.Ambiguous
	}
	return t
}

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

// Check refuses curves that cannot be drawn.
func (c *Course) Check() error {
	for _, x := range c.Curves {
		if len(x.Steps) != len(x.Values) {
			return fmt.Errorf("curve %q has %d steps and %d values", x.Name, len(x.Steps), len(x.Values))
		}
	}
	return nil
}

// Overlay is one measure of several runs over the same steps.
type Overlay struct {
	Name  string       `json:"name"`
	Title string       `json:"title"`
	Runs  []string     `json:"runs"`
	X     []int64      `json:"x"`
	Y     [][]*float64 `json:"y"` // one row for each run; null where it has no point
}

// connectionsShare is the measure that comes from two others.
const connectionsShare = "connections_share"

// curveTitles names the measures that have curves, in the order in which they are shown.
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

// CurvesOf makes the curves of a run, with so many points at most. A curve that is zero everywhere is left out.
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

// thin replaces neighbouring points by their mean where there are too many.
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

// round keeps the digits of a measure that say something.
func round(v float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil {
		return math.NaN() // what FormatFloat writes is a number
	}
	return short
}

// Lay lays the curves of runs over one another.
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
