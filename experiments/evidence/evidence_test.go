package evidence

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func near(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-4*math.Max(1, math.Abs(b)) }

// TestInterval compares with intervals by hand: quantiles of Student's t from a table.
func TestInterval(t *testing.T) {
	for name, c := range map[string]struct {
		values     []float64
		mean, half float64
	}{
		// Deviation sqrt(10), t(0.975, 4) = 2.77645: 2.77645 * sqrt(10/5).
		"five": {[]float64{1, 3, 5, 7, 9}, 5, 2.77645 * math.Sqrt(2)},
		// Deviation 1/sqrt(2), t(0.975, 1) = 12.7062: 12.7062 * 0.5.
		"two":   {[]float64{2, 3}, 2.5, 6.3531},
		"eight": {[]float64{1, 1, 1, 1, 3, 3, 3, 3}, 2, 2.36462 * math.Sqrt(8.0/7/8)},
		"equal": {[]float64{4, 4, 4}, 4, 0},
		"one":   {[]float64{4}, 4, math.Inf(1)},
	} {
		if got := NewInterval(c.values); !near(got.Mean, c.mean) || !near(got.Half, c.half) || got.N != len(c.values) {
			t.Errorf("%s: %+v, want %v ± %v", name, got, c.mean, c.half)
		}
	}
	if none := NewInterval(nil); none.Format(1, 2) != "-" || NewInterval([]float64{4}).Format(100, 1) != "400.0" || NewInterval([]float64{2, 3}).Format(10, 1) != "25.0 ± 63.5" {
		t.Errorf("none, one and two values are written as %q, %q, %q", none.Format(1, 2), NewInterval([]float64{4}).Format(100, 1), NewInterval([]float64{2, 3}).Format(10, 1))
	}
}

// result returns a result whose arms a and b have these values for the seeds 1, 2, ...
func result(a, b []float64) *Result {
	r := &Result{Experiment: "test", Scale: 1, Settings: json.RawMessage(`{"n":1}`)}
	for i, v := range a {
		run := Run{Seed: uint64(i + 1), Seconds: 2, Measures: []Measure{{Arm: "a", X: 1, Name: "m", Value: v}}}
		if i < len(b) {
			run.Measures = append(run.Measures, Measure{Arm: "b", Name: "m", Value: b[i]})
		}
		r.Add(run)
	}
	return r
}

// TestClaimsArePaired has arms that overlap, while every seed says the same.
func TestClaimsArePaired(t *testing.T) {
	a, b := Point{"a", 1, "m"}, Point{"b", 0, "m"}
	overlapping := result([]float64{1, 11, 21}, []float64{0, 10, 20.3})
	for name, c := range map[string]struct {
		r     *Result
		claim Claim
		holds bool
		mean  float64
		n     int
	}{
		"paired":                     {overlapping, Claim{More: a, Less: b}, true, 0.9, 3},
		"the other way":              {overlapping, Claim{More: b, Less: a}, false, -0.9, 3},
		"as much is not more":        {result([]float64{1, 2}, []float64{1, 2}), Claim{More: a, Less: b}, false, 0, 2},
		"an interval that reaches 0": {result([]float64{1, 2, 3}, []float64{0, 2, 2}), Claim{More: a, Less: b}, false, 2.0 / 3, 3},
		"above a bound":              {result([]float64{6, 6.1}, nil), Claim{More: a, Bound: 5}, true, 1.05, 2},
		"one seed":                   {result([]float64{6}, []float64{1}), Claim{More: a, Less: b}, false, 5, 1},
		"seeds that have both":       {result([]float64{6, 7, 8}, []float64{1, 2}), Claim{More: a, Less: b}, true, 5, 2},
	} {
		v := c.claim.Judge(c.r)
		if v.Holds != c.holds || !near(v.Difference.Mean, c.mean) || v.Difference.N != c.n {
			t.Errorf("%s: %+v, want %v, mean %v of %d", name, v, c.holds, c.mean, c.n)
		}
	}
	for want, v := range map[string]Verdict{
		"holds: difference 0.900 ± 0.430":                                    Claim{More: a, Less: b}.Judge(overlapping),
		"not shown: fewer than two seeds":                                    Claim{More: a, Less: b}.Judge(result([]float64{6}, []float64{1})),
		"does not hold: difference -0.900 ± 0.430":                           Claim{More: b, Less: a}.Judge(overlapping),
		"does not hold: difference 6.5 ± 44.5, 5.3 times (the paper: 6.0)":   Claim{More: a, Less: b, Paper: 6}.Judge(result([]float64{4, 12}, []float64{1, 2})),
		"does not hold: difference 6.5 ± 44.5, 5.33 times (the paper: 1.02)": Claim{More: a, Less: b, Paper: 1.02}.Judge(result([]float64{4, 12}, []float64{1, 2})),
	} {
		if v.String() != want {
			t.Errorf("%q, want %q", v, want)
		}
	}
}

// TestEnough compares with what NewInterval says of so many seeds of the same deviation.
func TestEnough(t *testing.T) {
	a, b := Point{"a", 1, "m"}, Point{"b", 0, "m"}
	judge := func(values ...float64) Verdict {
		return Claim{More: a, Less: b}.Judge(result(values, make([]float64, len(values))))
	}
	// Mean 1, deviation 2: t(0.975, 17) * 2 / sqrt(18) = 2.1098 * 0.4714 = 0.9946, and with 17 seeds 2.1199 * 0.4851 = 1.0283.
	for want, v := range map[int]Verdict{
		18: judge(-1, 1, 3),
		0:  judge(-3, -1, 1),
	} {
		if got := v.Enough(); got != want {
			t.Errorf("%v: %d seeds are enough, want %d", v, got, want)
		}
	}
	if n := judge(1).Enough(); n != 0 {
		t.Errorf("one seed says that %d are enough", n)
	}
	if n := judge(-99, 101).Enough(); n != 0 {
		t.Errorf("a difference that drowns is shown by %d seeds", n)
	}
}

func TestResultsAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if r, err := Read(dir, "test"); r != nil || err != nil {
		t.Fatalf("a result that is not there: %+v, %v", r, err)
	}
	r := result([]float64{1, 2}, []float64{3})
	r.Add(Run{Seed: 0, Seconds: 1})
	if r.Runs[0].Seed != 0 || !r.Has(2) || r.Has(3) || r.Seconds() != 5 || !slices.Equal(r.Xs("a", "m"), []float64{1}) {
		t.Errorf("%+v", r)
	}
	must.Do(t, r.Write(dir))
	again, err := Read(dir, "test")
	if err != nil || !reflect.DeepEqual(again.Runs, r.Runs) || !r.Continues(again) {
		t.Errorf("read back %+v, %v", again, err)
	}
	for name, change := range map[string]func(*Result){
		"settings": func(r *Result) { r.Settings = json.RawMessage(`{"n":2}`) },
		"scale":    func(r *Result) { r.Scale = 2 },
		"short":    func(r *Result) { r.Short = true },
		"device":   func(r *Result) { r.Machine.Device = "cuda" },
	} {
		other := *again
		change(&other)
		if r.Continues(&other) {
			t.Errorf("a result of another %s counts", name)
		}
	}
	if r.Continues(nil) {
		t.Error("continues nothing")
	}
	must.Do(t, os.WriteFile(path(dir, "test"), []byte("{"), 0o644))
	if _, err := Read(dir, "test"); err == nil || !strings.Contains(err.Error(), "reading the result of test") {
		t.Errorf("a file cut short: %v", err)
	}
}

// Seeds of tuning are never reported, and names are of one experiment.
func TestExperimentsAreSound(t *testing.T) {
	figures := map[string]bool{}
	for _, e := range All() {
		if found, err := Find(e.ID); err != nil || found.Title != e.Title {
			t.Errorf("%s is found as %q, %v", e.ID, found.Title, err)
		}
		if len(e.Seeds) < 3 || len(e.Claims) == 0 || len(e.Tables) == 0 || e.Small == "" || e.Text == "" || e.Repeats == "" {
			t.Errorf("%s says too little: %+v", e.ID, e)
		}
		for _, s := range Tuning() {
			if slices.Contains(e.Seeds, s) {
				t.Errorf("%s reports seed %d, on which settings are chosen", e.ID, s)
			}
		}
		for _, f := range e.Figures {
			if figures[f.Name] {
				t.Errorf("two figures are called %s", f.Name)
			}
			figures[f.Name] = true
		}
	}
	if _, err := Find("x99"); err == nil || !strings.Contains(err.Error(), "want one of x1") {
		t.Errorf("error %v, want one that lists the experiments", err)
	}
}
