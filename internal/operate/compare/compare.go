package compare

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/operate/inspect"
)

// Run is a run to compare.
type Run struct {
	Name     string
	Facts    []Fact            // other facts, with the same names in every run
	Settings map[string]string // effective values
	Models   []Fact            // fingerprints, by topic
	Topics   []Topic
	Course   *Course // nil in manifests of older versions
}

// Fact is a value with a name.
type Fact struct{ Name, Value string }

// Topic describes the records that a run wrote to one topic.
type Topic struct {
	Name    string
	Records int64
	Digest  string // of all lanes
}

// Row is a line of a table: a cell for each run.
type Row struct {
	Name  string
	Cells []string
}

// Table is a part of a comparison.
type Table struct {
	Title string
	Note  string
	Rows  []Row
}

// Comparison shows runs side by side.
type Comparison struct {
	Runs   []string
	Tables []Table
	Curves []Overlay
}

// MostRuns is the largest number of runs in one comparison.
const MostRuns = 8

// ErrCount means that too few or too many runs were given.
var ErrCount = errors.New("compares 2 to 8 runs")

// none is the cell of a run without a value.
const none = "–"

// Names shortens the paths of files to distinct names.
func Names(paths []string) []string {
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = strings.TrimSuffix(filepath.Base(path), ".json")
	}
	for i := range names {
		if slices.Contains(slices.Delete(slices.Clone(names), i, i+1), names[i]) {
			return slices.Clone(paths)
		}
	}
	return names
}

// Of compares runs with the first one.
func Of(runs []Run) (*Comparison, error) {
	if len(runs) < 2 || len(runs) > MostRuns {
		return nil, fmt.Errorf("%d runs: %w", len(runs), ErrCount)
	}
	c := &Comparison{}
	curves := make([][]Curve, len(runs))
	for i, r := range runs {
		c.Runs = append(c.Runs, r.Name)
		if r.Course != nil {
			curves[i] = r.Course.Curves
		}
	}
	c.Tables = []Table{facts(runs), settings(runs), models(runs), records(runs), figures(runs)}
	c.Curves = Lay(c.Runs, curves)
	return c, nil
}

// table collects rows.
type table struct {
	runs []Run
	Table
}

// row adds a row unless no run has a value.
func (t *table) row(name string, of func(r *Run) string) {
	row, some := Row{Name: name}, false
	for i := range t.runs {
		cell := of(&t.runs[i])
		some = some || cell != ""
		if cell == "" {
			cell = none
		}
		row.Cells = append(row.Cells, cell)
	}
	if some {
		t.Rows = append(t.Rows, row)
	}
}

func valueOf(list []Fact, name string) string {
	var values []string
	for _, f := range list {
		if f.Name == name {
			values = append(values, f.Value)
		}
	}
	return strings.Join(values, ", ")
}

// namesOf returns the names of all facts, each once, in the order of their first mention.
func namesOf(runs []Run, of func(r *Run) []Fact) (names []string) {
	for i := range runs {
		for _, f := range of(&runs[i]) {
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	return names
}

func facts(runs []Run) Table {
	t := table{runs, Table{Title: "Runs"}}
	for _, name := range namesOf(runs, func(r *Run) []Fact { return r.Facts }) {
		t.row(name, func(r *Run) string { return valueOf(r.Facts, name) })
	}
	return t.Table
}

func settings(runs []Run) Table {
	t := table{runs, Table{Title: "Settings that differ"}}
	all := make(map[string]bool)
	for _, r := range runs {
		for name := range r.Settings {
			all[name] = true
		}
	}
	equal := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		first, known := runs[0].Settings[name]
		same := !slices.ContainsFunc(runs, func(r Run) bool { v, ok := r.Settings[name]; return v != first || ok != known })
		if same {
			equal++
			continue
		}
		t.row(name, func(r *Run) string {
			v, ok := r.Settings[name]
			if ok && v == "" {
				return "empty"
			}
			return display.Redacted(v) // a manifest of an older version may contain a password
		})
	}
	t.Note = fmt.Sprintf("Equal settings: %d.", equal)
	return t.Table
}

func models(runs []Run) Table {
	t := table{runs, Table{Title: "Models", Note: "The fingerprints of the models whose results are in the records."}}
	for _, name := range namesOf(runs, func(r *Run) []Fact { return r.Models }) {
		t.row(name, func(r *Run) string { return valueOf(r.Models, name) })
	}
	return t.Table
}

// records adds which topics have the same records as the first run.
func records(runs []Run) Table {
	t := table{runs, Table{Title: "Records", Note: "By the digests of every lane, beside those of the first run."}}
	for _, topic := range runs[0].Topics {
		t.row(topic.Name, func(r *Run) string {
			at := slices.IndexFunc(r.Topics, func(x Topic) bool { return x.Name == topic.Name })
			switch {
			case at < 0:
				return ""
			case r == &runs[0]:
				return inspect.Count(topic.Records)
			case r.Topics[at] == topic:
				return inspect.Count(topic.Records) + ", equal"
			}
			return inspect.Count(r.Topics[at].Records) + ", other ones"
		})
	}
	return t.Table
}

// Number returns a measure with its significant digits.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) && a < 1e15:
		return inspect.Count(int64(v))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.01:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// widest is the number of letters to which Print shortens a cell.
const widest = 40

// Print writes all tables as text. Package console draws the curves. Control characters are removed, since a manifest may
// come from a stranger.
func (c *Comparison) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, t := range c.Tables {
		if i > 0 {
			fmt.Fprintln(w)
		}
		line := func(name string, cells []string) {
			for _, cell := range cells {
				name += "\t" + display.Printable(cell)
			}
			fmt.Fprintln(w, name)
		}
		line(strings.ToUpper(t.Title), c.Runs)
		for _, row := range t.Rows {
			cells := make([]string, len(row.Cells))
			for k, cell := range row.Cells {
				cells[k] = shorten(cell)
			}
			line("  "+display.Printable(row.Name), cells)
		}
		if t.Note != "" {
			fmt.Fprintf(w, "  (%s)\n", display.Printable(strings.TrimSuffix(t.Note, ".")))
		}
	}
	return w.Flush()
}

// shorten keeps the end of a long cell, where paths usually differ.
func shorten(cell string) string {
	if runes := []rune(cell); len(runes) > widest {
		return "…" + string(runes[len(runes)-widest+1:])
	}
	return cell
}
