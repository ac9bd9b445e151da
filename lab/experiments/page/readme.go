package main

import (
	"fmt"
	"os"
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

// seedsTable returns what X2's mini-batches teach: means over the seeds, and what each arm gains over random ones.
func seedsTable(results map[string]*evidence.Result, _ tally) string {
	r := results["x2"]
	if r == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("| mini-batches | AUC of ITM, % | more than random | missed, % | R@1 re-ranked, % | more than random |\n|---|---|---|---|---|---|\n")
	for _, row := range []evidence.Row{
		{Label: "the first model, before", Arm: "first"},
		{Label: "random", Arm: "random"},
		{Label: "GRIT, M = 480", Arm: "grit", X: 480},
		{Label: "GRIT + ECM, M = 480: connections become positives", Arm: "ecm", X: 480},
		{Label: "GRIT + ECM, M = 2,400", Arm: "ecm", X: 2400},
		{Label: "GRIT + ECM-E, M = 2,400: connections are left out", Arm: "eliminate", X: 2400},
		{Label: "MAFA, M = 2,400: GRIT + ECM and S-ITC", Arm: "mafa", X: 2400},
	} {
		at := func(name string) string {
			return r.Interval(evidence.Point{Arm: row.Arm, X: row.X, Name: name}).Format(1, 1)
		}
		more := func(name string) string {
			if row.Arm == "random" || row.Arm == "first" {
				return "-"
			}
			c := evidence.Claim{More: evidence.Point{Arm: row.Arm, X: row.X, Name: name}, Less: evidence.Point{Arm: "random", Name: name}}
			return c.Judge(r).Difference.Format(1, 2)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", row.Label, at("auc"), more("auc"), at("misses"), at("itm_r1"), more("itm_r1"))
	}
	return b.String()
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
