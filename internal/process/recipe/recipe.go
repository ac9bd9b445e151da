// Package recipe contains the papers' settings for pre-training.
//
// A recipe is a list of variables and values, each with its section in the paper. [Overlay] adds the values of the
// recipe named by RECIPE to an environment: variables set there stay. Where a paper counts epochs and a stream counts
// steps, the steps are derived from PAIRS, BATCH_SIZE and STEP_BATCHES. Without PAIRS every lane counts as one full
// group: LANES x GROUP_SIZE pairs. GPN-S gives the sizes of a whole step: a larger STEP_BATCHES makes its mini-batches
// smaller. Another number of EPOCHS stretches the schedule of the learning rate, and drops the curriculum if there are
// too few.
//
// The package reads no environment itself; everything is a function of its arguments.
package recipe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Variable names the setting that chooses a recipe.
const Variable = "RECIPE"

// Default is the recipe of a process without RECIPE.
const Default = "mafa"

// Value is a recipe's value of a variable, with its section in the paper.
type Value struct {
	Variable string
	Value    string
	Place    string
	Unlike   string // difference from the paper, and its reason; empty: none
	epochs   int64  // not 0: the value is the number of steps of that many epochs
	ofBatch  bool   // the value is one less than BATCH_SIZE
	ofStep   bool   // the value is for a whole step, whose STEP_BATCHES mini-batches share it
}

// Derived reports whether the value may depend on other settings.
func (v Value) Derived() bool {
	return v.epochs > 0 || v.ofBatch || v.ofStep || v.Variable == "LR_WARMUP_STEPS" || v.Variable == "TEXTS"
}

// Names lists the recipes, in the order of the papers.
func Names() []string {
	return []string{"albef", "tcl", "grit-vlp", "mafa", "mafa-printed", "gpn-s", "gpn-s-tcl"}
}

// check returns an error unless a recipe of this name exists.
func check(name string) error {
	if !slices.Contains(Names(), name) {
		return fmt.Errorf("%s is %q, want %s", Variable, name, strings.Join(Names(), ", "))
	}
	return nil
}

// Of returns the values of a recipe, sorted by variable. Steps are derived from the sizes in the environment.
func Of(name string, environ map[string]string) ([]Value, error) {
	if err := check(name); err != nil {
		return nil, err
	}
	byName := map[string]Value{}
	for _, list := range layers[name] {
		for _, v := range list {
			byName[v.Variable] = v
		}
	}
	size := func(variable string) int64 {
		n, err := strconv.ParseInt(cmp.Or(environ[variable], byName[variable].Value, sizes[variable]), 10, 64)
		if err != nil || n < 1 {
			return 1 // parsing the variable reports the error
		}
		return n
	}
	if batches := size("STEP_BATCHES"); batches > 1 {
		for variable, v := range byName {
			byName[variable] = v.shared(batches)
		}
	}
	pairs, of := size("LANES")*size("GROUP_SIZE"), "LANES x GROUP_SIZE"
	if n, err := strconv.ParseInt(environ["PAIRS"], 10, 64); err == nil && n > 0 {
		pairs, of = n, "PAIRS"
	}
	d := derivation{batch: size("BATCH_SIZE"), epoch: max(1, pairs/size("BATCH_SIZE")/size("STEP_BATCHES")), of: of, epochs: size("EPOCHS"), environ: environ}
	d.ofPaper, _ = strconv.ParseInt(byName["EPOCHS"].Value, 10, 64)
	out := make([]Value, 0, len(byName))
	for _, variable := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, d.derive(byName[variable]))
	}
	shortenWarmup(out, environ)
	return out, nil
}

// Size returns a size of an epoch in a recipe: of LANES, GROUP_SIZE, BATCH_SIZE and STEP_BATCHES.
func Size(name, variable string) string {
	for _, list := range slices.Backward(layers[name]) {
		for _, v := range list {
			if v.Variable == variable {
				return v.Value
			}
		}
	}
	return sizes[variable]
}

// shared divides a value of a whole step among its mini-batches.
func (v Value) shared(batches int64) Value {
	whole, err := strconv.ParseInt(v.Value, 10, 64)
	if !v.ofStep || err != nil {
		return v
	}
	v.Value = strconv.FormatInt(max(1, (whole+batches/2)/batches), 10)
	v.Place += fmt.Sprintf("; here %d, shared by STEP_BATCHES=%d", whole, batches)
	return v
}

// shortenWarmup limits the warm-up of the learning rate to a tenth of the steps in a short run, such as a first try. An
// environment that sets LR_TOTAL_STEPS must also choose the warm-up.
func shortenWarmup(values []Value, environ map[string]string) {
	if environ["LR_TOTAL_STEPS"] != "" {
		return
	}
	find := func(variable string) *Value {
		return &values[slices.IndexFunc(values, func(v Value) bool { return v.Variable == variable })]
	}
	total, err := strconv.ParseInt(find("LR_TOTAL_STEPS").Value, 10, 64)
	warmup := find("LR_WARMUP_STEPS")
	if steps, _ := strconv.ParseInt(warmup.Value, 10, 64); err == nil && total/10 < steps {
		warmup.Value = strconv.FormatInt(total/10, 10)
		warmup.Place += fmt.Sprintf("; here a tenth of LR_TOTAL_STEPS=%d", total)
	}
}

// derivation holds the inputs of derived values.
type derivation struct {
	batch           int64  // pairs of a mini-batch
	epoch           int64  // steps of an epoch
	of              string // setting that gives its pairs
	epochs, ofPaper int64  // set, and in the recipe
	environ         map[string]string
}

// derive fills in a value that depends on others.
func (d derivation) derive(v Value) Value {
	switch {
	case v.ofBatch:
		v.Value = strconv.FormatInt(d.batch-1, 10)
	case v.Variable == "LR_TOTAL_STEPS" && d.epochs != d.ofPaper:
		v.Value = strconv.FormatInt(max(1, v.epochs*d.epoch*d.epochs/d.ofPaper), 10)
		v.Place += fmt.Sprintf("; %d of its %d epochs of %s / BATCH_SIZE / STEP_BATCHES = %d steps, at EPOCHS=%d of %d", v.epochs*d.epochs/d.ofPaper, v.epochs, d.of, d.epoch, d.epochs, d.ofPaper)
	case v.epochs > 0:
		v.Value = strconv.FormatInt(v.epochs*d.epoch, 10)
		v.Place += fmt.Sprintf("; %d epochs of %s / BATCH_SIZE / STEP_BATCHES = %d steps", v.epochs, d.of, d.epoch)
	case v.Value == "curriculum" && d.epochs < leastCurriculum:
		v.Value = "none"
		v.Place += fmt.Sprintf("; EPOCHS=%d is too short for a curriculum, unless TEXTS=curriculum:E stretches it over groups", d.epochs)
	}
	return v
}

// leastCurriculum is the number of epochs below which the grouper refuses a curriculum.
const leastCurriculum = 4

// Overlay returns the environment with the values of its recipe for every variable that it does not set.
func Overlay(environ map[string]string) (map[string]string, error) {
	values, err := Of(named(environ), environ)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(environ)+len(values))
	for _, v := range values {
		out[v.Variable] = v.Value
	}
	for variable, value := range environ {
		if _, ours := out[variable]; !ours || value != "" {
			out[variable] = value
		}
	}
	return out, nil
}

// Differences lists the settings of an environment that differ from its recipe, in the order of the variables:
// "EPOCHS=10, mafa has 20 (MAFA 5.1)".
func Differences(environ map[string]string) ([]string, error) {
	name := named(environ)
	values, err := Of(name, environ)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, v := range values {
		if set := environ[v.Variable]; set != "" && !SameValue(set, v.Value) {
			out = append(out, fmt.Sprintf("%s=%s, %s has %s (%s)", v.Variable, set, name, v.Value, v.Place))
		}
	}
	return out, nil
}

// named returns the recipe of an environment.
func named(environ map[string]string) string {
	if name := environ[Variable]; name != "" {
		return name
	}
	return Default
}

// SameValue compares two values of a setting: as numbers, times or switches if both parse as such, otherwise as texts.
func SameValue(a, b string) bool {
	return a == b || sameAs(a, b, number) || sameAs(a, b, time.ParseDuration) || sameAs(a, b, strconv.ParseBool)
}

func sameAs[T comparable](a, b string, parse func(string) (T, error)) bool {
	x, errX := parse(a)
	y, errY := parse(b)
	return errX == nil && errY == nil && x == y
}

func number(s string) (float64, error) { return strconv.ParseFloat(s, 64) }

// Table returns a recipe as Markdown: variable, value, place in the paper, and departure from it.
func Table(name string, environ map[string]string) (string, error) {
	values, err := Of(name, environ)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| variable | %s | place | otherwise |\n|---|---|---|---|\n", name)
	for _, v := range values {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", v.Variable, v.Value, v.Place, v.Unlike)
	}
	return b.String(), nil
}
