package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/operate/inspect"
)

// Measure is a value of an evaluation, and its title.
type Measure struct{ Name, Title string }

// EvalTitles lists the measures of an evaluation in the order of the page. All are percentages.
var EvalTitles = []Measure{
	{"false_negatives", "false negatives"},
	{"auc", "AUC of ITM"},
	{"false_alarms", "false alarms"},
	{"missed", "missed"},
	{"reranked_r1", "R@1 re-ranked"},
	{"tr_r1", "TR@1"},
	{"ir_r1", "IR@1"},
	{"tr_r10", "TR@10"},
	{"ir_r10", "IR@10"},
	{"matching_error", "matching error"},
}

// figures compares the courses of the runs.
func figures(runs []Run) Table {
	t := table{runs, Table{Title: "Figures", Note: "Losses are means over the last tenth of the reports."}}
	var old []string
	for _, r := range runs {
		switch {
		case r.Course == nil:
			old = append(old, r.Name)
		case r.Course.Unread > 0:
			t.Note += fmt.Sprintf(" %s: %s were of a newer version and are not counted.", r.Name, inspect.Count(r.Course.Unread)+" records")
		}
	}
	if old != nil {
		t.Note += fmt.Sprintf(" No figures of %s: the manifest is of an older version; write it anew with `pairstream run-manifest`.", strings.Join(old, ", "))
	}
	t.course("evaluated at step", func(c *Course) string {
		return evaluated(c, func(e Evaluation) string { return Number(float64(e.Step)) })
	})
	t.evaluations()
	t.mined()
	t.course("last reported step", func(c *Course) string { return Number(float64(c.Steps)) })
	t.losses()
	t.pairs()
	return t.Table
}

// course adds a row with a value for each run that has a course.
func (t *table) course(name string, of func(c *Course) string) {
	t.row(name, func(r *Run) string {
		if r.Course == nil {
			return ""
		}
		return of(r.Course)
	})
}

// counted adds a row of counts, unless all are zero.
func (t *table) counted(name string, of func(c *Course) int64) {
	if slices.ContainsFunc(t.runs, func(r Run) bool { return r.Course != nil && of(r.Course) != 0 }) {
		t.course(name, func(c *Course) string { return inspect.Count(of(c)) })
	}
}

func evaluated(c *Course, of func(Evaluation) string) string {
	if len(c.Evaluations) == 0 {
		return ""
	}
	return of(c.Evaluations[len(c.Evaluations)-1])
}

// evaluations adds the last measures, those with a title first.
func (t *table) evaluations() {
	titles := slices.Clone(EvalTitles)
	others := make(map[string]bool)
	for _, r := range t.runs {
		if r.Course != nil && len(r.Course.Evaluations) > 0 {
			for name := range r.Course.Evaluations[len(r.Course.Evaluations)-1].Values {
				others[name] = true
			}
		}
	}
	for _, m := range titles {
		delete(others, m.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		titles = append(titles, Measure{Name: name})
	}
	for _, m := range titles {
		title := m.Name
		if m.Title != "" {
			title = m.Title + ", %"
		}
		t.course(title, func(c *Course) string {
			return evaluated(c, func(e Evaluation) string {
				v, ok := e.Values[m.Name]
				switch {
				case !ok:
					return ""
				case m.Title != "":
					return fmt.Sprintf("%.1f", v)
				}
				return Number(v)
			})
		})
	}
}

func (t *table) mined() {
	share := func(part, whole int64) string {
		if whole == 0 {
			return ""
		}
		return fmt.Sprintf("%s (%.1f %%)", inspect.Count(part), 100*float64(part)/float64(whole))
	}
	t.counted("mini-batches", func(c *Course) int64 { return c.total().Batches })
	t.counted("candidates", func(c *Course) int64 { return c.total().Candidates })
	t.course("connections", func(c *Course) string { return share(c.total().Connections, c.total().Candidates) })
	t.course("passed over", func(c *Course) string { return share(c.total().Ambiguous, c.total().Candidates) })
}

func (t *table) losses() {
	for _, m := range curveTitles {
		if !strings.HasPrefix(m.name, "loss") {
			continue
		}
		if slices.ContainsFunc(t.runs, func(r Run) bool { return r.Course != nil && r.Course.Last[m.name] != 0 }) {
			t.course(m.title, func(c *Course) string {
				if v, ok := c.Last[m.name]; ok {
					return Number(v)
				}
				return ""
			})
		}
	}
}

func (t *table) pairs() {
	total := func(counts map[string]int64) (n int64) {
		for _, c := range counts {
			n += c
		}
		return n
	}
	t.counted("records of pairs", func(c *Course) int64 { return c.Pairs.Published })
	t.counted("in groups", func(c *Course) int64 { return c.Pairs.Grouped })
	t.counted("again", func(c *Course) int64 { return c.Pairs.Again })
	t.counted("near-duplicates left out", func(c *Course) int64 { return c.Pairs.Near })
	t.counted("filtered", func(c *Course) int64 { return total(c.Pairs.Filtered) })
	t.counted("refused", func(c *Course) int64 { return total(c.Pairs.Refused) })
	t.counted("no pairs", func(c *Course) int64 { return c.Pairs.NoPairs })
	t.counted("in no group yet", func(c *Course) int64 { return c.Pairs.Unfinished })
}
