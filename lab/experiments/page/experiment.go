package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/lab/experiments/evidence"
)

// describe returns the section of an experiment.
func describe(e evidence.Experiment, r *evidence.Result, corrected map[string]float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\nRepeats %s. %s\n\nSmaller than in the paper: %s\n", heading(e), e.Repeats, e.Text, e.Small)
	command := "`make experiments ARGS=--only=" + e.ID + "`"
	if e.Photographs {
		command = "`make experiments ARGS=\"--only=" + e.ID + " --photographs DIR\"`"
	}
	if r == nil {
		fmt.Fprintf(&b, "\nThere is no result yet. %s makes it.\n", command)
		b.WriteString(doubts(e.Doubts))
		return b.String()
	}
	for _, t := range e.Tables {
		b.WriteString(table(t.Title, t.Cells(r)))
	}
	for _, f := range e.Figures {
		fmt.Fprintf(&b, "\n![%s](experiments/%s.svg)\n", f.Title, f.Name)
		if f.Comment != "" {
			fmt.Fprintf(&b, "\n%s\n", f.Comment)
		}
	}
	b.WriteString(verdicts(e, r, corrected))
	b.WriteString(doubts(e.Doubts))
	fmt.Fprintf(&b, "\n%s\n", cost(command, r))
	return b.String()
}

// table returns a table, whose first line is its head. Of nothing it returns nothing.
func table(title string, cells [][]string) string {
	var b strings.Builder
	for i, line := range cells {
		if i == 0 {
			fmt.Fprintf(&b, "\n%s:\n\n", title)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(line)))
		}
	}
	return b.String()
}

// level is the largest p of a claim that holds.
const level = 0.05

// verdicts returns the claims of an experiment: the primary ones, their effects by pair of models, and the others.
func verdicts(e evidence.Experiment, r *evidence.Result, corrected map[string]float64) string {
	first, others := [][]string{{"claim", "what the seeds say", "p by Holm", "after the correction"}}, [][]string{{"claim", "what the seeds say"}}
	var chosen []evidence.Claim
	for _, c := range e.Claims {
		v := c.Judge(r)
		p, primary := corrected[e.ID+": "+c.Text]
		if !primary {
			others = append(others, []string{c.Text, v.String()})
			continue
		}
		chosen, first = append(chosen, c), append(first, []string{c.Text, v.String(), fmt.Sprintf("%.3f", p), after(v, p).String()})
	}
	text, title := "", "Claims"
	if len(e.Gates) > 0 {
		gates := [][]string{{"what has to hold", "what the seeds say"}}
		for _, c := range e.Gates {
			gates = append(gates, []string{c.Text, c.Judge(r).String()})
		}
		text = table("Gate", gates)
		if e.Void(r) {
			text += "\n" + evidence.VoidText + "\n"
		}
	}
	if len(chosen) > 0 {
		title = "Secondary claims, chosen among many"
		text += table("Primary claims, written down on "+writtenOn(e.ID)+", before the run", first)
		if e.Versions > 0 {
			text += table("Primary claims by first model (1, 2, ...) and connection discriminator (A, B, ...)", r.ByModels(chosen, e.Versions))
		}
	}
	if len(others) > 1 {
		text += table(title, others)
	}
	return text
}

// after returns the outcome of a verdict when p is corrected.
func after(v evidence.Verdict, p float64) evidence.Outcome {
	if p >= level && v.Outcome != evidence.Unknown {
		return evidence.Undecided
	}
	return v.Outcome
}

// writtenOn returns the day on which the primary claims of an experiment were written down.
func writtenOn(id string) string {
	list := evidence.Primary()
	return list[slices.IndexFunc(list, func(p evidence.PrimaryClaims) bool { return p.Experiment == id })].Written
}

// doubts lists what a sceptic would still ask.
func doubts(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return "\nWhat a sceptic would still ask:\n\n- " + strings.Join(list, "\n- ") + "\n"
}

// primary returns the p of the primary claims that have a result, corrected for their number.
func primary(results map[string]*evidence.Result) map[string]float64 {
	var names []string
	var ps []float64
	for _, e := range evidence.All() {
		for _, c := range e.Claims {
			if r := results[e.ID]; r != nil && evidence.IsPrimary(evidence.Primary(), e.ID, c.Text) {
				names, ps = append(names, e.ID+": "+c.Text), append(ps, c.Judge(r).P)
			}
		}
	}
	out := map[string]float64{}
	for i, p := range evidence.Holm(ps) {
		out[names[i]] = p
	}
	return out
}
