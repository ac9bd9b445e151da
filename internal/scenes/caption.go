package scenes

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Truth says how a caption came to its picture.
type Truth string

// The kinds of captions.
const (
	True       Truth = "true"       // made from the scene
	Wrong      Truth = "wrong"      // of the grammar, and not true of the scene
	Irrelevant Truth = "irrelevant" // not about the picture at all
)

// irrelevant texts stand in for what the web writes beside its pictures.
var irrelevant = []string{
	"img %d.jpg", "photo %d of 99", "click here to read more about item %d", "free shipping on orders over %d", "page %d",
	"copyright %d all rights reserved", "sale ends in %d days", "posted %d hours ago by admin", "download wallpaper %d x %d",
	"visit our store for offer %d",
}

// Label is one caption of a scene with what is known about it.
type Label struct {
	Caption   string     `json:"caption"`
	Truth     Truth      `json:"truth"`
	Statement *Statement `json:"statement,omitempty"` // what the caption says; none when irrelevant
}

// labels makes the captions of a scene, all different. Without a share of false negatives the first tells all, and the
// others tell less.
func (s Scene) labels(o Options, rng *rand.Rand) []Label {
	say := s.statement
	if o.FalseNegatives > 0 {
		vague := vagueShare(o.FalseNegatives)
		say = func(_ int, rng *rand.Rand) Statement { return s.graded(vague, rng) }
	}
	out := make([]Label, 0, o.Captions)
	for len(out) < o.Captions {
		l := s.label(len(out), say, o, rng)
		if !slices.ContainsFunc(out, func(o Label) bool { return o.Caption == l.Caption }) {
			out = append(out, l)
		}
	}
	return out
}

// sayer makes the i-th true statement about a scene.
type sayer func(i int, rng *rand.Rand) Statement

func (s Scene) label(i int, say sayer, o Options, rng *rand.Rand) Label {
	switch kind := rng.Float64(); {
	case kind < o.IrrelevantShare:
		text := pick(rng, irrelevant)
		args := []any{1 + rng.IntN(98), 1 + rng.IntN(98)}
		return Label{Caption: fmt.Sprintf(text, args[:countVerbs(text)]...), Truth: Irrelevant}
	case kind < o.IrrelevantShare+o.WrongShare:
		st := s.falsehood(say(i, rng), rng)
		return Label{Caption: st.Caption(rng), Truth: Wrong, Statement: &st}
	}
	st := say(i, rng)
	return Label{Caption: st.Caption(rng), Truth: True, Statement: &st}
}

// countVerbs returns the number of %d in a text.
func countVerbs(text string) int {
	n := 0
	for _, r := range text {
		if r == '%' {
			n++
		}
	}
	return n
}

// statement makes a true statement: the first of a scene enumerates all its objects, the second speaks of two of them
// and their places where there are two, the others of some.
func (s Scene) statement(i int, rng *rand.Rand) Statement {
	switch {
	case i == 0:
		return s.enumeration(rng)
	case i == 1 && len(s.Objects) > 1:
		return s.relation(rng)
	}
	switch rng.IntN(3) {
	case 0:
		return s.enumeration(rng)
	case 1:
		if len(s.Objects) > 1 {
			return s.relation(rng)
		}
	}
	return s.glance(rng)
}

// enumeration names every object with all that is known of it; objects of the same kind are counted.
func (s Scene) enumeration(rng *rand.Rand) Statement {
	var st Statement
	for _, at := range rng.Perm(len(s.Objects)) {
		o := s.Objects[at]
		t := Thing{Size: o.Size, Colour: o.Colour, Shape: o.Shape}
		// A pattern is told when all objects that are otherwise alike have it. So no object is of two things.
		patterned := t
		patterned.Pattern = o.Pattern
		_, alike := t.matches(s)
		if _, n := patterned.matches(s); n == alike {
			t = patterned
		}
		if _, n := t.matches(s); n > 1 {
			t.Count = n
		}
		if !slices.Contains(st.Things, t) {
			st.Things = append(st.Things, t)
		}
	}
	return st
}

// relation states where one object is from another, both told by part of what is known of them.
func (s Scene) relation(rng *rand.Rand) Statement {
	for {
		two := rng.Perm(len(s.Objects))
		a, b, r := s.Objects[two[0]], s.Objects[two[1]], pick(rng, Relations)
		if r.between(a, b) { // any two objects are apart in one direction at least
			return Statement{Things: []Thing{vague(a, rng), vague(b, rng)}, Relation: r}
		}
	}
}

// glance says of one or two kinds of objects that they are there, or how many.
func (s Scene) glance(rng *rand.Rand) Statement {
	order := rng.Perm(len(s.Objects))
	st := Statement{Things: []Thing{vague(s.Objects[order[0]], rng)}}
	if len(order) > 1 && rng.IntN(2) == 0 {
		st.Things = append(st.Things, vague(s.Objects[order[1]], rng))
		return st
	}
	if t := &st.Things[0]; rng.IntN(2) == 0 {
		_, t.Count = t.matches(s)
	}
	return st
}

// vague describes an object by some of what is known of it: mostly by colour and shape.
func vague(o Object, rng *rand.Rand) Thing {
	t := Thing{Size: o.Size, Colour: o.Colour, Shape: o.Shape}
	switch rng.IntN(6) {
	case 0:
		t.Colour, t.Size = "", ""
	case 1:
		t.Shape, t.Size = "", ""
	case 2, 3, 4:
		t.Size = ""
	}
	if o.Pattern != "" && rng.IntN(2) == 0 {
		t.Pattern = o.Pattern
	}
	return t
}

// falsehood changes the things of a true statement, one after the other, until it is false.
func (s Scene) falsehood(st Statement, rng *rand.Rand) Statement {
	for st.Holds(s) {
		t := &st.Things[rng.IntN(len(st.Things))]
		switch what := rng.IntN(4); {
		case what == 0 && st.Relation != "":
			st.Relation = pick(rng, Relations)
		case what == 0 && t.Count > 0:
			t.Count = 1 + rng.IntN(4)
		case what == 1:
			t.Colour = pick(rng, Colours)
		case what == 2:
			t.Shape = pick(rng, Shapes)
		case what == 3 && t.Size != "":
			t.Size = pick(rng, Sizes)
		}
	}
	return st
}
