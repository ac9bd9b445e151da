package experiments

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/demo/models"
	"github.com/pairstream/pairstream/internal/demo/models/partial"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// Every experiment of the page runs small, gives the same measures each time, and knows the measures of its page.
func TestPlansRunShort(t *testing.T) {
	shelf := &Shelf{Dir: t.TempDir()}
	for _, e := range evidence.All() {
		p := must.Get(NewPlan(e.ID, true, 1))(t)
		must.Get(json.Marshal(p.Settings))(t)
		runs := 2
		if e.Timed { // no two runs are alike
			runs = 1
		}
		var first []evidence.Measure
		for range runs {
			j := newJob(t, e.Seeds[0])
			j.Shelf = shelf
			measures, err := p.Run(t.Context(), j)
			if err != nil {
				t.Fatalf("%s: %v", e.ID, err)
			}
			if first != nil && !reflect.DeepEqual(measures, first) {
				t.Errorf("%s gives %v and %v", e.ID, first, measures)
			}
			first = measures
		}
		r := &evidence.Result{}
		r.Add(evidence.Run{Seed: e.Seeds[0], Measures: first})
		for _, table := range e.Tables {
			if len(table.Cells(r)) < 2 {
				t.Errorf("%s: no row of %q is measured", e.ID, table.Title)
			}
		}
	}
	if models, err := os.ReadDir(shelf.Dir); err != nil || len(models) != 10 {
		t.Errorf("the shelf holds %v, %v, want ten models: of X1, of X2 and X8, two of X14, and three each of X15 and X16", models, err)
	}
	for id, scale := range map[string]int{"x1": 0, "x99": 1} {
		if _, err := NewPlan(id, true, scale); err == nil {
			t.Errorf("a plan of %s at scale %d", id, scale)
		}
	}
}

// At full size the claims find their measures: every point of a claim is one that the settings produce.
func TestSettingsHaveWhatThePageReads(t *testing.T) {
	x1, x8 := falseNegativeSizes(false, 1), neighbourSizes(false, 1)
	produced := map[string][]float64{"random": toFloats(x1.Batches), "GRIT": append(toFloats(x1.Spaces), float64(x1.Batch)), "captions": {0}, "any": {0}}
	for _, s := range x8.Steps {
		for _, r := range s.Reads {
			switch r {
			case "k":
				produced["obj k"] = append(produced["obj k"], float64(s.K))
			case "p":
				produced["obj p"] = append(produced["obj p"], s.P)
			case "k1":
				produced["SE k1"] = append(produced["SE k1"], float64(s.K1))
			case "k2":
				produced["SE k2"] = append(produced["SE k2"], float64(s.K2))
			case "K":
				produced["clusters"] = append(produced["clusters"], float64(s.Clusters))
			}
		}
	}
	check := func(id string, arm string, x float64) {
		arm, _, _ = strings.Cut(strings.TrimSuffix(strings.TrimSuffix(arm, " clean"), " noisy"), "\n")
		if arm != "" && !slices.Contains(produced[arm], x) {
			t.Errorf("%s reads arm %q at %g, which is not measured", id, arm, x)
		}
	}
	for _, id := range []string{"x1", "x8"} {
		e := must.Get(evidence.Find(id))(t)
		for _, c := range e.Claims {
			check(id, c.More.Arm, c.More.X)
			check(id, c.Less.Arm, c.Less.X)
		}
		for _, table := range e.Tables {
			for _, row := range table.Rows {
				check(id, row.Arm, row.X)
			}
		}
	}
	x2 := []evidence.Measure{{Arm: "first"}}
	for _, a := range newComparison("x2", false, 1).Arms {
		x2 = append(x2, evidence.Measure{Arm: a.Name})
	}
	overX(x2)
	produced = map[string][]float64{}
	for _, m := range x2 {
		produced[m.Arm] = append(produced[m.Arm], m.X)
	}
	e := must.Get(evidence.Find("x2"))(t)
	for _, c := range e.Claims {
		check("x2", c.More.Arm, c.More.X)
		check("x2", c.Less.Arm, c.Less.X)
	}
	for _, table := range e.Tables {
		for _, row := range table.Rows {
			check("x2", row.Arm, row.X)
		}
	}
}

func toFloats(list []int) (out []float64) {
	for _, v := range list {
		out = append(out, float64(v))
	}
	return out
}

// TestFalseNegativesByHand has a mini-batch of three: the text of sample 1 is true of image 0, and nothing else is true
// of another's image.
func TestFalseNegativesByHand(t *testing.T) {
	b := &schemas.Batch{Samples: make([]schemas.Sample, 3), M: 1, I2T: schemas.Int32s{1, 2, -1}, T2I: schemas.Int32s{1, 0, 1}}
	var f falseNegatives
	f.add(b, func(image, text int) bool { return image == 0 && text == 1 })
	// Image 0 has the hardest text 1: false. Image 1 has text 2: true. Image 2 has none.
	// Text 0 has image 1: true. Text 1 has image 0: false. Text 2 has image 1: true.
	if want := (falseNegatives{images: 2, byImage: 1, texts: 3, byText: 1, pairs: 6, matching: 1}); f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
	if got := f.measures("arm", 3); got[0].Value != 0.5 || got[1].Value != 1.0/3 || got[2].Value != 1.0/6 || got[0].X != 3 {
		t.Errorf("%+v", got)
	}
}

// hand has four members: two with a red cat, a blue cat with a star, and a boat.
func hand() *members {
	object := func(s scenes.Shape, c scenes.Colour) scenes.Object { return scenes.Object{Shape: s, Colour: c} }
	m := &members{
		shown: []scenes.Scene{
			{Objects: []scenes.Object{object("cat", "red")}},
			{Objects: []scenes.Object{object("cat", "red"), object("boat", "green")}},
			{Objects: []scenes.Object{object("cat", "blue"), object("star", "red")}},
			{Objects: []scenes.Object{object("boat", "pink")}},
		},
		texts: []string{"a red cat", "a green boat", "a kitten", "click here"},
	}
	for _, text := range m.texts {
		st, _ := scenes.Parse(text) // what is not of the grammar says nothing
		m.said = append(m.said, st)
	}
	return m
}

func TestNounsByHand(t *testing.T) {
	var r retrieval
	r.nouns(hand().shown[1], []string{"kitten", "cats", "star", "picture"}) // two words for the cat, the boat is missed
	r.nouns(hand().shown[3], []string{"boat", "pink", "purple"})            // the boat is pink, and nothing is purple
	if want := (retrieval{found: 6, right: 4, all: 3, covered: 2, anchors: 2}); r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
	if m := r.measures("arm", 0.3); m[0].Value != 4.0/6 || m[1].Value != 2.0/3 || m[2].Value != 6.0/2 {
		t.Errorf("%+v", m)
	}
}

func TestEquivalentsAndClustersByHand(t *testing.T) {
	m := hand()
	fitting := m.fitting(2)
	// "a red cat" fits picture 1 as well; "a green boat" fits no other.
	if len(fitting) != 2 || !slices.Equal(fitting[0], []int32{1}) || len(fitting[1]) != 0 {
		t.Fatalf("fitting %v", fitting)
	}
	c := &schemas.NeighborChunk{
		IDs: make([]byte, 4*16), K1: 2, SE: schemas.Int32s{1, 2, 0, -1, 0, 1, -1, -1}, Cluster: schemas.Int32s{0, 0, 1, 1},
		ObjEnd: schemas.Int32s{1, 1, 1, 1}, Obj: schemas.Int32s{1},
	}
	g := &group{}
	g.Group = newHandGroup(c)
	// Of 0: picture 1 fits and shares the red cat, 2 does not. Of 1: picture 0 shares the cat, "a green boat" does not
	// fit. Of 2: "a kitten" fits 0 and 1, which share nothing: their cats are red. Of 3: none.
	want := equivalents{anchors: 4, images: 5, fits: 3, alike: 2, all: 1, found: 1}
	if got := m.equivalent(g, fitting); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	// In cluster 0 "a red cat" fits picture 1, and "a green boat" does not fit picture 0. In cluster 1 nothing fits.
	if got := m.clusters(g, 400, 1); got < 0.2 || got > 0.3 {
		t.Errorf("%v of the pairs of one cluster are false negatives, want about a quarter", got)
	}
	if got, want := m.objects(g), (retrieval{found: 1, right: 1, all: 6, covered: 1, anchors: 4}); got != want {
		t.Errorf("objects %+v, want %+v", got, want)
	}
}

// newHandGroup returns a group of one chunk, with the nouns "boat" and "cat".
func newHandGroup(c *schemas.NeighborChunk) *indexer.Group {
	return &indexer.Group{Chunks: []*schemas.NeighborChunk{c}, Manifest: &schemas.Group{Count: int32(c.Members()), Nouns: []string{"boat", "cat"}}}
}

// TestTopShareByHand has three rows. The largest columns are 1, 0 and, of two alike, 0.
func TestTopShareByHand(t *testing.T) {
	m := eval.Matrix{Rows: 3, Cols: 2, Data: []float32{0.1, 0.2, 0.5, -1, 0.3, 0.3}}
	for name, c := range map[string]struct {
		holds func(row, col int) bool
		want  float64
	}{
		"the diagonal":     {func(row, col int) bool { return row == col }, 0},
		"the first column": {func(_, col int) bool { return col == 0 }, 2.0 / 3},
		"everything":       {func(_, _ int) bool { return true }, 1},
	} {
		if got := topShare(m, c.holds); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Arms differ in what they are named for, and in nothing else.
func TestArmsDifferAsNamed(t *testing.T) {
	base := (&setup{sizes: DefaultSizes()}).training(100)
	seen := map[string]bool{}
	for _, id := range []string{"x2", "x4"} {
		for _, a := range newComparison(id, false, 1).Arms {
			o := a.options(base)
			if err := o.Validate(); err != nil || seen[id+a.Name] {
				t.Errorf("%s %q: %v, or twice", id, a.Name, err)
			}
			seen[id+a.Name] = true
			asked := o.ECM.ITC || o.ECM.ITM || o.ECM.MLM
			if asked != a.judged() || o.Momentum.Enabled() != (o.ITC.Targets == trainer.Distilled) {
				t.Errorf("%s %q has %+v", id, a.Name, o)
			}
			o.ITC, o.ECM, o.Momentum = base.ITC, base.ECM, base.Momentum
			if !reflect.DeepEqual(o, base) {
				t.Errorf("%s %q changes more than targets and connections: %+v", id, a.Name, o)
			}
		}
	}
	if len(seen) != 15+6 {
		t.Errorf("%d arms, want 15 of X2 and 6 of X4", len(seen))
	}
}

// X5's arms differ in sampling, consistency, the queue and the losses that are on.
func TestSamplingsDifferAsNamed(t *testing.T) {
	base := (&setup{sizes: DefaultSizes()}).training(100)
	for _, a := range newComparison("x5", false, 1).Arms {
		o := a.options(base)
		if err := o.Validate(); err != nil {
			t.Errorf("%q: %v", a.Name, err)
		}
		named := func(part string) bool { return strings.Contains(a.Name, part) }
		grit := named("grit") || named("consistency")
		if (a.Strategy == grouper.StrategyGRIT) != grit || (o.ITMWeight == 0) != named("itc") || (o.MLMWeight == 0) != named("itc") ||
			(o.Momentum.Queue > 0) != named("queue") || o.Momentum.Enabled() != named("queue") ||
			(o.ITC.Targets == trainer.Consistency) != named("consistency") || a.judged() {
			t.Errorf("%q has %s and %+v", a.Name, a.Strategy, o)
		}
	}
}

// GPN-S's arms differ from the first in what they are named for.
func TestPositivesDifferAsNamed(t *testing.T) {
	c := newPositives(false, 1)
	on := &setup{sizes: c.Sizes}
	base, seen := on.training(100), map[string]bool{}
	for _, a := range c.Arms {
		o := a.options(base)
		sampling := a.Positives.sampling(on.sampling(a.Strategy, c.Sizes.Batch, c.Sizes.Epochs, 0))
		if err := errors.Join(o.Validate(), sampling.Validate()); err != nil || seen[a.Name] {
			t.Errorf("%q: %v, or twice", a.Name, err)
		}
		seen[a.Name] = true
		named := func(word string) bool { return slices.Contains(strings.Fields(a.Name), word) || a.Name == "full" }
		if (o.UniWeight > 0) != named("uni") || (sampling.Strategy == grouper.StrategyGNS) != named("gns") ||
			(sampling.Texts == grouper.TextCurriculum) != named("cross") || o.ITMWeight > 0 || o.MLMWeight > 0 || o.Momentum.Enabled() || a.judged() {
			t.Errorf("%q has %+v and %+v", a.Name, o, sampling)
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d arms, want 8", len(seen))
	}
	if c.matching() || !newComparison("x2", false, 1).matching() || newComparison("x5", false, 1).matching() {
		t.Error("X2 alone of X2, X5 and X7 asks a matching head in the papers' regime")
	}
	if c.Regime.Start.Steps >= c.Regime.First.Steps {
		t.Error("the model that the arms begin with has learned as long as the one that finds the neighbours")
	}
}

// The texts of an arm are counted as they are trained on.
func TestTextsAreCounted(t *testing.T) {
	red := scenes.Scene{Objects: []scenes.Object{{Shape: "circle", Colour: "red"}, {Shape: "star", Colour: "blue"}}}
	d := &data{shows: map[schemas.ImageID]scenes.Scene{{1}: red}}
	var r retrieval
	b := &schemas.Batch{Samples: []schemas.Sample{
		{ImageID: schemas.ImageID{1}, Text: "a red circle"}, {ImageID: schemas.ImageID{1}, Text: "circle house", Replaced: true},
	}}
	must.Do(t, d.countTexts(&r, b))
	// circle; circle and house, which is not there. Of two objects in each scene, the circle was named.
	if r.found != 3 || r.right != 2 || r.all != 4 || r.covered != 2 || r.anchors != 2 {
		t.Errorf("counted %+v", r)
	}
}

// The models that come with pairstream are found by how they are made, and their card says how that is.
func TestShippedModelsAreKnown(t *testing.T) {
	weak := firstModel()
	weak.Steps--
	for name, c := range map[string]struct {
		made FirstModel
		want []byte
	}{
		"first": {firstModel(), models.First}, "con-d": {condModel(), models.ConD}, "another": {weak, nil},
		"first of the demo": {modelPairs()[1].first, partial.First}, "con-d of the demo": {modelPairs()[1].cond, partial.ConD},
	} {
		if got := c.made.known(); !bytes.Equal(got, c.want) {
			t.Errorf("%s: %d bytes, want %d others", name, len(got), len(c.want))
		}
	}
	for _, pair := range modelPairs() {
		card := must.Get(os.ReadFile(filepath.Join("../../internal/demo/models", pair.folder, "README.md")))(t)
		for _, m := range []FirstModel{pair.first, pair.cond} {
			made, err := json.Marshal(m)
			if err != nil || !bytes.Contains(card, made) {
				t.Errorf("the card of %q does not have %s (%v): make first-models makes the models anew", pair.folder, made, err)
			}
		}
	}
}

// People say yes by two experts of three, or by more of a crowd than say no. Pairs of a photograph with its own
// caption, with unknown ones and with another caption than the one that is judged are left out.
func TestJudgementsAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "judgements.tsv")
	const head = "image\tcaption_of\tcaption\texpert_1\texpert_2\texpert_3\tcrowd_yes\tcrowd_no\n"
	must.Do(t, os.WriteFile(path, []byte(head+
		"a\ta\t2\t4\t4\t4\t\t\na\tb\t2\t3\t4\t1\t0\t3\nb\ta\t2\t2\t2\t4\t\t\nb\ta\t2\t\t\t\t2\t1\nb\ta\t1\t4\t4\t4\t\t\nc\ta\t2\t4\t4\t4\t\t\n"), 0o600))
	got, err := readJudgements(path, map[string]int{"a": 0, "b": 1})
	if want := []judgement{{0, 1, true}, {1, 0, false}, {1, 0, true}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("read %v, %v, want %v", got, err, want)
	}
	must.Do(t, os.WriteFile(path, []byte(head+"a\tb\t2\tmany\t4\t1\t0\t3\n"), 0o600))
	if _, err := readJudgements(path, map[string]int{"a": 0, "b": 1}); err == nil || !strings.Contains(err.Error(), "line 2 of") {
		t.Errorf("an expert who says a word: %v", err)
	}
}
