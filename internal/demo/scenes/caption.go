package scenes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/pairstream/pairstream/internal/base/rng"
)

// Truth is the relation of a caption to its picture.
type Truth string

// The kinds of captions.
const (
	True       Truth = "true"       // made from the scene
	Wrong      Truth = "wrong"      // of the grammar, but false of the scene
	Irrelevant Truth = "irrelevant" // not about the picture at all
)

// irrelevant texts imitate the unrelated text beside pictures on the web.
var irrelevant = []string{
	"img %d.jpg", "photo %d of 99", "click here to read more about item %d", "free shipping on orders over %d", "page %d",
	"copyright %d all rights reserved", "sale ends in %d days", "posted %d hours ago by admin", "download wallpaper %d x %d",
	"visit our store for offer %d",
}

// Label is one caption of a scene with its known truth.
type Label struct {
	Caption   string     `json:"caption"`
	Truth     Truth      `json:"truth"`
	Statement *Statement `json:"statement,omitempty"` // meaning of the caption; nil if irrelevant
}

// labels makes the captions of a scene, all different. Without a share of false negatives the first describes
// everything, and the others less.
func (s Scene) labels(o Options, rng *rand.Rand) []Label {
	say := s.statement
	switch {
	case o.Kinds.Partial:
		say = func(_ int, rng *rand.Rand) Statement { return s.partial(rng) }
	case o.FalseNegatives > 0:
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
	word := Thing.say
	if o.Kinds.Partial {
		word = Thing.hint
	}
	switch kind := rng.Float64(); {
	case kind < o.IrrelevantShare:
		text := pick(rng, irrelevant)
		args := []any{1 + rng.IntN(98), 1 + rng.IntN(98)}
		return Label{Caption: fmt.Sprintf(text, args[:countVerbs(text)]...), Truth: Irrelevant}
	case kind < o.IrrelevantShare+o.WrongShare:
		st := s.falsehood(say(i, rng), rng)
		return Label{Caption: st.caption(rng, word), Truth: Wrong, Statement: &st}
	}
	st := say(i, rng)
	return Label{Caption: st.caption(rng, word), Truth: True, Statement: &st}
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

// statement makes a true statement: the first of a scene enumerates all its objects, the second gives the relative
// position of two objects if there are two, and the others describe some.
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

// enumeration describes every object completely; objects of the same kind are counted.
func (s Scene) enumeration(rng *rand.Rand) Statement {
	var st Statement
	for _, at := range rng.Perm(len(s.Objects)) {
		o := s.Objects[at]
		t := Thing{Size: o.Size, Colour: o.Colour, Shape: o.Shape}
		// A pattern is named if all objects that are otherwise equal have it. So no object belongs to two things.
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

// relation states the position of one object relative to another, each partly described.
func (s Scene) relation(rng *rand.Rand) Statement {
	for {
		two := rng.Perm(len(s.Objects))
		a, b, r := s.Objects[two[0]], s.Objects[two[1]], pick(rng, Relations)
		if r.between(a, b) { // any two objects are apart in at least one direction
			return Statement{Things: []Thing{vague(a, rng), vague(b, rng)}, Relation: r}
		}
	}
}

// glance states the presence or the number of one or two kinds of objects.
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

// vague describes an object partly: usually by colour and shape.
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

// falsehood changes the things of a true statement one by one, until it is false.
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

// Bounds of Options.FalseNegatives.
const (
	leastFalseNegatives = 0.02
	mostFalseNegatives  = 0.4
)

// graded makes a true statement: with the given probability a vague one, which names only one object, otherwise a
// nearly complete one.
func (s Scene) graded(vague float64, rng *rand.Rand) Statement {
	if rng.Float64() < vague {
		o := pick(rng, s.Objects)
		return Statement{Things: []Thing{{Colour: o.Colour, Shape: o.Shape}}}
	}
	if rng.IntN(2) == 0 {
		return s.enumeration(rng)
	}
	for {
		two := rng.Perm(len(s.Objects))
		a, b, r := s.Objects[two[0]], s.Objects[two[1]], pick(rng, Relations)
		if r.between(a, b) {
			return Statement{Things: []Thing{a.described(), b.described()}, Relation: r}
		}
	}
}

// described describes an object completely, except for its size.
func (o Object) described() Thing { return Thing{Pattern: o.Pattern, Colour: o.Colour, Shape: o.Shape} }

const (
	others        = 95   // in a mini-batch of 96
	sampledScenes = 500  // for estimating the share of vague statements
	sampledTexts  = 3000 // of other scenes, of either kind
)

// fits holds, for some scenes, the shares of other scenes' vague and detailed statements that are true of them.
type fits struct{ vague, detailed float64 }

// sampledFits samples scenes and statements. They are the same in every process.
var sampledFits = sync.OnceValue(func() []fits {
	r := rng.New(1, "vague scenes")
	kinds := Kinds{several: true}
	var vague, detailed []Statement
	for range sampledTexts {
		s := kinds.Random(r)
		vague, detailed = append(vague, s.graded(1, r)), append(detailed, s.graded(0, r))
	}
	share := func(s Scene, texts []Statement) float64 {
		n := 0
		for _, st := range texts {
			if st.Holds(s) {
				n++
			}
		}
		return float64(n) / float64(len(texts))
	}
	out := make([]fits, sampledScenes)
	for i := range out {
		s := kinds.Random(r)
		out[i] = fits{share(s, vague), share(s, detailed)}
	}
	return out
})

var vagueShares sync.Map // by share of false negatives

// vagueShare returns the share of vague statements that makes a share of the pictures fit one of 95 others' statements.
func vagueShare(falseNegatives float64) float64 {
	if found, ok := vagueShares.Load(falseNegatives); ok {
		return found.(float64) //nolint:forcetypeassert // the map holds nothing else
	}
	low, high := 0.0, 1.0
	for range 30 {
		middle := (low + high) / 2
		if reached(middle) < falseNegatives {
			low = middle
		} else {
			high = middle
		}
	}
	vagueShares.Store(falseNegatives, low)
	return low
}

// reached returns the share of false negatives that a share of vague statements leads to.
func reached(vague float64) float64 {
	sum := 0.0
	for _, f := range sampledFits() {
		sum += 1 - math.Pow(1-vague*f.vague-(1-vague)*f.detailed, others)
	}
	return sum / sampledScenes
}
