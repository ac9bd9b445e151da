package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
)

func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must.Do(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		out[rel] = string(raw)
		return err
	}))
	return out
}

// The document in the repository, and the sections of its README, are what the results give.
func TestDocumentIsUpToDate(t *testing.T) {
	out, readme := t.TempDir(), filepath.Join(t.TempDir(), "README.md")
	before := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "README.md")))(t)
	must.Do(t, os.WriteFile(readme, before, 0o644))
	must.Do(t, write(filepath.Join("..", "results"), out, readme))
	if after := must.Get(os.ReadFile(readme))(t); !bytes.Equal(before, after) {
		t.Error("README.md is not what the results give: run make docs")
	}
	for name, want := range content(t, out) {
		got, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name))
		if err != nil || string(got) != want {
			t.Errorf("docs/%s is not what the results give (%v): run make docs", name, err)
		}
	}
}

// Every result was made at a commit of this history, of the packages that it names. What has changed since is listed.
func TestResultsAreOfThisHistory(t *testing.T) {
	if _, err := os.Stat(filepath.Join("..", "..", "..", ".git")); errors.Is(err, fs.ErrNotExist) {
		t.Skip("these sources have no history")
	}
	for _, e := range evidence.All() {
		r := must.Get(evidence.Read(filepath.Join("..", "results"), e.ID))(t)
		if r == nil || r.Revision == "" { // the page says that it is not known
			continue
		}
		changed, err := r.Since(t.Context(), ".")
		if err != nil {
			t.Errorf("%s: %v", e.ID, err)
		}
		for _, p := range evidence.Primary() {
			if p.Experiment != e.ID {
				continue
			}
			before := must.Get(r.PrimaryAt(t.Context(), "."))(t)
			for _, claim := range p.Claims {
				if !evidence.IsPrimary(before, e.ID, claim) {
					t.Errorf("%s: %q was no primary claim at revision %s: it is secondary", e.ID, claim, r.Revision)
				}
			}
		}
		if len(changed) > 0 {
			t.Logf("%s, made at %s: since then these have changed: %s", e.ID, r.Revision, strings.Join(changed, ", "))
		}
	}
}

// written writes the page of a result of X1.
func written(t *testing.T, change func(*evidence.Result)) (map[string]string, error) {
	t.Helper()
	r := &evidence.Result{
		Experiment: "x1", Scale: 1, Source: evidence.Source{Revision: "abc"}, Settings: json.RawMessage("{}"),
		Machine: evidence.Machine{Processor: "Z80", Processors: 1, Device: "cpu", Threads: 1},
	}
	for seed := range uint64(3) {
		run := evidence.Run{Seed: seed + 1, Seconds: 60}
		for _, arm := range []string{"random clean", "GRIT clean", "GRIT noisy"} {
			less := 1.0
			if arm == "GRIT noisy" {
				less = 0.8
			}
			for i, x := range []float64{96, 480, 4800} {
				run.Measures = append(run.Measures, evidence.Measure{Arm: arm, X: x, Name: "image", Value: less*(0.03+0.01*float64(i)) + 0.001*float64(seed)})
			}
		}
		r.Add(run)
	}
	change(r)
	results, out := t.TempDir(), t.TempDir()
	must.Do(t, r.Write(results))
	readme := filepath.Join(out, "README.md")
	must.Do(t, os.WriteFile(readme, []byte("# x\n<!-- seeds: begin -->\n<!-- seeds: end -->\n<!-- claims: begin -->\nstale\n<!-- claims: end -->\nrest\n"), 0o644))
	err := write(results, out, readme)
	return content(t, out), err
}

func TestPageOfAResult(t *testing.T) {
	files := must.Get(written(t, func(*evidence.Result) {}))(t)
	page := files["experiments.md"]
	for _, want := range []string{
		"| [X1: False negatives by sampling](#x1-false-negatives-by-sampling) | MAFA Table 1, Table 9, figures 2 and 5 | 3 of 8 |",
		"3.0 min",
		// The seeds give 3.0, 3.1 and 3.2 %: 4.3027 * 0.1 / sqrt(3) = 0.25.
		"| random, clean | 3.10 ± 0.25 | - | - |",
		"![False negatives over the search space, N = 96](experiments/x1-space.svg)",
		"| clean data have more than noisy data by image (GRIT) | holds: difference 0.0100 ± 0.0000 |",
		"| clean data have more than noisy data by text (GRIT) | not shown: fewer than two seeds |",
		"Of 2 claims 1 hold, 0 are undecided, and of 0 the opposite is shown. After Holm's correction for all of them 1 hold.",
		"at revision abc with changes.",
		"There is no result yet. `make experiments ARGS=--only=x8` makes it.",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if readme := files["README.md"]; !strings.Contains(readme, "begin -->\nOf 2 claims 1 hold") || strings.Contains(readme, "stale") || !strings.HasSuffix(readme, "rest\n") {
		t.Errorf("the README says\n%s", readme)
	}
	figure := files[filepath.Join("experiments", "x1-space.svg")]
	if !strings.Contains(figure, "<svg") || !strings.Contains(figure, "by image") || strings.Contains(figure, "by text") {
		t.Errorf("the figure lacks its line, or has one of no measures: %.300s", figure)
	}
	again, err := written(t, func(*evidence.Result) {})
	for name, text := range files {
		if err != nil || !bytes.Equal([]byte(text), []byte(again[name])) {
			t.Errorf("%s differs the second time, %v", name, err)
		}
	}
}

func TestPageRefusesShortRuns(t *testing.T) {
	if _, err := written(t, func(r *evidence.Result) { r.Short = true }); err == nil || !strings.Contains(err.Error(), "without --short") {
		t.Errorf("error %v, want one that names --short", err)
	}
}

// A figure of arms has a line for each arm that was measured, and differences paired by seed.
func TestFigureOfArms(t *testing.T) {
	r := &evidence.Result{Experiment: "x7"}
	for seed := range uint64(3) {
		at := float64(seed)
		r.Add(evidence.Run{Seed: seed + 1, Measures: []evidence.Measure{
			{Arm: "base", Name: "rsum", Value: 100 + 10*at}, {Arm: "better", Name: "rsum", Value: 103 + 11*at},
		}})
	}
	f := evidence.Figure{Name: "f", Title: "T", X: "difference", Base: "base", Measure: "rsum", Arms: []evidence.Row{{Label: "Better", Arm: "better"}, {Label: "Missing", Arm: "missing"}}}
	path := filepath.Join(t.TempDir(), "f.svg")
	must.Do(t, drawFigure(path, f, r))
	raw, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(raw, []byte(">Better<")) || bytes.Contains(raw, []byte(">Missing<")) {
		t.Errorf("the figure names what was not measured, or not what was: %v\n%s", err, raw)
	}
	f.Arms = f.Arms[1:]
	if err := drawFigure(path, f, r); !errors.Is(err, errNothing) {
		t.Errorf("a figure of nothing: %v", err)
	}
}

// madeUp returns a result of X14 that was never measured: ECM is a point above random mini-batches in each seed, and
// all else is equal to them.
func madeUp(seeds uint64) *evidence.Result {
	r := &evidence.Result{
		Experiment: "x14", Scale: 1, Source: evidence.Source{Revision: "abc", Clean: true}, Settings: json.RawMessage("{}"),
		Machine: evidence.Machine{Processor: "Z80", Processors: 1, Device: "cpu", Threads: 1},
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		run := evidence.Run{Seed: seed, Seconds: 60}
		for _, arm := range []string{"first", "random", "random, four epochs", "grit", "two candidates", "ecm", "eliminate", "coin", "words", "oracle", "smoothed", "mafa"} {
			for i, name := range []string{"itm_r1", "auc", "misses"} {
				value := 70 + 10*float64(i) + float64(seed)
				if arm == "ecm" && name != "misses" {
					value += 1 + 0.01*float64(seed)
				}
				run.Measures = append(run.Measures, evidence.Measure{Arm: arm, Name: name, Value: value})
			}
		}
		run.Measures = append(run.Measures, evidence.Measure{Arm: "words", Name: "recall", Value: 0.31}, evidence.Measure{Arm: "ecm", Name: "recall", Value: 0.82})
		r.Add(run)
	}
	return r
}

// pageOf writes the document and a README of results.
func pageOf(t *testing.T, list ...*evidence.Result) (page, readme string) {
	t.Helper()
	results, out := t.TempDir(), t.TempDir()
	for _, r := range list {
		must.Do(t, r.Write(results))
	}
	path := filepath.Join(out, "README.md")
	must.Do(t, os.WriteFile(path, []byte("<!-- seeds: begin -->\n<!-- seeds: end -->\n<!-- claims: begin -->\n<!-- claims: end -->\n"), 0o644))
	must.Do(t, write(results, out, path))
	return string(must.Get(os.ReadFile(filepath.Join(out, "experiments.md")))(t)), string(must.Get(os.ReadFile(path))(t))
}

// The README's first table is that of X14 as soon as X14 has an interval, and of X2 before.
func TestFirstTableOfReadme(t *testing.T) {
	x2 := must.Get(evidence.Read(filepath.Join("..", "results"), "x2"))(t)
	for name, c := range map[string]struct {
		results []*evidence.Result
		want    []string
	}{
		"without X14":    {[]*evidence.Result{x2}, []string{"begin -->\nEight seeds, from one converged first model", "| GRIT, M = 480 | 96.6"}},
		"one seed of it": {[]*evidence.Result{x2, madeUp(1)}, []string{"begin -->\nEight seeds", "| GRIT, M = 480 | 96.6"}},
		"nine seeds of it": {[]*evidence.Result{x2, madeUp(9)}, []string{
			"begin -->\nMeans of nine seeds with three converged first models", "--only=x14`; `pairstream demo --partial` shows one seed",
			"| mini-batches | R@1 re-ranked, % | more than random | AUC of ITM, % | more than random | missed, % |",
			"| random | 75.0 ± 2.1 | - | 85.0 ± 2.1 | - | 95.0 ± 2.1 |",
			// 1.01 to 1.09: 2.306 * 0.0274 / 3 = 0.021.
			"| GRIT + ECM: connections become positives | 76.1 ± 2.1 | 1.05 ± 0.02 | 86.1 ± 2.1 | 1.05 ± 0.02 | 95.0 ± 2.1 |",
			"Of 6 claims that were written down before the run, after Holm's correction:\n\n- holds: ECM raises R@1 re-ranked over random mini-batches\n",
			"- undecided: ECM misses fewer pairs than GRIT\n", "find 31 % of the true pairs among the candidates. Con-D finds 82 %.",
		}},
	} {
		_, readme := pageOf(t, c.results...)
		for _, want := range c.want {
			if !strings.Contains(readme, want) {
				t.Errorf("%s: no %q in\n%s", name, want, readme)
			}
		}
	}
}

// Primary claims have a table of their own, with the effect of each pair of models, and doubts are listed with and
// without a result.
func TestPageOfPrimaryClaims(t *testing.T) {
	page, _ := pageOf(t, madeUp(9))
	_, section, _ := strings.Cut(page, "\n## X14")
	for _, want := range []string{
		"Primary claims, written down on 2026-11-27, before the run:",
		"| claim | what the seeds say | p by Holm | after the correction |",
		"| ECM raises R@1 re-ranked over random mini-batches | holds: difference 1.05 ± 0.02 | 0.000 | holds |",
		"| ECM misses fewer pairs than GRIT | undecided: difference 0.0 ± 0.0; 999 seeds would not decide | 1.000 | undecided |",
		"| difference | 1A | 1B | 1C | 2A | 2B | 2C | 3A | 3B | 3C | above 0 | over first models | over Con-Ds |",
		// Seed 9 has the first model 0 and the Con-D 0, seed 3 the Con-D 1, seed 6 the Con-D 2.
		"| ECM raises R@1 re-ranked over random mini-batches | +1.09 | +1.03 | +1.06 | +1.07 | +1.01 | +1.04 | +1.05 | +1.08 | +1.02 | 9 of 9 |",
		"Secondary claims, chosen among many:\n\n| claim | what the seeds say |\n",
		"| ECM raises the AUC of ITM over a coin of precision 0.5 | holds: difference 1.05 ± 0.02 |\n",
		"What a sceptic would still ask:\n\n- Nine seeds share three first models",
	} {
		if !strings.Contains(section, want) {
			t.Errorf("no %q in\n%s", want, section)
		}
	}
	page, _ = pageOf(t)
	if _, section, _ := strings.Cut(page, "\n## X14"); !strings.Contains(section, "There is no result yet") || !strings.Contains(section, "What a sceptic would still ask") {
		t.Errorf("without a result X14 says\n%s", section)
	}
}

// An experiment whose gate does not hold says that it is void.
func TestGate(t *testing.T) {
	result := func(random float64) *evidence.Result {
		r := madeUp(9)
		r.Experiment = "x15"
		for _, run := range r.Runs {
			for i, m := range run.Measures {
				if m.Arm == "random" && m.Name == "itm_r1" {
					run.Measures[i].Value += random
				}
			}
		}
		return r
	}
	for gain, void := range map[float64]bool{1: false, 0: true, -1: true} {
		page, _ := pageOf(t, result(gain))
		_, section, _ := strings.Cut(page, "\n## X15")
		if !strings.Contains(section, "| random mini-batches raise R@1 re-ranked over their start |") || strings.Contains(section, evidence.VoidText) != void {
			t.Errorf("random mini-batches %g above their start: void is not %t in\n%s", gain, void, section)
		}
	}
}

// A claim that holds on its own does not after a correction that takes it above the level.
func TestCorrectionTakesBack(t *testing.T) {
	for _, c := range []struct {
		before evidence.Outcome
		p      float64
		want   evidence.Outcome
	}{
		{evidence.Holds, 0.049, evidence.Holds},
		{evidence.Holds, 0.05, evidence.Undecided},
		{evidence.Opposite, 0.2, evidence.Undecided},
		{evidence.Opposite, 0.01, evidence.Opposite},
		{evidence.Unknown, 1, evidence.Unknown},
	} {
		if got := after(evidence.Verdict{Outcome: c.before}, c.p); got != c.want {
			t.Errorf("%s with p = %v is %s, want %s", c.before, c.p, got, c.want)
		}
	}
}

// A README without the sections is refused, before anything in it is lost.
func TestReadmeWithoutSections(t *testing.T) {
	readme := filepath.Join(t.TempDir(), "README.md")
	must.Do(t, os.WriteFile(readme, []byte("# x\n"), 0o644))
	err := writeReadme(readme, nil, tally{})
	if err == nil || !strings.Contains(err.Error(), "has no section <!-- seeds: begin -->") || string(must.Get(os.ReadFile(readme))(t)) != "# x\n" {
		t.Errorf("error %v", err)
	}
}
