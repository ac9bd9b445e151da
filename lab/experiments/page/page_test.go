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

// A README without the sections is refused, before anything in it is lost.
func TestReadmeWithoutSections(t *testing.T) {
	readme := filepath.Join(t.TempDir(), "README.md")
	must.Do(t, os.WriteFile(readme, []byte("# x\n"), 0o644))
	err := writeReadme(readme, nil, tally{})
	if err == nil || !strings.Contains(err.Error(), "has no section <!-- seeds: begin -->") || string(must.Get(os.ReadFile(readme))(t)) != "# x\n" {
		t.Errorf("error %v", err)
	}
}
