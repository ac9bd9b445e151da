package demo

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/demo/models"
	"github.com/pairstream/pairstream/internal/demo/models/partial"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// smallDemo is a demo of scenes before anything is streamed.
func smallDemo(t *testing.T, environ map[string]string) *demo {
	t.Helper()
	t.Setenv("CONSOLE_ADDR", "off") // it would take a port
	for name, value := range environ {
		t.Setenv(name, value)
	}
	d := &demo{out: io.Discard, Options: Options{Dir: t.TempDir(), Seed: 3, Epochs: 1, HeldOut: 30}, plan: onScenes(3, false)}
	d.drawn = filepath.Join(d.Dir, "scenes")
	d.Data = d.drawn
	o := d.plan.scenes
	o.Scenes = 90
	must.Do(t, scenes.WriteDir(t.Context(), d.Data, o, nil))
	must.Do(t, errors.Join(d.read(t.Context(), true), d.settle()))
	closeImages := must.Get(d.openImages(t.Context()))(t)
	t.Cleanup(func() { must.Check(t, closeImages()) })
	must.Do(t, d.bootstrap(t.Context()))
	return d
}

// All models are asked about the hard negatives that the first one finds, of which none is true.
func TestModelsAreAskedAboutTheSameNegatives(t *testing.T) {
	d := smallDemo(t, nil)
	matches := d.matches()
	holds := 0
	for text := range d.held.Pairs() {
		for image := range d.held.Images() {
			if _, own, _ := d.held.Pair(text); own == image && !matches(image, text) {
				t.Errorf("caption %d is not true of its own picture", text)
			} else if own != image && matches(image, text) {
				holds++
			}
		}
	}
	// The runs' models are known ones here.
	d.checkpoint = d.weights()
	for _, a := range d.rivals {
		a.checkpoint = d.cond()
	}
	must.Do(t, d.measure(t.Context()))
	w := must.Get(d.newWorker())(t)
	defer w.Close()
	for _, a := range d.arms() {
		want := must.Get(d.evaluate(t.Context(), w, a.checkpoint, eval.Options{TopK: reranked, Mining: &d.before.Sim, Matches: matches}))(t)
		if a.report.Match != want.Match || a.report.ITC != want.ITC || *a.report.ITM != *want.ITM {
			t.Errorf("%s: %+v, want %+v", a.title, a.report.Match, want.Match)
		}
	}
	if d.report.Match != d.before.Match || d.rivals[0].report.Match == d.before.Match {
		t.Errorf("models are mistaken for one another: %+v, %+v", d.report.Match, d.rivals[0].report.Match)
	}
}

func TestDemoSaysWhoWonAndThatOneSeedIsLittle(t *testing.T) {
	measured := func(title string, auc float64) *arm {
		return &arm{title: title, report: &eval.Report{Match: eval.MatchError{AUC: auc}}}
	}
	for _, c := range []struct {
		arms []*arm
		want string
	}{
		{[]*arm{measured(randomTitle, 96), measured("GRIT", 96.5), measured("GRIT + ECM", 97.25)}, "GRIT + ECM: the highest AUC of ITM, 97.2 %, 1.2 above random mini-batches. This is one seed"},
		{[]*arm{measured(randomTitle, 96), measured("GRIT", 95)}, "random mini-batches: the highest AUC of ITM, 96.0 %. This is one seed"},
		{[]*arm{measured("GRIT", 95)}, "GRIT: the highest AUC of ITM, 95.0 %. This is one seed"},
	} {
		if got := won(c.arms); !strings.HasPrefix(got, c.want) || !strings.Contains(got, "cannot tell it from chance") {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A run without connections says so below its row.
func TestTableSaysThatNothingWasConnected(t *testing.T) {
	for recipe, want := range map[string]bool{"": true, "grit-vlp": false} {
		d := smallDemo(t, map[string]string{"RECIPE": recipe})
		const off = "no connection was made, so that GRIT + ECM trained as GRIT does"
		if got := strings.Contains(d.legend(), off); got != want {
			t.Errorf("recipe %q without connections: %q", recipe, d.legend())
		}
		d.steps.counts.Confirmed = 1
		if strings.Contains(d.legend(), off) {
			t.Errorf("recipe %q with a connection: %q", recipe, d.legend())
		}
	}
}

// Each world of scenes brings its own models.
func TestScenesBringTheirModels(t *testing.T) {
	for omitting, want := range map[bool][2][]byte{false: {models.First, models.ConD}, true: {partial.First, partial.ConD}} {
		d := &demo{Options: Options{Dir: t.TempDir()}, plan: onScenes(3, omitting), cache: shard.NewImages(nil, shard.ImagesOptions{})}
		must.Do(t, d.bringModels())
		first, cond := must.Get(os.ReadFile(d.weights()))(t), must.Get(os.ReadFile(d.cond()))(t)
		if !bytes.Equal(first, want[0]) || !bytes.Equal(cond, want[1]) || d.plan.scenes.Kinds.Partial != omitting {
			t.Errorf("captions that omit things, %t: scenes of %+v, or models of the other world", omitting, d.plan.scenes.Kinds)
		}
	}
}

// A run is compared with the ways to make mini-batches that are not its own.
func TestRivals(t *testing.T) {
	for recipe, want := range map[string][]string{
		"": {"random mini-batches", "GRIT", "GRIT + ECM"}, "grit-vlp": {"random mini-batches", "GRIT"}, "albef": {"GRIT", "random mini-batches"},
		"gpn-s": {"random mini-batches", "GRIT", "GPN-S"},
	} {
		d := smallDemo(t, map[string]string{"RECIPE": recipe})
		var got []string
		for _, a := range d.arms() {
			got = append(got, a.title)
			o := a.settings.Grouper.Options()
			if a != d.arm && (o.Candidates != 0 || string(o.Strategy) != a.name || a.settings.Stream.Namespace != a.name) {
				t.Errorf("%s beside %q: strategy %s, %d candidates, namespace %q", a.name, recipe, o.Strategy, o.Candidates, a.settings.Stream.Namespace)
			}
			if a.settings.Trainer.Options().Seed != 3 || a.settings.Trainer.Init != d.settings.Trainer.Init {
				t.Errorf("%s beside %q begins elsewhere", a.name, recipe)
			}
		}
		if !slices.Equal(got, want) || !slices.Equal(d.settings.Console.Namespaces, namesOf(d.rivals)) {
			t.Errorf("recipe %q is compared as %q, want %q; the console shows %q", recipe, got, want, d.settings.Console.Namespaces)
		}
	}
}

func namesOf(arms []*arm) (names []string) {
	for _, a := range arms {
		names = append(names, a.name)
	}
	return names
}

// ITC becomes harder while a momentum queue fills, and with connections, which share its rows. No other loss does.
func TestLossesThatGrow(t *testing.T) {
	for recipe, want := range map[string]bool{"mafa": true, "grit-vlp": false, "albef": true, "tcl": true, "gpn-s": true} {
		d := smallDemo(t, map[string]string{"RECIPE": recipe})
		if d.growing("ITC") != want || d.growing("ITM") || d.growing("MLM") {
			t.Errorf("recipe %s: ITC grows is %t, want %t, and no other loss", recipe, d.growing("ITC"), want)
		}
	}
}
