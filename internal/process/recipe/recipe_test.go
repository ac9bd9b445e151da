package recipe_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/process/recipe"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func values(t *testing.T, name string, environ map[string]string) map[string]string {
	t.Helper()
	list := must.Get(recipe.Of(name, environ))(t)
	out := map[string]string{}
	for _, v := range list {
		if v.Place == "" {
			t.Errorf("%s: %s has no place in a paper", name, v.Variable)
		}
		out[v.Variable] = v.Value
	}
	return out
}

// Each row is what a section of a paper says; the empty text: the recipe leaves it to the setting's default.
func TestEveryRecipeIsItsPapers(t *testing.T) {
	columns := []string{"albef", "tcl", "grit-vlp", "mafa", "gpn-s", "gpn-s-tcl"}
	if want := slices.Insert(slices.Clone(columns), 4, "mafa-printed"); !slices.Equal(recipe.Names(), want) { // which has a test of its own
		t.Fatalf("recipes are %v, want %v", recipe.Names(), want)
	}
	for _, row := range []struct {
		variable, place string
		want            []string
	}{
		{"STRATEGY", "GRIT-VLP 4.1, GPN-S 3.4", []string{"random", "random", "grit", "grit", "gns", "gns"}},
		{"EPOCHS", "GRIT-VLP 5.1, MAFA 5.1, GPN-S 4.1", []string{"30", "30", "20", "20", "30", "50"}},
		{"BATCH_SIZE", "GRIT-VLP 5.1, MAFA 5.1, GPN-S 4.1", []string{"64", "64", "96", "96", "512", "512"}},
		{"STEP_BATCHES", "512 in all, 384 in GRIT-VLP and MAFA", []string{"8", "8", "4", "4", "1", "1"}},
		{"SEARCH_SPACE", "GRIT-VLP 5.1 M=960, MAFA 5.1 M=4800", []string{"", "", "960", "4800", "", ""}},
		{"QUEUE_SIZE", "GRIT-VLP 5.1 L=48,000", []string{"", "", "48000", "48000", "", ""}},
		{"ITC_TARGETS", "GRIT-VLP eq. 6, MAFA eq. 5", []string{"distilled", "distilled", "consistency", "smoothed", "distilled", "distilled"}},
		{"ITC_LOSS", "TCL 3.2 to 3.4", []string{"softmax", "triple", "softmax", "softmax", "softmax", "triple"}},
		{"MLM_PROBABILITY", "GRIT-VLP 4.2", []string{"0.15", "0.15", "0.5", "0.5", "0.15", "0.15"}},
		{"MLM_DISTILL", "ALBEF 3.3", []string{"0.4", "0.4", "0", "0", "0.4", "0.4"}},
		{"MOMENTUM_DECAY", "GRIT-VLP 2.1", []string{"0.995", "0.995", "0", "0", "0.995", "0.995"}},
		{"ITM_NEGATIVES", "MAFA Algorithm 1", []string{"multinomial", "multinomial", "hardest", "hardest", "multinomial", "multinomial"}},
		{"ECM_LOSSES", "MAFA 4.1", []string{"none", "none", "none", "itc,itm,mlm", "none", "none"}},
		{"ECM_HIGH", "MAFA 4.1", []string{"", "", "", "0.8", "", ""}},
		{"TEXTS", "GPN-S 3.3.1", []string{"none", "none", "none", "none", "curriculum", "curriculum"}},
		{"UNI_WEIGHT", "GPN-S eq. 11", []string{"0", "0", "0", "0", "1", "1"}},
		{"GNS_CLUSTERS", "GPN-S 4.1 c=40", []string{"", "", "", "", "40", "40"}},
		{"AUGMENT_MIN_SCALE", "ALBEF 3.5", []string{"0.2", "0.2", "0.2", "0.2", "0.2", "0.2"}},
		{"AUGMENT_DISTORT", "TCL, create_dataset", []string{"false", "true", "false", "false", "false", "true"}},
		{"AUGMENT_OPS", "ALBEF 3.5", []string{"2,7", "2,7", "2,7", "2,7", "2,7", "2,7"}},
		{"LR", "ALBEF 3.5", []string{"1e-4", "1e-4", "1e-4", "1e-4", "1e-4", "1e-4"}},
		// 4 lanes x 5,000,000 pairs: 39,062 steps of 512 pairs, or 52,083 of 384, are an epoch.
		{"LR_TOTAL_STEPS", "ALBEF 3.5, GPN-S 4.1", []string{"1171860", "1171860", "1562490", "1562490", "1171860", "1953100"}},
		{"ITC_ALPHA_RAMP_STEPS", "ALBEF 3.5", []string{"39062", "39062", "", "", "39062", "39062"}},
	} {
		for i, name := range columns {
			if got := values(t, name, nil)[row.variable]; got != row.want[i] {
				t.Errorf("%s of %s is %q, want %q (%s)", row.variable, name, got, row.want[i], row.place)
			}
		}
	}
}

// TestWarmupOfAShortRun leaves the warm-up of the papers in a long run and a tenth of the steps in a short one.
func TestWarmupOfAShortRun(t *testing.T) {
	for name, c := range map[string]struct {
		environ map[string]string
		want    string
	}{
		"the papers' sizes": {nil, "2000"},
		"a first try":       {map[string]string{"LANES": "1", "GROUP_SIZE": "900", "BATCH_SIZE": "24", "STEP_BATCHES": "4", "EPOCHS": "20"}, "27"},
		"steps by hand":     {map[string]string{"LR_TOTAL_STEPS": "186"}, "2000"},
		"one step":          {map[string]string{"LANES": "1", "GROUP_SIZE": "10", "BATCH_SIZE": "24", "EPOCHS": "1"}, "0"},
	} {
		if got := values(t, "mafa", c.environ)["LR_WARMUP_STEPS"]; got != c.want {
			t.Errorf("%s: a warm-up of %s steps, want %s", name, got, c.want)
		}
	}
}

// A step of GPN-S has 512 pairs and 40 clusters, on however many ranks its mini-batches are.
func TestAStepOfGPNSIsShared(t *testing.T) {
	for _, name := range []string{"gpn-s", "gpn-s-tcl"} {
		whole := values(t, name, nil)
		for batches, want := range map[string][2]string{"1": {"512", "40"}, "2": {"256", "20"}, "4": {"128", "10"}, "8": {"64", "5"}, "16": {"32", "3"}} {
			got := values(t, name, map[string]string{"STEP_BATCHES": batches})
			if got["BATCH_SIZE"] != want[0] || got["GNS_CLUSTERS"] != want[1] || got["GNS_PER_CLUSTER"] != "3" {
				t.Errorf("%s with STEP_BATCHES=%s: mini-batches of %s, %s clusters, want %v", name, batches, got["BATCH_SIZE"], got["GNS_CLUSTERS"], want)
			}
			if got["LR_TOTAL_STEPS"] != whole["LR_TOTAL_STEPS"] {
				t.Errorf("%s with STEP_BATCHES=%s has %s steps, want %s", name, batches, got["LR_TOTAL_STEPS"], whole["LR_TOTAL_STEPS"])
			}
		}
	}
	if got := values(t, "gpn-s", map[string]string{"STEP_BATCHES": "4", "BATCH_SIZE": "24", "LANES": "1", "GROUP_SIZE": "960"}); got["LR_TOTAL_STEPS"] != "300" {
		t.Errorf("with mini-batches of 24: %s steps, want 30 epochs of 10", got["LR_TOTAL_STEPS"])
	}
	if got := values(t, "mafa", map[string]string{"STEP_BATCHES": "8"}); got["BATCH_SIZE"] != "96" {
		t.Errorf("mafa's mini-batches of 96 are %s with STEP_BATCHES=8", got["BATCH_SIZE"])
	}
}

// mafa-printed is mafa without its departures: all negatives of the mini-batch, augmented images, no guard, and
// captions of one image as negatives.
func TestMAFAAsPrinted(t *testing.T) {
	fast, printed := values(t, "mafa", nil), values(t, "mafa-printed", nil)
	for variable, want := range map[string][2]string{
		"CANDIDATES": {"2", "95"}, "COND_IMAGES": {"plain", "augmented"}, "COND_MIN_PRECISION": {"0.4", "0"}, "SAME_IMAGE_NEGATIVES": {"false", "true"},
	} {
		if got := [2]string{fast[variable], printed[variable]}; got != want {
			t.Errorf("%s is %q in mafa and in mafa-printed, want %q", variable, got, want)
		}
		delete(fast, variable)
		delete(printed, variable)
	}
	if !maps.Equal(fast, printed) {
		t.Errorf("mafa-printed has %v, want mafa's %v", printed, fast)
	}
	if got := values(t, "mafa-printed", map[string]string{"BATCH_SIZE": "48"})["CANDIDATES"]; got != "47" {
		t.Errorf("in mini-batches of 48 Con-D scores %s candidates, want 47", got)
	}
}

func TestStepsFollowTheSizes(t *testing.T) {
	got := values(t, "albef", map[string]string{"LANES": "2", "GROUP_SIZE": "1000", "BATCH_SIZE": "10", "STEP_BATCHES": "1"})
	if got["LR_TOTAL_STEPS"] != "6000" || got["ITC_ALPHA_RAMP_STEPS"] != "200" {
		t.Errorf("%s steps in all and %s of ramp, want 6000 and 200", got["LR_TOTAL_STEPS"], got["ITC_ALPHA_RAMP_STEPS"])
	}
	// The papers' 5M pairs are an epoch of 13,020 steps, in however many lanes they are.
	for _, lanes := range []string{"1", "4", "16"} {
		got := values(t, "grit-vlp", map[string]string{"LANES": lanes, "PAIRS": "5000000"})
		if got["LR_TOTAL_STEPS"] != "390600" {
			t.Errorf("5M pairs in %s lanes: %s steps, want 30 epochs of 13,020", lanes, got["LR_TOTAL_STEPS"])
		}
		if got := values(t, "albef", map[string]string{"LANES": lanes, "PAIRS": "5000000"}); got["ITC_ALPHA_RAMP_STEPS"] != "9765" {
			t.Errorf("5M pairs in %s lanes: a ramp of %s steps, want an epoch of 9,765", lanes, got["ITC_ALPHA_RAMP_STEPS"])
		}
	}
	for _, bad := range []string{"x", "0", "-3"} {
		if got := values(t, "albef", map[string]string{"BATCH_SIZE": bad}); got["LR_TOTAL_STEPS"] == "" {
			t.Errorf("BATCH_SIZE=%s leaves no steps", bad)
		}
	}
}

// One epoch is a way to run: no curriculum, a schedule of the run's length, and targets that are soft from the start.
func TestOneEpoch(t *testing.T) {
	for _, row := range []struct {
		recipe, variable, want string
		environ                map[string]string
	}{
		{"gpn-s", "TEXTS", "none", map[string]string{"EPOCHS": "1"}},
		{"gpn-s", "TEXTS", "none", map[string]string{"EPOCHS": "3"}},
		{"gpn-s", "TEXTS", "curriculum", map[string]string{"EPOCHS": "4"}},
		{"gpn-s", "TEXTS", "none", map[string]string{"EPOCHS": "1", "TEXTS": "curriculum:30"}}, // which holds instead
		{"mafa", "ITC_SOFT_FROM_EPOCH", "0", map[string]string{"EPOCHS": "1"}},
		{"mafa", "LR_TOTAL_STEPS", "78124", map[string]string{"EPOCHS": "1"}}, // one and a half epochs: the papers' cosine is longer than the run
		{"albef", "LR_TOTAL_STEPS", "39062", map[string]string{"EPOCHS": "1"}},
	} {
		if got := values(t, row.recipe, row.environ)[row.variable]; got != row.want {
			t.Errorf("%s with %v: %s is %q, want %q", row.recipe, row.environ, row.variable, got, row.want)
		}
	}
}

func TestOverlay(t *testing.T) {
	got := must.Get(recipe.Overlay(map[string]string{"RECIPE": "gpn-s", "EPOCHS": "3", "LR": "", "OTHER": "x"}))(t)
	for variable, want := range map[string]string{"STRATEGY": "gns", "EPOCHS": "3", "LR": "1e-4", "OTHER": "x", "RECIPE": "gpn-s"} {
		if got[variable] != want {
			t.Errorf("%s is %q, want %q", variable, got[variable], want)
		}
	}
	if _, err := recipe.Overlay(map[string]string{"RECIPE": "clip"}); err == nil || !strings.Contains(err.Error(), `RECIPE is "clip", want albef`) {
		t.Errorf("an unknown recipe gives %v", err)
	}
}

func TestDifferences(t *testing.T) {
	got := must.Get(recipe.Differences(map[string]string{"EPOCHS": "10", "LR": "0.0001", "BATCH_SIZE": "96", "SEED": "7"}))(t)
	if want := []string{"EPOCHS=10, mafa has 20 (GRIT-VLP 5.1; MAFA 5.1)"}; !slices.Equal(got, want) {
		t.Errorf("differences are %q, want %q", got, want)
	}
}

// Every value of every recipe is in the table of the papers' page, once.
func TestPapersTableIsComplete(t *testing.T) {
	table := must.Get(recipe.PapersTable())(t)
	found := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[2:] {
		cells := strings.Split(line, " | ")
		if len(cells) != 6 {
			t.Fatalf("%d cells in %q", len(cells), line)
		}
		names := recipe.Names()
		if cells[2] != "all" {
			names = strings.Split(cells[2], ", ")
		}
		for _, name := range names {
			found[name+" "+strings.Trim(cells[3], "`")+"="+strings.Trim(cells[4], "`")]++
		}
	}
	total := 0
	for _, name := range recipe.Names() {
		for variable, value := range values(t, name, nil) {
			total++
			if n := found[name+" "+variable+"="+value]; n != 1 {
				t.Errorf("%s: %s=%s is %d times in the table", name, variable, value, n)
			}
		}
	}
	if total != len(found) {
		t.Errorf("%d values in the table, %d in the recipes", len(found), total)
	}
}

// A departure names recipes that there are, and says what pairstream does.
func TestDeparturesConcernRecipes(t *testing.T) {
	rows := strings.Split(strings.TrimSpace(recipe.DeparturesTable()), "\n")[2:]
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "|"), " | ")
		if len(cells) != 5 || strings.TrimSpace(cells[0]) == "" || strings.TrimSpace(cells[4]) == "" {
			t.Fatalf("a departure without a place or without what is done here: %q", row)
		}
		for name := range strings.SplitSeq(cells[1], ", ") {
			if name != "all" && !slices.Contains(recipe.Names(), name) {
				t.Errorf("%q concerns %s, which is no recipe", cells[0], name)
			}
		}
	}
	if len(rows) < 30 {
		t.Errorf("%d departures", len(rows))
	}
}
