package evidence

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Experiment says what is asked, and what is read from its result.
type Experiment struct {
	ID      string
	Title   string
	Repeats string // sections, tables and figures of the papers
	Text    string // what is done, in a few sentences
	Small   string // what is smaller than in the paper
	Seeds   []uint64
	// Photographs says that the experiment wants photographs from outside.
	Photographs bool
	// Timed says that it measures processor time. Its seeds run one after the other, and no two runs are alike.
	Timed bool
	// Versions is how many first models and Con-Ds there are. [Versions] says which serve a seed; 0: all seeds share one of each.
	Versions int
	Tables   []Table
	Figures  []Figure
	Claims   []Claim
	// Gates have to hold. Else the experiment is void: its arms learned nothing, and no claim about them counts.
	Gates []Claim
	// Doubts are what a sceptic would still ask. They do not depend on the result.
	Doubts []string
}

// Tuning returns the seeds on which settings are chosen.
func Tuning() []uint64 { return []uint64{101, 102, 103} }

// seeds returns first..last.
func seeds(first, last uint64) []uint64 {
	var out []uint64
	for s := first; s <= last; s++ {
		out = append(out, s)
	}
	return out
}

// Table shows measures of arms.
type Table struct {
	Title   string
	Head    string // of the first column
	Rows    []Row
	Columns []Column
}

// Row is an arm, at one x.
type Row struct {
	Label string
	Arm   string
	X     float64
}

// Column is a measure.
type Column struct {
	Label    string
	Name     string
	Factor   float64 // 100 for percent; 0: 1
	Decimals int
}

// Figure draws measures over x. With Arms it draws what each arm differs from Base by, for one measure.
type Figure struct {
	Name    string // of the file, without its ending
	Title   string
	X, Y    string // of the axes
	LogX    bool
	Factor  float64 // of the values; 100 for percent
	Lines   []Line
	Arms    []Row
	Base    string // arm without x; differences are paired by seed
	Measure string // of Arms
	Comment string // what is to be seen, as the text beside it
}

// Line is a measure of an arm over all its x.
type Line struct {
	Label string
	Arm   string
	Name  string
}

// All returns the experiments, in the order of the page.
func All() []Experiment {
	return []Experiment{x1(), x2(), x3(), x4(), x5(), x6(), x7(), x8(), x9(), x10(), x11(), x12(), x13(), x14(), x15(), x16()}
}

// Find returns an experiment by its id.
func Find(id string) (Experiment, error) {
	var known []string
	for _, e := range All() {
		if e.ID == id {
			return e, nil
		}
		known = append(known, e.ID)
	}
	return Experiment{}, fmt.Errorf("there is no experiment %q: want one of %s", id, strings.Join(known, ", "))
}

// Cells returns the cells of a table, its head first.
func (t Table) Cells(r *Result) [][]string {
	head := []string{t.Head}
	for _, c := range t.Columns {
		head = append(head, c.Label)
	}
	cells := [][]string{head}
	for _, row := range t.Rows {
		line := []string{row.Label}
		for _, c := range t.Columns {
			line = append(line, c.cell(r, Point{row.Arm, row.X, c.Name}))
		}
		if slices.ContainsFunc(line[1:], func(cell string) bool { return cell != "-" }) {
			cells = append(cells, line)
		}
	}
	return cells
}

// cell returns what a result says of a point.
func (c Column) cell(r *Result, p Point) string {
	if kinds[c.Name] == difference {
		return r.Interval(p).Format(max(c.Factor, 1), c.Decimals)
	}
	v := Claim{More: p}.Judge(r)
	if v.Of == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", v.Yes, v.Of)
}

// VoidText says what the failure of a gate means.
const VoidText = "This experiment is void: not all arms that have to learn something did so beyond doubt."

// Void reports whether a gate does not hold.
func (e Experiment) Void(r *Result) bool {
	return slices.ContainsFunc(e.Gates, func(c Claim) bool { return c.Judge(r).Outcome != Holds })
}

// Print writes the tables and the verdicts for a terminal.
func (e Experiment) Print(out io.Writer, r *Result) error {
	fmt.Fprintf(out, "\n%s: %s (%d seeds)\n", e.ID, e.Title, len(r.Runs))
	for _, t := range e.Tables {
		fmt.Fprintf(out, "\n%s\n", t.Title)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		for _, line := range t.Cells(r) {
			fmt.Fprintln(w, strings.Join(line, "\t")+"\t")
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(out)
	if e.Void(r) {
		fmt.Fprintln(out, VoidText)
	}
	for _, c := range slices.Concat(e.Gates, e.Claims) {
		fmt.Fprintf(out, "claim: %s: %s\n", c.Text, c.Judge(r))
	}
	return nil
}
