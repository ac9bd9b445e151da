package scenes_test

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/demo/scenes"
)

// three has a red star, a blue cup and a green cross.
var three = scenes.Scene{Objects: []scenes.Object{
	{Shape: "star", Colour: "red", Size: "large"}, {Shape: "cup", Colour: "blue", Size: "large"}, {Shape: "cross", Colour: "green", Size: "large"},
}}

func TestMatchesWordsThatLeaveThingsOut(t *testing.T) {
	for caption, want := range map[string]bool{
		"a red star and something blue":             true,
		"something blue, something red":             true,
		"something blue and something red":          true,
		"something blue and a blue cup":             false, // different objects
		"something pink":                            false,
		"something":                                 false,
		"something blue cup":                        false,
		"three things, one of them green":           true,
		"There are three things, one of them green": true,
		"two things, one of them green":             false,
		"four things, one of them green":            false,
		"three things, two of them green":           false,
		"three things, one of them pink":            false,
		"three things, one of them a green cross":   true,
		"three things, one of them a star":          true,
		"three things, two of them stars":           false,
		"three things, two of them a star":          false,
		"three things, one of them green cross":     true,
		"three things, one of them":                 false,
		"three things, none of them green":          false,
		"three things":                              false,
	} {
		if got := scenes.Matches(three, caption); got != want {
			t.Errorf("%q is %t, want %t", caption, got, want)
		}
	}
}

func TestSameWordsNeedsNoPicture(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a red star and something blue", "something blue and a red star", true},
		{"a picture of a mug", "one cup", false},
		{"a picture of a mug", "you can see a cup.", true},
		{"a red star and something blue", "a red star and a blue cup", false},
		{"a red star and a blue cup", "a blue star and a red cup", true}, // where it errs
	} {
		if got := scenes.SameWords(c.a, c.b); got != c.want {
			t.Errorf("%q and %q have the same words: %t, want %t", c.a, c.b, got, c.want)
		}
	}
}

func TestPartialCaptionsAreTrueAndNeedThePicture(t *testing.T) {
	o := scenes.Defaults()
	o.Seed, o.Captions, o.Side = 7, 1, 16
	o.Kinds = scenes.Kinds{Shapes: 8, Objects: 3, Large: true, Plain: true, Partial: true}
	const n = 800
	shown, said := make([]scenes.Scene, n), make([]scenes.Label, n)
	something, total := 0, 0
	for i := range n {
		r, _, err := scenes.Make(o, i)
		if err != nil {
			t.Fatal(err)
		}
		shown[i], said[i] = r.Scene, r.Labels[0]
		if !scenes.Matches(shown[i], said[i].Caption) || !said[i].Statement.Holds(shown[i]) {
			t.Fatalf("%q is not true of its own scene %+v", said[i].Caption, shown[i].Objects)
		}
		if strings.Contains(said[i].Caption, "something") {
			something++
		}
		if said[i].Statement.Total > 0 {
			total++
		}
	}
	if something == 0 || total == 0 {
		t.Errorf("%d captions have something, and %d say how many things there are, want both", something, total)
	}
	foreign, found, same := 0, 0, 0
	for i := range n {
		for j := range n {
			if i == j || said[j].Statement.Total > 0 { // a hint is true of every third picture, and so hardly ever the hardest
				continue
			}
			holds, alike := said[j].Statement.Holds(shown[i]), scenes.SameWords(said[i].Caption, said[j].Caption)
			if alike {
				same++
			}
			if holds {
				foreign++
			}
			if holds && alike {
				found++
			}
		}
	}
	const others = 47
	rate := others * float64(foreign) / (n * n)
	if rate < 0.02 || rate > 0.04 {
		t.Errorf("a picture fits %.4f captions of 47 other scenes, want 0.02 to 0.04", rate)
	}
	recall, precision := float64(found)/float64(foreign), float64(found)/float64(same)
	if recall >= 0.5 {
		t.Errorf("equal words find %.3f of the foreign pairs that are true, with precision %.3f: this world gives itself away", recall, precision)
	}
	t.Logf("rate %.4f, recall %.3f, precision %.3f", rate, recall, precision)
}

func TestPartialCaptionsNeedTwoObjects(t *testing.T) {
	o := scenes.Defaults()
	o.Kinds.Partial = true
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
	o.Kinds.Objects = 1
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "objects is 1") {
		t.Errorf("validating partial captions of one object: %v", err)
	}
}
