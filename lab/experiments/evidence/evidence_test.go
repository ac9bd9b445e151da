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
	"time"

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
	r := &Result{Experiment: "test", Scale: 1, Source: Source{Revision: "abc", Clean: true}, Settings: json.RawMessage(`{"n":1}`)}
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
		said  Outcome
		mean  float64
		n     int
	}{
		"paired":                     {overlapping, Claim{More: a, Less: b}, Holds, 0.9, 3},
		"the other way":              {overlapping, Claim{More: b, Less: a}, Opposite, -0.9, 3},
		"as much is not more":        {result([]float64{1, 2}, []float64{1, 2}), Claim{More: a, Less: b}, Undecided, 0, 2},
		"an interval that reaches 0": {result([]float64{1, 2, 3}, []float64{0, 2, 2}), Claim{More: a, Less: b}, Undecided, 2.0 / 3, 3},
		"above a bound":              {result([]float64{6, 6.1}, nil), Claim{More: a, Bound: 5}, Holds, 1.05, 2},
		"one seed":                   {result([]float64{6}, []float64{1}), Claim{More: a, Less: b}, Unknown, 5, 1},
		"seeds that have both":       {result([]float64{6, 7, 8}, []float64{1, 2}), Claim{More: a, Less: b}, Holds, 5, 2},
	} {
		v := c.claim.Judge(c.r)
		if v.Outcome != c.said || !near(v.Difference.Mean, c.mean) || v.Difference.N != c.n {
			t.Errorf("%s: %+v, want outcome %v, mean %v of %d", name, v, c.said, c.mean, c.n)
		}
	}
	for want, v := range map[string]Verdict{
		"holds: difference 0.900 ± 0.430":         Claim{More: a, Less: b}.Judge(overlapping),
		"not shown: fewer than two seeds":         Claim{More: a, Less: b}.Judge(result([]float64{6}, []float64{1})),
		"the opposite: difference -0.900 ± 0.430": Claim{More: b, Less: a}.Judge(overlapping),
		"undecided: difference 6.5 ± 44.5, 5.3 times (the paper: 6.0); 5 seeds would decide, if it is that large":   Claim{More: a, Less: b, Paper: 6}.Judge(result([]float64{4, 12}, []float64{1, 2})),
		"undecided: difference 6.5 ± 44.5, 5.33 times (the paper: 1.02); 5 seeds would decide, if it is that large": Claim{More: a, Less: b, Paper: 1.02}.Judge(result([]float64{4, 12}, []float64{1, 2})),
		"undecided: difference 1 ± 1271; 999 seeds would not decide":                                                Claim{More: a, Less: b}.Judge(result([]float64{-99, 101}, []float64{0, 0})),
	} {
		if v.String() != want {
			t.Errorf("%q, want %q", v, want)
		}
	}
}

// The expected values are R's binom.test, to four digits.
func TestClopperPearson(t *testing.T) {
	for _, c := range []struct {
		part, whole int
		low, high   float64
	}{{24, 24, 0.8575, 1}, {6, 6, 0.5407, 1}, {0, 0, 0, 1}, {0, 10, 0, 0.3085}, {5, 10, 0.1871, 0.8129}, {19, 20, 0.7513, 0.9987}} {
		low, high := ClopperPearson(c.part, c.whole)
		if math.Abs(low-c.low) > 1e-4 || math.Abs(high-c.high) > 1e-4 {
			t.Errorf("%d of %d: %.4f to %.4f, want %.4f to %.4f", c.part, c.whole, low, high, c.low, c.high)
		}
	}
}

// A share has an exact interval, so that 24 of 24 do not show 90 %. Intervals that cannot miss on one side do not
// count.
func TestClaimsOfYesAndNo(t *testing.T) {
	seeds := func(n int, low, high, truth float64) *Result {
		r := &Result{}
		for i := range n {
			r.Add(Run{Seed: uint64(i), Measures: []Measure{
				{Arm: "a", Name: "on", Value: 1}, {Arm: "a", Name: "low", Value: low}, {Arm: "a", Name: "high", Value: high}, {Arm: "a", Name: "precision", Value: truth},
			}})
		}
		return r
	}
	on, covered := Point{"a", 0, "on"}, Point{"a", 0, "covered"}
	for name, c := range map[string]struct {
		claim Claim
		r     *Result
		want  string
	}{
		"24 of 24":       {Claim{More: on, Bound: 0.9}, seeds(24, 0, 1, 0), "undecided: 24 of 24, a share of 0.858 to 1.000; 36 seeds would decide, if it is that large"},
		"a lower bound":  {Claim{More: on, Bound: 0.8}, seeds(24, 0, 1, 0), "holds: 24 of 24, a share of 0.858 to 1.000"},
		"covers":         {Claim{More: covered, Bound: 0.5}, seeds(8, 0.1, 0.9, 0.5), "holds: 8 of 8, a share of 0.631 to 1.000"},
		"misses":         {Claim{More: covered, Bound: 0.9}, seeds(8, 0.1, 0.4, 0.5), "the opposite: 0 of 8, a share of 0.000 to 0.369"},
		"begins at zero": {Claim{More: covered, Bound: 0.9}, seeds(8, 0, 0.6, 0.5), "not shown: fewer than two seeds have an interval that excludes something on both sides"},
		"ends at one":    {Claim{More: covered, Bound: 0.9}, seeds(8, 0.3, 1, 0.5), "not shown: fewer than two seeds have an interval that excludes something on both sides"},
	} {
		if got := c.claim.Judge(c.r).String(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	column := Column{Label: "on", Name: "on"}
	if got := column.cell(seeds(3, 0, 1, 0), on); got != "3 of 3" {
		t.Errorf("a column of yes and no says %q", got)
	}
}

// The p of a difference is below 0.05 exactly where its interval leaves 0 out.
func TestPAgreesWithTheInterval(t *testing.T) {
	a, b := Point{"a", 1, "m"}, Point{"b", 0, "m"}
	for _, shift := range []float64{-5, -1, 0.5, 1, 1.2, 1.3, 5} {
		v := Claim{More: a, Less: b}.Judge(result([]float64{shift - 1, shift, shift + 1, shift + 0.5}, make([]float64, 4)))
		if decided := v.Outcome == Holds || v.Outcome == Opposite; decided != (v.P < 0.05) {
			t.Errorf("difference %v: outcome %v with p = %v", v.Difference, v.Outcome, v.P)
		}
	}
}

// The example is of Holm's paper's kind: 0.01 of four becomes 0.04, and none is below the one before.
func TestHolm(t *testing.T) {
	got := Holm([]float64{0.04, 0.01, 0.03, 0.5})
	if want := []float64{0.09, 0.04, 0.09, 0.5}; !slices.EqualFunc(got, want, near) {
		t.Errorf("corrected to %v, want %v", got, want)
	}
}

// TestEnough compares with what NewInterval says of so many seeds of the same deviation.
func TestEnough(t *testing.T) {
	a, b := Point{"a", 1, "m"}, Point{"b", 0, "m"}
	judge := func(values ...float64) Verdict {
		return Claim{More: a, Less: b}.Judge(result(values, make([]float64, len(values))))
	}
	// Mean 1, deviation 2: t(0.975, 17) * 2 / sqrt(18) = 2.1098 * 0.4714 = 0.9946, and with 17 seeds 2.1199 * 0.4851 =
	// 1.0283.
	for want, v := range map[int]Verdict{
		18: judge(-1, 1, 3),
		0:  judge(-1, 0, 1),
	} {
		if got := v.Enough(); got != want {
			t.Errorf("%v: %d seeds are enough, want %d", v, got, want)
		}
	}
	if n := judge(-3, -1, 1).Enough(); n != 18 {
		t.Errorf("of the opposite %d seeds are enough, want as many", n)
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
		"revision": func(r *Result) { r.Revision = "def" },
		"packages": func(r *Result) { r.Packages = map[string]string{"trainer": "1"} },
		"tree":     func(r *Result) { r.Clean = false },
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
	raw := must.Get(os.ReadFile(path(dir, "test")))(t)
	for name, edit := range map[string][2]string{"revision": {`"abc"`, `"abd"`}, "measure": {`"value": 3`, `"value": 4`}, "settings": {`"n": 1`, `"n": 2`}} {
		changed := strings.Replace(string(raw), edit[0], edit[1], 1)
		must.Do(t, os.WriteFile(path(dir, "test"), []byte(changed), 0o644))
		if _, err := Read(dir, "test"); changed == string(raw) || err == nil || !strings.Contains(err.Error(), "changed by hand") {
			t.Errorf("a %s that was edited: %v", name, err)
		}
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

// A source names the commit, and knows a tree with changes, a commit of another history, and folders that changed
// since.
func TestSourceOfAWorkingTree(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	run := func(args ...string) {
		t.Helper()
		must.Get(git(ctx, dir, append([]string{"-c", "user.name=x", "-c", "user.email=x@x"}, args...)...))(t)
	}
	put := func(name, text string) {
		t.Helper()
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	if _, err := ReadSource(ctx, dir); err == nil || !strings.Contains(err.Error(), "in a clone") {
		t.Errorf("outside of a clone: %v", err)
	}
	run("init", "-q")
	put("go.mod", "module x")
	for _, f := range Folders() {
		put(filepath.Join(f, "a.go"), "package a")
	}
	run("add", ".")
	run("commit", "-qm", "first")
	first := must.Get(ReadSource(ctx, dir))(t)
	put("lab/experiments/results/x1.json", "{}") // results are no part of what they measure
	if again := must.Get(ReadSource(ctx, filepath.Join(dir, "trainer")))(t); !first.Clean || !first.same(again) || len(first.Packages) != len(Folders()) {
		t.Errorf("the source is %+v, and from a folder below %+v", first, again)
	}
	put("trainer/a.go", "package b")
	if dirty := must.Get(ReadSource(ctx, dir))(t); dirty.Clean || dirty.same(dirty) {
		t.Errorf("a tree with changes is clean, or the same as another: %+v", dirty)
	}
	run("add", ".")
	run("commit", "-qm", "second")
	if changed, err := first.Since(ctx, dir); err != nil || !slices.Equal(changed, []string{"trainer"}) {
		t.Errorf("since the first commit %v have changed, %v", changed, err)
	}
	if now := must.Get(ReadSource(ctx, dir))(t); now.same(first) {
		t.Error("two commits are the same")
	}
	for name, s := range map[string]Source{
		"a commit of no history":     {Revision: "0123456"},
		"a revision that was edited": {Revision: must.Get(git(ctx, dir, "rev-parse", "HEAD"))(t), Packages: first.Packages},
	} {
		if _, err := s.Since(ctx, dir); err == nil || !strings.Contains(err.Error(), "run the experiment again") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each pair of models has its own effect, and intervals over models are those of the models' means.
func TestEffectsByModels(t *testing.T) {
	a, b := Point{"a", 1, "m"}, Point{"b", 0, "m"}
	claims := []Claim{{Text: "a is above b", More: a, Less: b}, {Text: "never measured", More: Point{"c", 0, "m"}, Less: b}, {Text: "a share", More: Point{"a", 0, "right"}}}
	r := result([]float64{1, 2, 3, 4}, []float64{0, 3, 0, 0}) // of two models each, the seeds 1 to 4 have the pairs 2B, 1B, 2A and 1A
	for i := range r.Runs {
		first, cond := Versions(r.Runs[i].Seed, 2)
		if want := [][2]uint64{{1, 1}, {0, 1}, {1, 0}, {0, 0}}[i]; first != want[0] || cond != want[1] {
			t.Errorf("seed %d has models %d and %d, want %v", r.Runs[i].Seed, first, cond, want)
		}
	}
	// First models: means (4 - 1)/2 = 1.5 and (3 + 1)/2 = 2. Con-Ds: (4 + 3)/2 = 3.5 and (-1 + 1)/2 = 0.
	want := [][]string{
		{"difference", "1A", "1B", "2A", "2B", "above 0", "over first models", "over Con-Ds"},
		{"a is above b", "+4.00", "-1.00", "+3.00", "+1.00", "3 of 4", "1.75 ± 3.18", "1.75 ± 22.24"},
	}
	if got := r.ByModels(claims, 2); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	half := result([]float64{1, 2}, []float64{0, 3}).ByModels(claims, 2)
	if got := half[1]; got[1] != "-" || got[2] != "-1.0" || got[5] != "1 of 2" {
		t.Errorf("half of the pairs are %q", got)
	}
	if got := r.ByModels(claims[1:], 2); got != nil {
		t.Errorf("without measures the table is %q", got)
	}
}

// Every primary claim is one of its experiment, and has a date.
func TestPrimaryClaimsExist(t *testing.T) {
	for _, p := range Primary() {
		e := must.Get(Find(p.Experiment))(t)
		if _, err := time.Parse(time.DateOnly, p.Written); err != nil || len(p.Claims) == 0 {
			t.Errorf("%s: %d claims written on %q, %v", p.Experiment, len(p.Claims), p.Written, err)
		}
		for _, text := range p.Claims {
			if !slices.ContainsFunc(e.Claims, func(c Claim) bool { return c.Text == text }) || !IsPrimary(Primary(), e.ID, text) {
				t.Errorf("%s has no claim %q", e.ID, text)
			}
		}
	}
	if IsPrimary(Primary(), "x1", "none") {
		t.Error("a claim that no one wrote down is primary")
	}
}
