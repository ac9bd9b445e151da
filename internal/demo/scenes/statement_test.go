package scenes_test

import (
	"reflect"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/demo/scenes"
)

// known has a small red circle upper left, a large red circle upper right, a large blue star lower left.
var known = scenes.Scene{Objects: []scenes.Object{
	{Shape: "circle", Colour: "red", Size: "small", X: 250, Y: 250},
	{Shape: "circle", Colour: "red", Size: "large", X: 750, Y: 250},
	{Shape: "star", Colour: "blue", Size: "large", X: 250, Y: 500},
}}

func TestMatches(t *testing.T) {
	for caption, want := range map[string]bool{
		"a red circle":                 true,
		"one red circle":               false,
		"two red circles":              true,
		"three red circles":            false,
		"one small red circle":         true,
		"a little circle":              true,
		"a big circle":                 true,
		"a small star":                 false,
		"a blue circle":                false,
		"three shapes":                 true,
		"three objects":                true,
		"two shapes":                   false,
		"two large objects":            true,
		"A Red Circle.":                true,
		"there are two red circles":    true,
		"a picture of a blue star":     true,
		"a star on a light background": true,
		// Different objects for different parts.
		"a circle and a circle":                                             true,
		"a star and a star":                                                 false,
		"a star and a blue shape":                                           false,
		"a shape, a shape and a shape":                                      true,
		"a shape, a shape, a shape and a shape":                             false,
		"two red circles and a star":                                        true,
		"two red circles and a shape":                                       true,
		"two red circles and a circle":                                      false,
		"three shapes and a star":                                           false,
		"a circle, a large circle and a blue star":                          true, // the first must take the small one
		"a large circle, a circle and a blue star":                          true,
		"a small red circle, a large red circle and a large blue star":      true,
		"you can see a small red circle, a big red circle and a green star": false,
		// Places.
		"a red circle to the left of a red circle":           true,
		"a small circle left of a big circle":                true,
		"a big circle is left of a small circle":             false,
		"a big circle is to the right of a star":             true,
		"a small circle left of a star":                      false,
		"a circle above a star":                              true,
		"a star below a small circle":                        true, // exactly RelationGap apart
		"a star under a circle":                              true,
		"a star over a circle":                               false,
		"an image of a star under a red circle":              true,
		"a red circle over a star on a light background":     true,
		"a star left of a star":                              false,
		"a small red circle to the right of a big red shape": false,
		// Not of the grammar.
		"":                               false,
		"red circle":                     false,
		"a":                              false,
		"a red":                          false,
		"a circle and":                   false,
		"a circle,, a star":              false,
		"a red red circle":               false,
		"two circle":                     false,
		"a circles":                      false,
		"five circles":                   false,
		"a circle near a star":           false,
		"two circles left of a star":     false,
		"click here":                     false,
		"a picture of":                   false,
		"a red circle on a dark surface": false,
	} {
		if got := scenes.Matches(known, caption); got != want {
			t.Errorf("%q matches: %v, want %v", caption, got, want)
		}
	}
}

func TestRelationsEndAtTheGap(t *testing.T) {
	at := func(dx, dy int) scenes.Scene {
		return scenes.Scene{Objects: []scenes.Object{
			{Shape: "star", Colour: "red", Size: "small", X: 400, Y: 400},
			{Shape: "ring", Colour: "red", Size: "small", X: 400 + dx, Y: 400 + dy},
		}}
	}
	for _, c := range []struct {
		dx, dy  int
		caption string
		want    bool
	}{
		{scenes.RelationGap, 0, "a ring right of a star", true},
		{scenes.RelationGap - 1, 0, "a ring right of a star", false},
		{-scenes.RelationGap, 300, "a ring left of a star", true},
		{1 - scenes.RelationGap, 300, "a ring left of a star", false},
		{0, scenes.RelationGap, "a ring below a star", true},
		{0, scenes.RelationGap - 1, "a ring below a star", false},
		{0, -scenes.RelationGap, "a ring above a star", true},
		{0, 1 - scenes.RelationGap, "a ring above a star", false},
	} {
		if got := scenes.Matches(at(c.dx, c.dy), c.caption); got != c.want {
			t.Errorf("%q with the ring %d right and %d down: %v, want %v", c.caption, c.dx, c.dy, got, c.want)
		}
	}
}

// TestParseReadsEveryWording words statements of all forms in many ways and reads them back.
func TestParseReadsEveryWording(t *testing.T) {
	r := rng.New(5, "wordings")
	any := func(n int) bool { return r.IntN(n) == 0 }
	thing := func(counted bool) scenes.Thing {
		var th scenes.Thing
		if counted && any(2) {
			th.Count = 1 + r.IntN(4)
		}
		if any(2) {
			th.Size = scenes.Sizes[r.IntN(2)]
		}
		if any(3) {
			th.Pattern = scenes.Patterns[r.IntN(2)]
		}
		if !any(3) {
			th.Colour = scenes.Colours[r.IntN(8)]
		}
		if !any(4) {
			th.Shape = scenes.Shapes[r.IntN(len(scenes.Shapes))]
		}
		return th
	}
	captions := map[string]scenes.Statement{}
	for range 20_000 {
		var st scenes.Statement
		if any(2) {
			st = scenes.Statement{Things: []scenes.Thing{thing(false), thing(false)}, Relation: scenes.Relations[r.IntN(4)]}
		} else {
			for range 1 + r.IntN(4) {
				st.Things = append(st.Things, thing(true))
			}
		}
		caption := st.Caption(r)
		got, err := scenes.Parse(caption)
		if err != nil || !reflect.DeepEqual(got, st) {
			t.Fatalf("%q reads as %+v, %v; it was made of %+v", caption, got, err, st)
		}
		if other, ok := captions[caption]; ok && !reflect.DeepEqual(other, st) {
			t.Fatalf("%q says both %+v and %+v", caption, st, other)
		}
		captions[caption] = st
	}
}
