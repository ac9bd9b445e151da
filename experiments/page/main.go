// Command page writes docs/experiments.md and its figures from the results of the experiments.
//
//	go run ./experiments/page
//
// It reads experiments/results and writes into docs. The same results give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pairstream/pairstream/experiments/evidence"
)

func main() {
	results := flag.String("results", filepath.Join("experiments", "results"), "folder of the results")
	out := flag.String("out", "docs", "folder of the document")
	flag.Parse()
	if err := write(*results, *out); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

// write writes the document and its figures.
func write(results, out string) error {
	var text strings.Builder
	text.WriteString(intro)
	type section struct {
		evidence.Experiment
		result *evidence.Result
	}
	var sections []section
	for _, e := range evidence.All() {
		r, err := evidence.Read(results, e.ID)
		if err != nil {
			return err
		}
		if r != nil && r.Short {
			return fmt.Errorf("the result of %s is of a short run, which shows nothing: run it without --short", e.ID)
		}
		sections = append(sections, section{e, r})
	}
	text.WriteString("| experiment | repeats | seeds | claims that hold | time of all seeds |\n|---|---|---|---|---|\n")
	for _, s := range sections {
		text.WriteString(summary(s.Experiment, s.result))
	}
	for _, s := range sections {
		text.WriteString(describe(s.Experiment, s.result))
		if s.result == nil {
			continue
		}
		for _, f := range s.Figures {
			if err := drawFigure(filepath.Join(out, "experiments", f.Name+".svg"), f, s.result); err != nil {
				return fmt.Errorf("drawing figure %s: %w", f.Name, err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(out, "experiments.md"), []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("writing the document: %w", err)
	}
	return nil
}

const intro = `# Experiments

What the papers found, repeated where the truth is known. [papers](papers.md) tells where everything is in the code.
The generator of scenes knows which caption is true of which picture ([internal/demo/scenes](../internal/demo/scenes/doc.go)).

- Settings are chosen on seeds 101 to 103, and reported on other seeds.
- "±" is half of a 95 % interval over the seeds, by Student's t.
- A claim compares measures of the same seed. It holds when the interval of the differences lies above 0.
- A claim that does not hold stays on this page.
- Every experiment is one command: ` + "`make experiments ARGS=--only=x1`" + `. It writes [experiments/results](../experiments/results), and
  ` + "`make docs`" + ` makes this page of it.
- More is run with ` + "`--scale 10 --device cuda`" + `. ` + "`--short`" + ` runs everything small, to test the way.
- The times were taken beside other programs.

`

// summary returns the line of an experiment in the first table.
func summary(e evidence.Experiment, r *evidence.Result) string {
	link := fmt.Sprintf("[%s](#%s)", heading(e), anchor(heading(e)))
	if r == nil {
		return fmt.Sprintf("| %s | %s | 0 of %d | not run yet | |\n", link, e.Repeats, len(e.Seeds))
	}
	holds := 0
	for _, c := range e.Claims {
		if c.Judge(r).Holds {
			holds++
		}
	}
	return fmt.Sprintf("| %s | %s | %d of %d | %d of %d | %s |\n", link, e.Repeats, len(r.Runs), len(e.Seeds), holds, len(e.Claims), minutes(r.Seconds()))
}

func heading(e evidence.Experiment) string { return strings.ToUpper(e.ID) + ": " + e.Title }

// anchor returns the anchor that GitHub gives to a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(heading)), " ", "-")
}

func minutes(seconds float64) string { return fmt.Sprintf("%.1f min", seconds/60) }

// describe returns the section of an experiment.
func describe(e evidence.Experiment, r *evidence.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\nRepeats %s. %s\n\nSmaller than in the paper: %s\n", heading(e), e.Repeats, e.Text, e.Small)
	command := "`make experiments ARGS=--only=" + e.ID + "`"
	if e.Photographs {
		command = "`make experiments ARGS=\"--only=" + e.ID + " --photographs DIR\"`"
	}
	if r == nil {
		fmt.Fprintf(&b, "\nThere is no result yet. %s makes it.\n", command)
		return b.String()
	}
	for _, t := range e.Tables {
		fmt.Fprintf(&b, "\n%s:\n\n", t.Title)
		for i, line := range t.Cells(r) {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
			if i == 0 {
				fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(line)))
			}
		}
	}
	for _, f := range e.Figures {
		fmt.Fprintf(&b, "\n![%s](experiments/%s.svg)\n", f.Title, f.Name)
		if f.Comment != "" {
			fmt.Fprintf(&b, "\n%s\n", f.Comment)
		}
	}
	fmt.Fprint(&b, "\n| claim | what the seeds say |\n|---|---|\n")
	for _, c := range e.Claims {
		v := c.Judge(r)
		more := ""
		if n := v.Enough(); e.Power && !v.Holds && n > 0 {
			more = fmt.Sprintf("; %d seeds would show it, if it is that large", n)
		}
		fmt.Fprintf(&b, "| %s | %s%s |\n", c.Text, v, more)
	}
	fmt.Fprintf(&b, "\n%s\n", cost(command, r))
	return b.String()
}

// cost says what a result took, and where.
func cost(command string, r *evidence.Result) string {
	var load float64
	for _, run := range r.Runs {
		load = max(load, run.Load)
	}
	text := fmt.Sprintf("%s took %s for %d seeds, added up, on %s with %d threads (%d x %s, load up to %.0f), at revision %s.",
		command, minutes(r.Seconds()), len(r.Runs), r.Machine.Device, r.Machine.Threads, r.Machine.Processors, r.Machine.Processor, load, r.Revision)
	if r.Scale > 1 {
		text += fmt.Sprintf(" It ran with `--scale %d`.", r.Scale)
	}
	return text + fmt.Sprintf(" All settings and measures: [%s.json](../experiments/results/%s.json).", r.Experiment, r.Experiment)
}

var errNothing = errors.New("no line has a measure")
