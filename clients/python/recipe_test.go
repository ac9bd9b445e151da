package python

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/recipe"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/trainer"
)

// readRecipes prints the steps that each environment plans, and its learning rates at given steps.
const readRecipes = `
import json, sys
from pairstream.torch import Recipe
for environ, steps in json.load(sys.stdin):
    r = Recipe.of(environ=environ)
    print([r.step_batches, r.ramp_steps, r.lr_total_steps, r.lr_warmup_steps, *map(r.rate, steps)])
`

// TestRecipePlansInPythonAsInGo compares steps and learning rates, whatever gives the pairs of an epoch.
func TestRecipePlansInPythonAsInGo(t *testing.T) {
	run := python(t, "torch")
	var environs []map[string]string
	for _, name := range recipe.Names() {
		for _, sizes := range []map[string]string{
			{},
			{"PAIRS": "5000000"},
			{"PAIRS": "5000000", "LANES": "16", "GROUP_SIZE": "7"},
			{"PAIRS": "0", "LANES": "16"},
			{"PAIRS": "6000", "BATCH_SIZE": "48", "STEP_BATCHES": "2", "EPOCHS": "8"},
			{"PAIRS": "1"},
			{"PAIRS": "1000000", "STEP_BATCHES": "8", "EPOCHS": "7"},
			{"LANES": "3", "GROUP_SIZE": "100000", "STEP_BATCHES": "4"},
			{"PAIRS": "20000", "LR_WARMUP_STEPS": "3"},
			{"PAIRS": "20000", "LR_TOTAL_STEPS": "90000", "ITC_ALPHA_RAMP_STEPS": "11"},
			{"LR_SCHEDULE": "reference", "LR_WARMUP_STEPS": "20", "LR": "3e-4", "LR_TOTAL_STEPS": "150000"},
		} {
			sizes[recipe.Variable] = name
			environs = append(environs, sizes)
		}
	}
	cases := make([][2]any, 0, len(environs))
	wanted := make([][]float64, 0, len(environs))
	for _, environ := range environs {
		o := must.Get(config.Parse[trainer.Options](environ))(t)
		total := o.Schedule.TotalSteps
		steps := []int64{0, 1, 99, 101, 1999, 2000, total / 3, total - 1, total, 2 * total}
		want := []float64{float64(o.StepBatches), float64(o.ITC.AlphaRampSteps), float64(total), float64(o.Schedule.WarmupSteps)}
		for _, step := range steps {
			want = append(want, o.Schedule.At(step))
		}
		cases, wanted = append(cases, [2]any{environ, steps}), append(wanted, want)
	}
	out := must.Get(run(string(must.Get(json.Marshal(cases))(t)), "-c", readRecipes))(t)
	lines := json.NewDecoder(strings.NewReader(out))
	for i, want := range wanted {
		var got []float64
		must.Do(t, lines.Decode(&got))
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(b) }) {
			t.Errorf("%v: Python plans %v, Go %v", environs[i], got, want)
		}
	}
}
