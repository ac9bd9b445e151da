package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pairstream/pairstream/schemas"
)

// Course holds the results of a run, for people. A replay does not compare it.
type Course struct {
	Pairs       Pairs              `json:"pairs"`
	Mined       []Mined            `json:"mined"`            // by epoch and strategy
	Unread      int64              `json:"unread,omitempty"` // mini-batches and reports that the manifest's writer could not read
	Steps       int64              `json:"steps"`            // the last step that was reported
	Last        map[string]float64 `json:"last,omitempty"`   // means over the last tenth of the reports of steps
	Evaluations []Evaluation       `json:"evaluations,omitempty"`
	Curves      []Curve            `json:"curves,omitempty"`
}

// Pairs counts the records of `pairs` by what became of them.
type Pairs struct {
	Published  int64            `json:"published"`
	Grouped    int64            `json:"grouped"`              // members of groups
	Again      int64            `json:"again"`                // pairs that their group already had
	Near       int64            `json:"near,omitempty"`       // left out as near-duplicates
	Filtered   map[string]int64 `json:"filtered,omitempty"`   // by rule
	Refused    map[string]int64 `json:"refused,omitempty"`    // set aside by the stages, by reason
	NoPairs    int64            `json:"no_pairs,omitempty"`   // set aside because they are not pairs
	Unfinished int64            `json:"unfinished,omitempty"` // in no group yet
}

// Mined counts Con-D's verdicts on the candidates of one epoch's mini-batches.
type Mined struct {
	Epoch       int32  `json:"epoch"`
	Strategy    string `json:"strategy"`
	Batches     int64  `json:"batches"`
	Candidates  int64  `json:"candidates"`
	Connections int64  `json:"connections"`
	Ambiguous   int64  `json:"ambiguous"`
}

// Evaluation holds the measures of an evaluation at a step.
type Evaluation struct {
	Step   int64              `json:"step"`
	Values map[string]float64 `json:"values"`
}

// Thresholds classify candidates in mini-batches that do not contain their threshold.
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

// NewRecorder returns an empty recorder.
func NewRecorder(t Thresholds) *Recorder {
	return &Recorder{limits: t, mined: make(map[minedKey]*Mined)}
}

// Batch adds Con-D's verdicts on a mini-batch.
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

// Progress adds a report of training.
func (r *Recorder) Progress(p *schemas.Progress) {
	r.reports = append(r.reports, Report{p.Kind, p.Step, p.Values})
}

// Skip counts a mini-batch or report that cannot be read.
func (r *Recorder) Skip() { r.unread++ }

// keptPoints is the greatest number of points of a curve in a course.
const keptPoints = 200

// Course returns the results of the run.
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

// means returns the mean of each value in reports.
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

// lastOfEach returns reports by step. It keeps the last report of each kind and step, which a trainer repeats after a
// crash.
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

// total adds up the verdicts of all epochs.
func (c *Course) total() (t Mined) {
	for _, m := range c.Mined {
		t.Batches += m.Batches
		t.Candidates += m.Candidates
		t.Connections += m.Connections
		t.Ambiguous += m.Ambiguous
	}
	return t
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
