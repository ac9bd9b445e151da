package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5}, {[]float64{1, 100, 2, 3}, 2.5}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

func TestTheTableSaysWhatWasMeasuredBesideOtherPrograms(t *testing.T) {
	for busy, want := range map[float64]bool{0: false, 3.2: true} {
		text := mainTable(map[string]*Result{rows[0].name: {Row: rows[0].name, Unit: "s", Turns: 5, Busy: busy}})
		if got := strings.Contains(text, rows[0].name+": measured beside other programs, with a load of 3.2 before"); got != want {
			t.Errorf("with a load of %v before the run, the table says so: %v", busy, got)
		}
	}
}

func TestAmounts(t *testing.T) {
	for _, c := range []struct {
		value float64
		want  string
	}{{0.0123, "0.012 s"}, {1.234, "1.23 s"}, {12.34, "12.3 s"}, {123.4, "123 s"}, {1234.5, "1,235 s"}, {1234567, "1,234,567 s"}} {
		if got := amount(c.value, "s"); got != c.want {
			t.Errorf("%v is written %q, want %q", c.value, got, c.want)
		}
	}
}

func TestRowsAreKnownByName(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.name] {
			t.Errorf("two rows are called %s", r.name)
		}
		seen[r.name] = true
	}
	if all, err := choose(rows, ""); err != nil || len(all) != len(rows) {
		t.Errorf("%d rows, %v", len(all), err)
	}
	if two, err := choose(rows, "walk,group"); err != nil || len(two) != 2 || two[0].name != "walk" || two[1].name != "group" {
		t.Errorf("%v, %v", two, err)
	}
	if _, err := choose(rows, "walk,run"); err == nil {
		t.Error("a row that is not there is taken")
	}
}

// echo returns a worker that answers with what it was told.
func echo(said string) worker {
	tell := func(more string) func(context.Context, *answer) error {
		return func(_ context.Context, a *answer) error {
			said += more
			a.Values["length"] = float64(len(said))
			return nil
		}
	}
	return worker{"de": tell("de"), "f": tell("f"), "fail": func(context.Context, *answer) error { return errors.New("as told") }}
}

func TestAWorkerAnswersLineByLine(t *testing.T) {
	workers["echo"] = func(_ context.Context, j job) (worker, error) { return echo(j.Preset), nil }
	defer delete(workers, "echo")
	var out bytes.Buffer
	must.Do(t, serve(t.Context(), "echo", strings.NewReader(`{"preset":"abc"}`+"\nde\nfail\nf\n"), &out))
	var answers []answer
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var a answer
		must.Do(t, decoder.Decode(&a))
		answers = append(answers, a)
	}
	if len(answers) != 4 || answers[1].Values["length"] != 5 || answers[2].Error != "as told" || answers[3].Values["length"] != 6 {
		t.Errorf("answers %+v", answers)
	}
	if err := serve(t.Context(), "nobody", strings.NewReader("{}\n"), &out); err == nil {
		t.Error("work that nobody does is done")
	}
}

func TestLosses(t *testing.T) {
	series := func(itc ...float64) answer {
		return answer{Series: map[string][]float64{"itc": itc, "itm": {1}, "mlm": {1}}}
	}
	for _, c := range []struct {
		name      string
		ours, its answer
		ok        bool
	}{
		{"the same", series(2, 1), series(2, 1), true},
		{"close at first", series(2, 1), series(2.00009, 1), true},
		{"too far at first", series(2, 1), series(2.0002, 1), false},
		{"close later", series(2, 1), series(2, 1.0009), true},
		{"too far later", series(2, 1), series(2, 1.0011), false},
		{"not a number", series(math.NaN()), series(2), false},
		{"fewer steps", series(2), series(2, 1), false},
		{"none", series(), series(), false},
	} {
		if _, err := sameLosses(c.ours, c.its); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestADevicesPageHasItsRows(t *testing.T) {
	dir := t.TempDir()
	results, page := filepath.Join(dir, "gpu.json"), filepath.Join(dir, "gpu.md")
	machine := Machine{Processor: "a processor", Device: "a GPU, libtorch 2", Revision: "abc"}
	for _, r := range []*Result{
		{Row: "gpu-train", What: "training", Size: "batch 96", Unit: "pairs/s", Target: "600", Ours: Figure{Value: 500}, Bound: "40 %", Turns: 5, When: "2026-01-02", Machine: machine},
		{Row: "gpu-kmeans", What: "k-means", Size: "5,000,000", Unit: "s", Target: "-", Met: true, Ours: Figure{Value: 2}, Turns: 3, Machine: machine},
	} {
		must.Do(t, merge(results, deviceRows, r))
	}
	must.Do(t, writeDevice(results, page))
	written := must.Get(os.ReadFile(page))(t)
	for _, want := range []string{
		"| k-means | 5,000,000 | 2.00 s | 3 | - |",
		"| training | batch 96 | 500 pairs/s | 5 | 600 (missed) | 40 % | a GPU, libtorch 2, a processor | 2026-01-02, abc |",
	} {
		if !strings.Contains(string(written), want) {
			t.Errorf("the page has no %q:\n%s", want, written)
		}
	}
	if strings.Index(string(written), "k-means") > strings.Index(string(written), "training |") {
		t.Errorf("rows are out of order:\n%s", written)
	}
}

func TestTablesAreWrittenBetweenTheirMarks(t *testing.T) {
	dir := t.TempDir()
	results, document := filepath.Join(dir, "results.json"), filepath.Join(dir, "page.md")
	for _, r := range []*Result{
		{Row: "walk", What: "GRIT walk", Size: "M = 5", Unit: "s", Against: "a program", Target: "6", Ours: Figure{Value: 2}, Peer: &Figure{Value: 4}, Ratio: 2, Turns: 5},
		{Row: "growth-walk", Growth: []Point{{Size: 10, Seconds: 1}, {Size: 20, Seconds: 4}}},
		{Row: "group", What: "group build", Unit: "s", Ours: Figure{Value: 1}, Met: true, Turns: 3},
	} {
		must.Do(t, merge(results, rows, r))
	}
	page := "before\n" + sections[0].begin + "old\n" + sections[0].end + "\nbetween\n" + sections[1].begin + sections[1].end + "\nafter\n"
	for range 2 { // writing again changes nothing
		must.Do(t, os.WriteFile(document, []byte(page), 0o644))
		must.Do(t, writeTables(results, []string{document}))
		written := must.Get(os.ReadFile(document))(t)
		for _, want := range []string{
			"before\n", "between\n", "after\n", "| GRIT walk | M = 5 | 2.00 s", "4.00 s (a program) | 2.00 | 6 (missed) |", "group: 3 turns",
			"| walk | 20 | 4.00 s | 4.00 × |",
		} {
			if !strings.Contains(string(written), want) {
				t.Errorf("the page has no %q:\n%s", want, written)
			}
		}
		if strings.Contains(string(written), "old") || strings.Index(string(written), "group build") > strings.Index(string(written), "GRIT walk") {
			t.Errorf("the page keeps what was there, or rows are out of order:\n%s", written)
		}
		page = string(written)
	}
	must.Do(t, os.WriteFile(document, []byte("no marks"), 0o644))
	if err := writeTables(results, []string{document}); err == nil {
		t.Error("a page without marks is taken")
	}
}

func TestPagesHoldTheResults(t *testing.T) {
	for page, least := range map[string]int{"README.md": 10, "docs/benchmarks.md": 10, "docs/scaling.md": 10} {
		committed := must.Get(os.ReadFile(filepath.Join("..", "..", page)))(t)
		copied := filepath.Join(t.TempDir(), filepath.Base(page))
		must.Do(t, os.WriteFile(copied, committed, 0o644))
		must.Do(t, writeTables("results.json", []string{copied}))
		written := must.Get(os.ReadFile(copied))(t)
		if !bytes.Equal(committed, written) {
			t.Errorf("%s is not what lab/bench/results.json says: run `make docs`", page)
		}
		if rows := bytes.Count(written, []byte("\n| ")); rows < least {
			t.Errorf("%s has %d rows of tables, want at least %d", page, rows, least)
		}
	}
}
