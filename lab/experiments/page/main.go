// Command page writes docs/experiments.md, its figures, and two sections of README.md from the results of the
// experiments.
//
//	bin/lab/page
//
// It reads lab/experiments/results. The same results give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pairstream/pairstream/lab/experiments/evidence"
)

func main() {
	results := flag.String("results", filepath.Join("lab", "experiments", "results"), "folder of the results")
	out := flag.String("out", "docs", "folder of the document")
	readme := flag.String("readme", "README.md", "file whose sections are written")
	flag.Parse()
	if err := write(*results, *out, *readme); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

// write writes the document, its figures and the sections of a README.
func write(results, out, readme string) error {
	var text strings.Builder
	text.WriteString(intro)
	type chapter struct {
		evidence.Experiment
		result *evidence.Result
	}
	var chapters []chapter
	byID := map[string]*evidence.Result{}
	for _, e := range evidence.All() {
		r, err := evidence.Read(results, e.ID)
		if err != nil {
			return err
		}
		if r != nil && r.Short {
			return fmt.Errorf("the result of %s is of a short run, which shows nothing: run it without --short", e.ID)
		}
		chapters = append(chapters, chapter{e, r})
		byID[e.ID] = r
	}
	text.WriteString("| experiment | repeats | seeds | claims that hold | undecided | the opposite | time of all seeds |\n|---|---|---|---|---|---|---|\n")
	var all tally
	for _, s := range chapters {
		text.WriteString(summary(s.Experiment, s.result))
		all.add(s.Experiment, s.result)
	}
	fmt.Fprintf(&text, "\n%s\n", all)
	corrected := primary(byID)
	for _, s := range chapters {
		text.WriteString(describe(s.Experiment, s.result, corrected))
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
	return writeReadme(readme, byID, all)
}

const intro = `# Experiments

What the papers found, repeated where the truth is known. [papers](papers.md) tells where everything is in the code.
The generator of scenes knows which caption is true of which picture ([internal/demo/scenes](../internal/demo/scenes/doc.go)).

- Settings are chosen on seeds 101 to 103, and reported on other seeds.
- "±" is half of a 95 % interval over the seeds, by Student's t.
- A claim compares measures of the same seed. It holds when the interval of the differences lies above 0, and the opposite when it
  lies below 0. Else it is undecided, and the table says how many seeds would decide if the difference stayed that large.
- Claims of yes and no have the interval of Clopper and Pearson. An interval that begins at 0 or ends at 1 does not count as one that
  covers the truth.
- Holm's correction is for the number of all claims. It is what a reader should believe who picks one claim of many.
- Primary claims were written into [primary.json](../lab/experiments/evidence/primary.json) before the run, and a test holds results
  against the file of their revision. Their own tables correct for all primary claims. All other claims are secondary: they were chosen
  among many.
- A claim that does not hold stays on this page. One that could not fail is not on it.
- Every experiment is one command: ` + "`make experiments ARGS=--only=x1`" + `. It writes [lab/experiments/results](../lab/experiments/results), and
  ` + "`make docs`" + ` makes this page of it.
- More is run with ` + "`--scale 10 --device cuda`" + `. ` + "`--short`" + ` runs everything small, to test the way.
- The arms of MAFA run on a world of your own: ` + "`bin/lab/lab experiments --world DIR`" + ` takes WebDataset tars whose JSON has ` + "`captions`" + `
  and ` + "`same`" + `, an id that all pictures of one thing share. Things are held out, and a caption of one picture is true of all of its thing.
- The times were taken beside other programs.

`

// summary returns the line of an experiment in the first table.
func summary(e evidence.Experiment, r *evidence.Result) string {
	link := fmt.Sprintf("[%s](#%s)", heading(e), anchor(heading(e)))
	if r == nil {
		return fmt.Sprintf("| %s | %s | 0 of %d | not run yet | | | |\n", link, e.Repeats, len(e.Seeds))
	}
	var t tally
	t.add(e, r)
	return fmt.Sprintf("| %s | %s | %d of %d | %d of %d | %d | %d | %s |\n",
		link, e.Repeats, len(r.Runs), len(e.Seeds), t.of(evidence.Holds), len(t.verdicts), t.of(evidence.Undecided), t.of(evidence.Opposite), minutes(r.Seconds()))
}

// tally collects verdicts.
type tally struct{ verdicts []evidence.Verdict }

func (t *tally) add(e evidence.Experiment, r *evidence.Result) {
	if r == nil {
		return
	}
	for _, c := range e.Claims {
		t.verdicts = append(t.verdicts, c.Judge(r))
	}
}

// of counts the verdicts of an outcome.
func (t *tally) of(o evidence.Outcome) (n int) {
	for _, v := range t.verdicts {
		if v.Outcome == o {
			n++
		}
	}
	return n
}

// corrected counts those that hold after Holm's correction for the number of all.
func (t *tally) corrected() (n int) {
	var known []evidence.Verdict
	var ps []float64
	for _, v := range t.verdicts {
		if v.Outcome != evidence.Unknown {
			known, ps = append(known, v), append(ps, v.P)
		}
	}
	for i, p := range evidence.Holm(ps) {
		if known[i].Outcome == evidence.Holds && p < level {
			n++
		}
	}
	return n
}

// String says what became of all claims.
func (t tally) String() string {
	text := fmt.Sprintf("Of %d claims %d hold, %d are undecided, and of %d the opposite is shown. After Holm's correction for all of them %d hold.",
		len(t.verdicts), t.of(evidence.Holds), t.of(evidence.Undecided), t.of(evidence.Opposite), t.corrected())
	if n := t.of(evidence.Unknown); n > 0 {
		text += fmt.Sprintf(" For %d there are fewer than two seeds that say anything.", n)
	}
	return text
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

// cost says what a result took, and where.
func cost(command string, r *evidence.Result) string {
	var load float64
	for _, run := range r.Runs {
		load = max(load, run.Load)
	}
	text := fmt.Sprintf("%s took %s for %d seeds, added up, on %s with %d threads (%d x %s, load up to %.0f). It was made %s.",
		command, minutes(r.Seconds()), len(r.Runs), r.Machine.Device, r.Machine.Threads, r.Machine.Processors, r.Machine.Processor, load, made(r))
	if r.Scale > 1 {
		text += fmt.Sprintf(" It ran with `--scale %d`.", r.Scale)
	}
	return text + fmt.Sprintf(" All settings and measures: [%s.json](../lab/experiments/results/%s.json).", r.Experiment, r.Experiment)
}

// made says from what a result was made.
func made(r *evidence.Result) string {
	switch {
	case r.Revision == "":
		return "at a revision that is not known"
	case r.Digest == "":
		return fmt.Sprintf("at revision %s, as was noted before results had digests", r.Revision)
	case !r.Clean:
		return fmt.Sprintf("at revision %s with changes", r.Revision)
	}
	return fmt.Sprintf("at revision %s, with digest %s", r.Revision, r.Digest)
}

var errNothing = errors.New("no line has a measure")
