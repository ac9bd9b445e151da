package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/lab/experiments/evidence"
)

// section is a part of README.md that this program writes.
type section struct {
	begin, end string
	text       func(map[string]*evidence.Result, tally) string
}

var sections = []section{
	{"<!-- seeds: begin -->\n", "<!-- seeds: end -->", seedsTable},
	{"<!-- claims: begin -->\n", "<!-- claims: end -->", claimsText},
}

// writeReadme replaces the sections of a README.
func writeReadme(path string, results map[string]*evidence.Result, all tally) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("writing the results into the README: %w", err)
	}
	text := string(raw)
	for _, s := range sections {
		before, rest, ok := strings.Cut(text, s.begin)
		_, after, ended := strings.Cut(rest, s.end)
		if !ok || !ended {
			return fmt.Errorf("%s has no section %s ... %s", path, strings.TrimSpace(s.begin), s.end)
		}
		text = before + s.begin + s.text(results, all) + s.end + after
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the results into the README: %w", err)
	}
	return nil
}

// gainsTable describes the first table of the README: a row for each arm, with its gain over random mini-batches.
type gainsTable struct {
	names  []string // of measures with a gain, the more important first
	labels []string // of names
	rows   []evidence.Row
}

// missed is the share of true pairs that the matching head rejects.
const missed = "misses"

// write returns the table of a result.
func (t gainsTable) write(r *evidence.Result) string {
	head := []string{"mini-batches"}
	for _, label := range t.labels {
		head = append(head, label, "more than random")
	}
	head = append(head, "missed, %")
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, row := range t.rows {
		at := func(name string) evidence.Point { return evidence.Point{Arm: row.Arm, X: row.X, Name: name} }
		line := []string{row.Label}
		for _, name := range t.names {
			gain := "-"
			if row.Arm != "random" && row.Arm != "first" {
				gain = evidence.Claim{More: at(name), Less: evidence.Point{Arm: "random", Name: name}}.Judge(r).Difference.Format(1, 2)
			}
			line = append(line, r.Interval(at(name)).Format(1, 1), gain)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(append(line, r.Interval(at(missed)).Format(1, 1)), " | "))
	}
	return b.String()
}

// seedsTable returns what mini-batches teach: means over the seeds, and what each arm gains over random ones. It is of
// X14, whose truth needs the pictures, and of X2 until X14 has two seeds.
func seedsTable(results map[string]*evidence.Result, _ tally) string {
	if r := results["x14"]; r != nil && len(r.Runs) > 1 {
		return partialTable(r, primary(results))
	}
	if r := results["x2"]; r != nil {
		return enumeratedTable(r)
	}
	return ""
}

// enumeratedTable returns the table of X2, and what is to be seen in it.
func enumeratedTable(r *evidence.Result) string {
	return number(len(r.Runs)) + ` seeds, from one converged first model, on the same pairs and with equal steps (` + "`make experiments ARGS=--only=x2`" + `):

` + gainsTable{[]string{"auc", "itm_r1"}, []string{"AUC of ITM, %", "R@1 re-ranked, %"}, []evidence.Row{
		{Label: "the first model, before", Arm: "first"},
		{Label: "random", Arm: "random"},
		{Label: "GRIT, M = 480", Arm: "grit", X: 480},
		{Label: "GRIT + ECM, M = 480: connections become positives", Arm: "ecm", X: 480},
		{Label: "GRIT + ECM, M = 2,400", Arm: "ecm", X: 2400},
		{Label: "GRIT + ECM-E, M = 2,400: connections are left out", Arm: "eliminate", X: 2400},
		{Label: "MAFA, M = 2,400: GRIT + ECM and S-ITC", Arm: "mafa", X: 2400},
	}}.write(r) + `
"±" is half of a 95 % interval over the seeds. All seeds share one first model and one connection discriminator (Con-D). GRIT's negatives
teach the image-text-matching head (ITM) more, and to reject true pairs, as some are false. Connections take that back. Leaving
them out (ECM-E) is best here. MAFA as its paper defines it, with smoothed targets of ITC (S-ITC), lies below random. A rule that
compares the words of two captions finds these false negatives as well as Con-D does.
`
}

// partialTable returns the table of X14, what became of its primary claims, and what the rule of equal words finds.
func partialTable(r *evidence.Result, corrected map[string]float64) string {
	text := fmt.Sprintf(`Means of %s seeds with three converged first models, on the same pairs and with equal steps. Captions omit things, so that
truth needs the picture (%[2]smake experiments ARGS=--only=x14%[2]s; %[2]spairstream demo --partial%[2]s shows one seed, with M = 480):

`, strings.ToLower(number(len(r.Runs))), "`")
	text += gainsTable{[]string{"itm_r1", "auc"}, []string{"R@1 re-ranked, %", "AUC of ITM, %"}, []evidence.Row{
		{Label: "the first model, before", Arm: "first"},
		{Label: "random", Arm: "random"},
		{Label: "random, a third more steps", Arm: "random, four epochs"},
		{Label: "GRIT", Arm: "grit"},
		{Label: "GRIT + ECM: connections become positives", Arm: "ecm"},
		{Label: "GRIT + ECM, the truth in Con-D's place", Arm: "oracle"},
		{Label: "GRIT + ECM-E: connections are left out", Arm: "eliminate"},
		{Label: "MAFA: GRIT + ECM and S-ITC", Arm: "mafa"},
	}}.write(r)
	text += `
"±" is half of a 95 % interval over the seeds, which share three first models and three connection discriminators (Con-D). ITM is the
image-text-matching head. ` + primaryText("x14", r, corrected)
	recall := func(arm string) float64 {
		return 100 * r.Interval(evidence.Point{Arm: arm, Name: "recall"}).Mean
	}
	if words := recall("words"); !math.IsNaN(words) {
		text += fmt.Sprintf("Equal words, a rule without a model, find %.0f %% of the true pairs among the candidates. Con-D finds %.0f %%.\n", words, recall("ecm"))
	}
	return text
}

// primaryText says what became of the primary claims of an experiment, after the correction for their number.
func primaryText(id string, r *evidence.Result, corrected map[string]float64) string {
	e, err := evidence.Find(id)
	if err != nil {
		return ""
	}
	said := map[evidence.Outcome][]string{}
	n := 0
	for _, c := range e.Claims {
		if p, primary := corrected[e.ID+": "+c.Text]; primary {
			o := after(c.Judge(r), p)
			said[o], n = append(said[o], c.Text), n+1
		}
	}
	text := fmt.Sprintf("Of %d claims that were written down before the run, after Holm's correction:\n\n", n)
	for _, o := range []evidence.Outcome{evidence.Holds, evidence.Opposite, evidence.Undecided, evidence.Unknown} {
		for _, claim := range said[o] {
			text += fmt.Sprintf("- %s: %s\n", o, claim)
		}
	}
	return text + "\n"
}

// number returns a small number in words.
func number(n int) string {
	words := []string{"No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"}
	if n < len(words) {
		return words[n]
	}
	return strconv.Itoa(n)
}

// claimsText says how many claims hold, and what the guard is worth.
func claimsText(results map[string]*evidence.Result, all tally) string {
	text := all.String() + "\n"
	covered, of, groups := 0, 0, 0
	r := results["x11"]
	if r == nil {
		return text
	}
	for _, arm := range []string{"con-d", "first", "weak"} {
		v := evidence.Claim{More: evidence.Point{Arm: arm, Name: "covered"}}.Judge(r)
		covered, of, groups = covered+v.Yes, of+v.Of, groups+len(r.Runs)
	}
	text += fmt.Sprintf("Of %d groups of scenes the guard's interval excludes values on both sides in %d, and covers the truth in %d of these (X11).\n", groups, of, covered)
	if r := results["x13"]; r != nil {
		at := func(name string) float64 {
			return 100 * r.Interval(evidence.Point{Arm: "Con-D", X: 0.8, Name: name}).Mean
		}
		text += fmt.Sprintf("On photographs that people judged, %.0f %% of Con-D's connections above 0.8 are true. The guard cannot tell, and leaves them off (X13).\n", at("precision"))
	}
	return text
}
