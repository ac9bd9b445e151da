package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// fakePeer writes a Python that is none: a script that answers the line protocol, and takes the seconds that cases say.
func fakePeer(t *testing.T, name, cases string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	script := `#!/bin/sh
read -r job
echo '{"about":{"numpy":"2.0","openblas_core":"Prescott"}}'
seconds=9
case "$(basename "$1") $OPENBLAS_CORETYPE" in
` + cases + `
esac
while read -r command; do
	echo "{\"seconds\":$seconds,\"cpu_seconds\":$((2 * seconds)),\"values\":{\"asked\":1}}"
done
`
	must.Do(t, os.WriteFile(path, []byte(script), 0o755))
	return path
}

// contestants returns what a contest on two homes tries, and the error.
func contestants(t *testing.T, b *bench, d duel) ([]Entrant, error) {
	t.Helper()
	b.threads, b.peers, b.folder, b.out = 1, "peers", t.TempDir(), &strings.Builder{}
	return b.contest(t.Context(), d)
}

func TestTheBestPeerIsChosen(t *testing.T) {
	old := fakePeer(t, "old", `"a.py ") seconds=8 ;; "a.py Haswell") seconds=3 ;; "b.py ") seconds=7 ;;`)
	current := fakePeer(t, "new", `"a.py ") seconds=5 ;; "a.py Haswell") seconds=4 ;; "b.py ") seconds=6 ;; "only.py ") seconds=2 ;;`)
	homes := []home{{debian, old}, {pypi, current}}
	both := []program{{script: "a.py"}, {script: "b.py"}}
	for name, c := range map[string]struct {
		homes    []home
		programs []program
		higher   bool
		plain    bool
		flags    string
		tried    int
		want     string // home, program and core of the winner
	}{
		"the old library with other kernels": {homes, both, false, false, "fpu avx2", 8, "Debian a Haswell"},
		"no other kernels on this processor": {homes, both, false, false, "fpu", 4, "PyPI a "},
		"no BLAS in the row":                 {homes, both, false, true, "avx2", 4, "PyPI a "},
		"higher is better":                   {homes, both, true, true, "", 4, "Debian a "},
		"one home":                           {homes[:1], both, false, true, "", 2, "Debian b "},
		"a program of one home":              {homes, append(slices.Clone(both), program{script: "only.py", home: pypi}), false, true, "", 5, "PyPI only "},
		"its home is not there":              {homes[:1], append(slices.Clone(both), program{script: "only.py", home: pypi}), false, true, "", 2, "Debian b "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bench{installed: c.homes, flags: c.flags}
			tried := must.Get(contestants(t, b, duel{programs: c.programs, higher: c.higher, plain: c.plain}))(t)
			won := must.Get(winner(tried))(t)
			if got := fmt.Sprintf("%s %s %s", won.Home, won.Program, won.Core); got != c.want || len(tried) != c.tried {
				t.Errorf("%q won among %d, want %q among %d: %v", got, len(tried), c.want, c.tried, tried)
			}
			if won.CPU != 2*won.Value || won.About["numpy"] != "2.0" {
				t.Errorf("the winner is %+v", won)
			}
		})
	}
}

func TestAContestFailsWithItsPeer(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	must.Do(t, os.WriteFile(broken, []byte("#!/bin/sh\nread -r job\necho '{\"error\":\"ImportError: no torch\"}'\n"), 0o755))
	b := &bench{installed: []home{{debian, fakePeer(t, "old", "")}, {pypi, broken}}}
	if _, err := contestants(t, b, duel{programs: []program{{script: "a.py"}}}); err == nil || !strings.Contains(err.Error(), "a of PyPI: ImportError: no torch") {
		t.Errorf("a peer that does not start: %v", err)
	}
	if _, err := contestants(t, b, duel{programs: []program{{script: "a.py", home: "nowhere"}}}); err == nil {
		t.Error("a row without a peer has a winner")
	}
	if _, err := winner(nil); err == nil {
		t.Error("nobody has won")
	}
}

func TestBest(t *testing.T) {
	tried := []Entrant{{Value: 3, CPU: 1}, {Value: 2, CPU: 4}, {Value: 5, CPU: 2}, {Value: 5, CPU: 1}}
	for _, c := range []struct {
		higher, byCPU bool
		want          int
	}{{false, false, 1}, {true, false, 2}, {false, true, 0}, {true, true, 0}} {
		if got := best(tried, c.higher, c.byCPU); got != c.want {
			t.Errorf("higher %t, by processor time %t: entrant %d, want %d", c.higher, c.byCPU, got, c.want)
		}
	}
}

func TestCoreTypes(t *testing.T) {
	for _, c := range []struct {
		flags, chosen string
		want          []string
	}{
		{"fpu sse3", "Prescott", nil},
		{"fpu avx2", "Prescott", []string{"Haswell"}},
		{"fpu avx2", "Haswell", nil},
		{"fpu avx2 avx512bw", "Prescott", []string{"SkylakeX", "Haswell"}},
		{"fpu avx2 avx512bw", "SKYLAKEX", []string{"Haswell"}},
		{"fpu avx2x", "Zen", nil},
	} {
		if got := coreTypes(c.flags, c.chosen); !slices.Equal(got, c.want) {
			t.Errorf("%q after %s: %v, want %v", c.flags, c.chosen, got, c.want)
		}
	}
}

func TestHomes(t *testing.T) {
	wheels := fakePeer(t, "python", "")
	for name, c := range map[string]struct {
		current string
		short   bool
		want    int
		says    string
	}{
		"both":            {wheels, false, 2, ""},
		"both, short":     {wheels, true, 2, ""},
		"Debian's, short": {"/nowhere", true, 1, "the peers are Debian's alone"},
		"Debian's, a run": {"/nowhere", false, 0, ""},
	} {
		var out strings.Builder
		b := &bench{python: "python3", current: c.current, short: c.short, out: &out}
		got, err := b.homes()
		if len(got) != c.want || (err != nil) != (c.want == 0) || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %v, %v, printed %q", name, got, err, out.String())
		}
		if err != nil && !strings.Contains(err.Error(), "make bench") {
			t.Errorf("%s: %v does not say what to do", name, err)
		}
	}
}

func TestRatios(t *testing.T) {
	ours := []answer{{Seconds: 2, CPUSeconds: 3}, {Seconds: 4, CPUSeconds: 5}, {Seconds: 3, CPUSeconds: 4}}
	peer := []answer{{Seconds: 9, CPUSeconds: 10}, {Seconds: 6, CPUSeconds: 8}, {Seconds: 7, CPUSeconds: 6}}
	perSecond := func(a answer) float64 { return 12 / a.Seconds }
	for name, c := range map[string]struct {
		d          duel
		ratio, cpu float64
	}{
		"seconds":           {duel{}, 7. / 3, 2},
		"per second":        {duel{value: perSecond, higher: true}, 7. / 3, 2},
		"no processor time": {duel{plain: true}, 7. / 3, 0},
	} {
		got := c.d.compare(ours, peer)
		if diff := got.Ratio - c.ratio; diff > 1e-9 || diff < -1e-9 || got.CPURatio != c.cpu {
			t.Errorf("%s: ratio %v, of processor time %v, want %v and %v", name, got.Ratio, got.CPURatio, c.ratio, c.cpu)
		}
	}
}

// fixed answers with a figure.
func fixed(_ context.Context, a *answer) error {
	a.Seconds, a.Values["recall"] = 3, 0.98
	return nil
}

// TestADuelMeetsTheWinner starts this test as pairstream's side.
func TestADuelMeetsTheWinner(t *testing.T) {
	workers["fixed"] = func(context.Context, job) (worker, error) { return worker{"run": fixed, "check": fixed}, nil }
	t.Cleanup(func() { delete(workers, "fixed") })
	if os.Getenv("BENCH_TEST_CHILD") != "" {
		must.Do(t, serve(t.Context(), "fixed", os.Stdin, os.Stdout))
		os.Exit(0)
	}
	t.Setenv("BENCH_TEST_CHILD", "1")
	b := &bench{
		installed: []home{{debian, fakePeer(t, "old", "")}, {pypi, fakePeer(t, "new", `"a.py ") seconds=6 ;;`)}},
		threads:   1, peers: "peers", folder: t.TempDir(), out: &strings.Builder{}, repeats: 3,
		self: []string{"-test.run=^TestADuelMeetsTheWinner$"},
	}
	var asked map[string]float64
	out := must.Get(duel{
		kind: "fixed", programs: []program{{script: "a.py"}}, unit: "s",
		fair:  func(ours answer) map[string]float64 { asked = maps.Clone(ours.Values); return nil },
		check: func(_, peer answer) ([]string, error) { return []string{fmt.Sprint(peer.Values["asked"])}, nil },
	}.run(t.Context(), b))(t)
	if out.Ratio != 2 || out.CPURatio <= 0 || len(out.Ours.Samples) != 3 || !slices.Equal(out.Checks, []string{"1"}) || asked["recall"] != 0.98 {
		t.Errorf("result %+v, told the peer %v", out, asked)
	}
	if len(out.Tried) != 2 || out.Tried[0].Won || !out.Tried[1].Won || out.Tried[1].Home != pypi {
		t.Errorf("tried %+v", out.Tried)
	}
}

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i)*time.Millisecond)
	}
	for _, c := range []struct {
		times []time.Duration
		p     int
		want  float64
	}{
		{nil, 50, 0}, {hundred[:1], 50, 100}, {hundred[:1], 99, 100}, {hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100}, {hundred, 0, 1},
	} {
		if got := percentile(slices.Clone(c.times), c.p); got != c.want {
			t.Errorf("percentile %d of %d times is %v ms, want %v", c.p, len(c.times), got, c.want)
		}
	}
}

func TestTheTablesNameThePeers(t *testing.T) {
	about := map[string]string{"torch": "2.11.0", "openblas_core": "Zen", "torch_cpu": "AVX2", "torch_options": "USE_MKL=ON"}
	result := &Result{
		Row: "walk", What: "GRIT walk", Size: "M = 5", Against: "two programs", Unit: "s", Ours: Figure{Value: 2}, Peer: &Figure{Value: 3}, Ratio: 1.5, CPURatio: 1.25,
		Extra: map[string]float64{"p50_ratio": 0.5}, Machine: Machine{Revision: "abc"}, Turns: 5,
		Tried: []Entrant{
			{Home: debian, Program: "walk", Value: 4, CPU: 8, About: map[string]string{"torch": "1.13", "openblas_core": "Prescott"}},
			{Home: debian, Program: "walk", Core: "Haswell", Value: 3.5, CPU: 7, About: map[string]string{"torch": "1.13", "openblas_core": "Haswell"}},
			{Home: pypi, Program: "walk, compiled", Value: 3, CPU: 6, About: about, Won: true},
		},
	}
	for name, c := range map[string]struct{ text, want string }{
		"the ratio":      {ratiosTable(map[string]*Result{"walk": result}, nil), "| walk | walk, compiled, PyPI | 1.50 (1.25), p50 0.50 |  |\n"},
		"the winner":     {peersTable(map[string]*Result{"walk": result}), "| walk | walk, compiled | PyPI: torch 2.11.0 | OpenBLAS Zen, PyTorch AVX2 | 3.00 s | 6.00 s | won |\n"},
		"other kernels":  {peersTable(map[string]*Result{"walk": result}), "| OpenBLAS Haswell (asked for Haswell) | 3.50 s | 7.00 s |  |\n"},
		"options":        {peersTable(map[string]*Result{"walk": result}), "- torch of PyPI: `USE_MKL=ON`\n"},
		"p50":            {mainTable(map[string]*Result{"walk": result}), "| 1.50 (1.25), p50 0.50 |"},
		"one revision":   {mainTable(map[string]*Result{"walk": result}), "All rows are of revision abc.\n"},
		"two revisions":  {mainTable(map[string]*Result{"walk": result, "group": {Machine: Machine{Revision: "def"}}}), "several revisions: walk of revision abc; group of revision def.\n"},
		"an old row":     {mainTable(map[string]*Result{"walk": {Row: "walk", Peer: &Figure{}, Turns: 5}}), "walk: measured before other peers than Debian's were tried"},
		"of medians":     {(&Result{Ratio: 4, Extra: map[string]float64{"p50_ratio": 0.67}}).ratios(), "4.00, p50 0.67"},
		"no old row":     {ratiosTable(map[string]*Result{"walk": {Row: "walk", Peer: &Figure{}}}, nil) + ".", "|---|---|---|---|\n."},
		"a busy machine": {ratiosTable(map[string]*Result{"walk": {Peer: &Figure{}, Busy: 3.5, Tried: result.Tried}}, nil), "under a load of 3.5"},
	} {
		if !strings.Contains(c.text, c.want) {
			t.Errorf("%s: no %q in\n%s", name, c.want, c.text)
		}
	}
}
