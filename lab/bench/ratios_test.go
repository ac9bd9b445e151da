package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestRatiosWithAVX2AloneAreShownWhereTheyDiffer(t *testing.T) {
	row := func(ratio, cpu float64) *Result {
		return &Result{
			Row: "walk", Unit: "s", Peer: &Figure{}, Ratio: ratio, CPURatio: cpu, Machine: Machine{Instructions: "AVX2, VNNI"},
			Tried: []Entrant{{Home: pypi, Program: "walk", Won: true}},
		}
	}
	busy := func(r *Result) *Result {
		r.Busy = 3
		return r
	}
	for name, c := range map[string]struct {
		avx2 *Result
		want string
	}{
		"not measured":               {nil, "| 2.00 (4.00) |  |\n"},
		"without a peer":             {&Result{Row: "walk"}, "| 2.00 (4.00) |  |\n"},
		"near":                       {row(2.4, 3.4), "| 2.00 (4.00) | the same |\n"},
		"apart by the clock":         {row(2.5, 4), "| 2.00 (4.00) | 2.50 (4.00) |\n"},
		"apart in processor time":    {row(2, 3), "| 2.00 (4.00) | 2.00 (3.00) |\n"},
		"busy, apart by the clock":   {busy(row(9, 4)), "| 2.00 (4.00) | the same |\n"},
		"busy, apart in work":        {busy(row(2, 2)), "| 2.00 (4.00) | (2.00) |\n"},
		"no ratio of processor time": {row(2, 0), "| 2.00 (4.00) | the same |\n"},
	} {
		text := ratiosTable(map[string]*Result{"walk": row(2, 4)}, map[string]*Result{"walk": c.avx2})
		if !strings.Contains(text, c.want) || !strings.Contains(text, "The processor has AVX2, VNNI.\n") {
			t.Errorf("%s: no %q in\n%s", name, c.want, text)
		}
	}
}

func TestARunSaysWhatIsBehind(t *testing.T) {
	tried := []Entrant{{Home: pypi, Program: "another", Won: true}}
	for name, c := range map[string]struct {
		result Result
		want   string
	}{
		"ahead":                      {Result{Row: "walk", Peer: &Figure{}, Ratio: 1, CPURatio: 1, Met: true, Tried: tried}, "No row is behind"},
		"without a peer":             {Result{Row: "walk", Met: true}, "No row is behind"},
		"behind by the clock":        {Result{Row: "walk", Peer: &Figure{}, Ratio: 0.9, Met: true, Tried: tried}, "walk is behind another, PyPI: 0.90 times as fast.\n"},
		"behind in processor time":   {Result{Row: "walk", Peer: &Figure{}, Ratio: 1.2, CPURatio: 0.98, Met: true, Tried: tried}, "walk is behind another, PyPI: 1.20 times as fast, 0.98 by processor time.\n"},
		"behind, near its limit":     {Result{Row: "walk", Peer: &Figure{}, Ratio: 0.9, Met: true, Tried: tried, Limit: &Limit{Share: 0.94}}, "0.90 times as fast; it is at 94 % of its limit.\n"},
		"ahead, and short of an aim": {Result{Row: "walk", Unit: "s", Target: "2 times", Peer: &Figure{}, Ratio: 1.1, Ours: Figure{Value: 2}}, "walk misses what it is to reach, 2 times: it has 2.00 s"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "results.json")
			must.Do(t, merge(path, rows, &c.result))
			var out strings.Builder
			must.Do(t, tellBehind(&out, path))
			if !strings.Contains(out.String(), c.want) {
				t.Errorf("no %q in %q", c.want, out.String())
			}
		})
	}
}

// TestBothSidesOfARunWithAVX2AreLimited asks a peer for its environment.
func TestBothSidesOfARunWithAVX2AreLimited(t *testing.T) {
	limited := fakePeer(t, "limited", `"a.py Haswell") [ "$PAIRSTREAM_INSTRUCTIONS $ONEDNN_MAX_CPU_ISA" = "avx2 AVX2" ] && seconds=1 ;;`)
	b := &bench{installed: []home{{pypi, limited}}, avx2: true, flags: "avx2"}
	tried := must.Get(contestants(t, b, duel{programs: []program{{script: "a.py"}}, plain: true}))(t)
	if len(tried) != 1 || tried[0].Value != 1 {
		t.Errorf("tried %+v", tried)
	}
}

func TestSamplingTellsOfOneEpoch(t *testing.T) {
	got := oneEpoch(map[string]float64{"train_ms_per_pair": 200, "encode_ms_per_pair": 30, "discriminate_ms_per_pair": 50})
	if want := "with one epoch of the papers' model, the encoder takes 15.0 % of training, Con-D 25.0 %, and both 40.0 %"; got != want {
		t.Errorf("says %q, want %q", got, want)
	}
}
