package scenes_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/content/nouns"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// drawer has a striped red cat on the left, a plain red cat on the right and two spotted green leaves below.
var drawer = scenes.Scene{Objects: []scenes.Object{
	{Shape: "cat", Colour: "red", Size: "small", Pattern: "striped", X: 250, Y: 250},
	{Shape: "cat", Colour: "red", Size: "small", X: 750, Y: 250},
	{Shape: "leaf", Colour: "green", Size: "large", Pattern: "spotted", X: 250, Y: 750},
	{Shape: "leaf", Colour: "green", Size: "large", Pattern: "spotted", X: 750, Y: 750},
}}

func TestMatchesThings(t *testing.T) {
	for caption, want := range map[string]bool{
		"a cat":                           true,
		"a kitten":                        true,
		"two small red kittens":           true,
		"a striped red cat":               true,
		"a small stripy cat":              true,
		"two striped cats":                false,
		"one striped cat":                 true,
		"a spotted cat":                   false,
		"a red striped cat":               false, // not of the grammar
		"two leaves":                      true,
		"two dotted green leaves":         true,
		"two leafs":                       false,
		"a leaves":                        false,
		"a leaf to the left of a leaf":    true,
		"a striped cat left of a red cat": true,
		"a striped shape above a leaf":    true,
		"a striped cat and a cat":         true,
		"two red cats and a striped cat":  false, // an object serves one part
		"a striped red cat, a red cat and two large spotted green leaves": true,
		"a dog": false,
	} {
		if got := scenes.Matches(drawer, caption); got != want {
			t.Errorf("%q matches: %v, want %v", caption, got, want)
		}
	}
}

func TestShapeOf(t *testing.T) {
	for word, want := range map[string]scenes.Shape{
		"cat": "cat", "cats": "cat", "kittens": "cat", "leaves": "leaf", "fish": "fish", "boots": "shoe", "toadstool": "mushroom",
		"shape": "", "objects": "", "red": "", "picture": "", "": "",
	} {
		got, ok := scenes.ShapeOf(word)
		if got != want || ok != (want != "") {
			t.Errorf("%q is a %q, %v, want %q", word, got, ok, want)
		}
	}
}

// Every word for a thing is a noun to the tagger, and says one thing alone. Colours, sizes and patterns are not.
func TestThingsAreNouns(t *testing.T) {
	tagger := must.Get(nouns.Load())(t)
	missed := 0
	for _, s := range scenes.Shapes {
		found := tagger.Nouns(fmt.Sprintf("a large red %s above a blue circle", s))
		if !slices.Contains(found, string(s)) {
			missed++
			t.Logf("of a %s the tagger finds %v", s, found)
		}
		for _, not := range []string{"large", "red", "blue", "above"} {
			if slices.Contains(found, not) {
				t.Errorf("of a %s the tagger finds %v", s, found)
			}
		}
	}
	if len(scenes.Shapes) < 36 || missed > 0 {
		t.Errorf("the tagger misses %d of %d things", missed, len(scenes.Shapes))
	}
}

// TestThingsShowTheirColour counts the pixels of an object's colour: every silhouette has a filled middle part and
// leaves the surroundings alone, and a pattern covers some of it.
func TestThingsShowTheirColour(t *testing.T) {
	const side = 96
	count := func(s scenes.Scene) (red, background int) {
		m := s.Draw(side)
		for i := 0; i < len(m.Pix); i += 4 {
			switch p := m.Pix[i : i+3]; {
			case p[0] == 216 && p[1] == 38 && p[2] == 38:
				red++
			case p[0] == 230 && p[1] == 230 && p[2] == 230:
				background++
			}
		}
		return red, background
	}
	for _, shape := range scenes.Shapes {
		o := scenes.Object{Shape: shape, Colour: "red", Size: "large", X: 500, Y: 500, Angle: 12}
		scene := scenes.Scene{Background: [3]int{230, 230, 230}, Objects: []scenes.Object{o}}
		plain, around := count(scene)
		if plain < 100 || around < side*side*8/10 {
			t.Errorf("a %s has %d pixels of its colour, and %d are left of the background", shape, plain, around)
		}
		for _, pattern := range scenes.Patterns {
			scene.Objects[0].Pattern = pattern
			if n, _ := count(scene); n < plain/4 || n > plain*9/10 {
				t.Errorf("a %s %s has %d pixels of its colour, a plain one %d", pattern, shape, n, plain)
			}
		}
	}
}

// TestFalseNegatives counts, for random mini-batches of 96, the pictures of which another caption is true.
func TestFalseNegatives(t *testing.T) {
	for _, want := range []float64{0.02, 0.05, 0.16, 0.4} {
		o := scenes.Defaults()
		o.Seed, o.Side, o.Captions, o.FalseNegatives = 7, 16, 1, want
		const batches, n = 25, 96
		hit := 0
		for b := range batches {
			var shown [n]scenes.Scene
			var said [n]scenes.Statement
			for i := range n {
				r, _ := makeScene(t, o, b*n+i)
				shown[i], said[i] = r.Scene, *r.Labels[0].Statement
				if r.Labels[0].Truth != scenes.True || !said[i].Holds(shown[i]) {
					t.Fatalf("%+v is not true of its scene", r.Labels[0])
				}
			}
			for i, s := range shown {
				for j, st := range said {
					if i != j && st.Holds(s) {
						hit++
						break
					}
				}
			}
		}
		if got := float64(hit) / (batches * n); got < want*0.75 || got > want*1.3 {
			t.Errorf("%.4f of the pictures fit another caption of their mini-batch, want %.2f", got, want)
		}
	}
}
