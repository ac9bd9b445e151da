package scenes

// Thing is one part of a statement: some objects of a kind.
type Thing struct {
	Count   int     `json:"count"` // exactly so many; 0: at least one
	Size    Size    `json:"size,omitempty"`
	Pattern Pattern `json:"pattern,omitempty"`
	Colour  Colour  `json:"colour,omitempty"`
	Shape   Shape   `json:"shape,omitempty"`
}

// Relation is where the first of two things is, seen from the second.
type Relation string

// The relations.
const (
	LeftOf  Relation = "left"
	RightOf Relation = "right"
	Above   Relation = "above"
	Below   Relation = "below"
)

// Relations lists them.
var Relations = []Relation{LeftOf, RightOf, Above, Below}

// Statement is what a caption says: that different objects of these kinds are there, or, with a relation, that one of
// the first kind is so placed to one of the second.
type Statement struct {
	Things   []Thing  `json:"things"`
	Relation Relation `json:"relation,omitempty"`
}

// fits reports whether an object is of the thing's kind.
func (t Thing) fits(o Object) bool {
	return (t.Size == "" || t.Size == o.Size) && (t.Pattern == "" || t.Pattern == o.Pattern) &&
		(t.Colour == "" || t.Colour == o.Colour) && (t.Shape == "" || t.Shape == o.Shape)
}

// matches lists the objects of the thing's kind, as a set of bits.
func (t Thing) matches(s Scene) (set uint, n int) {
	for i, o := range s.Objects {
		if t.fits(o) {
			set |= 1 << i
			n++
		}
	}
	return set, n
}

// Holds reports whether the statement is true of the scene.
func (st Statement) Holds(s Scene) bool {
	if st.Relation != "" {
		return st.relationHolds(s)
	}
	return len(st.Things) > 0 && assign(s, st.Things, 0)
}

func (st Statement) relationHolds(s Scene) bool {
	if len(st.Things) != 2 || st.Things[0].Count != 0 || st.Things[1].Count != 0 {
		return false
	}
	for i, a := range s.Objects {
		for j, b := range s.Objects {
			if i != j && st.Things[0].fits(a) && st.Things[1].fits(b) && st.Relation.between(a, b) {
				return true
			}
		}
	}
	return false
}

// between reports whether a is so placed to b.
func (r Relation) between(a, b Object) bool {
	switch r {
	case LeftOf:
		return b.X-a.X >= RelationGap
	case RightOf:
		return a.X-b.X >= RelationGap
	case Above:
		return b.Y-a.Y >= RelationGap
	case Below:
		return a.Y-b.Y >= RelationGap
	}
	return false
}

// assign reports whether the things can be given objects of their own, none of which is in taken: a thing with a count
// needs all of its kind, and exactly so many; another needs one.
func assign(s Scene, things []Thing, taken uint) bool {
	if len(things) == 0 {
		return true
	}
	set, n := things[0].matches(s)
	if c := things[0].Count; c > 0 {
		return n == c && set&taken == 0 && assign(s, things[1:], taken|set)
	}
	for i := range s.Objects {
		if bit := uint(1) << i; set&bit != 0 && taken&bit == 0 && assign(s, things[1:], taken|bit) {
			return true
		}
	}
	return false
}

// Matches decides whether a caption of the grammar is true of a scene. A caption that is not of the grammar is not.
func Matches(s Scene, caption string) bool {
	st, err := Parse(caption)
	return err == nil && st.Holds(s)
}
