package scenes

import (
	"fmt"
	"slices"
	"strings"
)

// Thing is one part of a statement: some objects of a kind.
type Thing struct {
	Count   int     `json:"count"` // the exact number; 0: at least one
	Size    Size    `json:"size,omitempty"`
	Pattern Pattern `json:"pattern,omitempty"`
	Colour  Colour  `json:"colour,omitempty"`
	Shape   Shape   `json:"shape,omitempty"`
}

// Relation is the position of the first of two things relative to the second.
type Relation string

// The relations.
const (
	LeftOf  Relation = "left"
	RightOf Relation = "right"
	Above   Relation = "above"
	Below   Relation = "below"
)

// Relations lists all relations.
var Relations = []Relation{LeftOf, RightOf, Above, Below}

// Statement is the meaning of a caption: that different objects of these kinds exist, or, with a relation, that one of
// the first kind has this position relative to one of the second.
type Statement struct {
	Things   []Thing  `json:"things"`
	Relation Relation `json:"relation,omitempty"`
	Total    int      `json:"total,omitempty"` // exact number of all objects; 0: unknown
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
	if st.Total > 0 && st.Total != len(s.Objects) {
		return false
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

// between reports whether a has this position relative to b.
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

// assign reports whether each thing can get its own objects, none of which is in taken: a thing with a count needs all
// objects of its kind, and exactly that many; any other needs one.
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

// Matches decides whether a caption is true of a scene. A caption outside the grammar is not.
func Matches(s Scene, caption string) bool {
	st, err := Parse(caption)
	return err == nil && st.Holds(s)
}

// Parse reads a caption of the grammar. Letter case, a final full stop and the choice of words do not matter.
func Parse(caption string) (Statement, error) {
	text := strings.ToLower(strings.TrimSpace(caption))
	text = strings.TrimSpace(strings.TrimSuffix(text, "."))
	words := strings.Fields(strings.ReplaceAll(text, ",", " , "))
	st, ok := parseStatement(unframe(words))
	if !ok {
		return Statement{}, fmt.Errorf("parsing caption %q: it is not of the grammar", caption)
	}
	return st, nil
}

// unframe drops the words of a frame around a caption's statement.
func unframe(words []string) []string {
	for _, frame := range frames {
		for _, verb := range []string{"is", "are"} {
			before, after, _ := strings.Cut(strings.ReplaceAll(frame, "VERB", verb), "X")
			b, a := strings.Fields(before), strings.Fields(after)
			if len(b)+len(a) > 0 && len(words) > len(b)+len(a) &&
				slices.Equal(words[:len(b)], b) && slices.Equal(words[len(words)-len(a):], a) {
				return words[len(b) : len(words)-len(a)]
			}
		}
	}
	return words
}

func parseStatement(words []string) (Statement, bool) {
	if st, ok := parseRelation(words); ok {
		return st, true
	}
	if st, ok := parseTotal(words); ok {
		return st, true
	}
	var st Statement
	for len(words) > 0 {
		end := slices.IndexFunc(words, func(w string) bool { return w == "," || w == "and" })
		if end < 0 {
			end = len(words)
		}
		t, ok := parseThing(words[:end])
		if !ok {
			return st, false
		}
		st.Things = append(st.Things, t)
		if end == len(words) {
			return st, true
		}
		words = words[end+1:]
	}
	return st, false // nothing, or nothing after the last comma
}

// parseRelation reads "<thing> [is] <relation> <thing>".
func parseRelation(words []string) (Statement, bool) {
	for _, r := range Relations {
		for _, phrase := range relationWords[r] { // the longer ones come first
			link := strings.Fields(phrase)
			for at := 1; at+len(link) < len(words); at++ {
				if !slices.Equal(words[at:at+len(link)], link) {
					continue
				}
				left := words[:at]
				if left[at-1] == "is" {
					left = left[:at-1]
				}
				a, ok := parseThing(left)
				b, ok2 := parseThing(words[at+len(link):])
				if ok && ok2 && a.Count == 0 && b.Count == 0 {
					return Statement{Things: []Thing{a, b}, Relation: r}, true
				}
			}
		}
	}
	return Statement{}, false
}

// parseTotal reads "<count> things, <count> of them <attributes>".
func parseTotal(words []string) (Statement, bool) {
	if len(words) < 7 || !slices.Equal(words[1:3], []string{"things", ","}) || !slices.Equal(words[4:6], []string{"of", "them"}) {
		return Statement{}, false
	}
	total, count := slices.Index(countWords, words[0]), slices.Index(countWords, words[3])
	if total < 2 || count < 1 || count > total {
		return Statement{}, false
	}
	t := Thing{Count: count}
	if rest := t.attributes(words[6:]); len(rest) > 0 { // a noun follows the adjectives or the article
		words = slices.Concat([]string{words[3]}, words[6:])
		if article := words[1]; article == "a" || article == "an" {
			words = slices.Delete(words, 1, 2)
			if count > 1 {
				return Statement{}, false
			}
		}
		var ok bool
		if t, ok = parseThing(words); !ok {
			return Statement{}, false
		}
	}
	return Statement{Things: []Thing{t}, Total: total}, true
}

// parseThing reads "<count> [size] [pattern] [colour] <shape>" and "something [size] [pattern] [colour]".
func parseThing(words []string) (Thing, bool) {
	var t Thing
	if len(words) < 2 {
		return t, false
	}
	if words[0] == something {
		return t, len(t.attributes(words[1:])) == 0
	}
	if words[0] != "a" && words[0] != "an" {
		t.Count = slices.Index(countWords, words[0])
		if t.Count < 1 {
			return t, false
		}
	}
	words = t.attributes(words[1:])
	if len(words) != 1 {
		return t, false
	}
	noun, known := lookUp(words[0])
	t.Shape = noun.shape
	return t, known && (t.Count > 1 && noun.plural || t.Count <= 1 && noun.singular)
}

// attributes reads "[size] [pattern] [colour]" and returns the words after it.
func (t *Thing) attributes(words []string) []string {
	words = attribute(&t.Size, Sizes, sizeWords, words)
	words = attribute(&t.Pattern, Patterns, patternWords, words)
	if len(words) > 0 && slices.Contains(Colours, Colour(words[0])) {
		t.Colour, words = Colour(words[0]), words[1:]
	}
	return words
}

// attribute reads a word for one of the values, if the first word is one, and returns the words after it.
func attribute[T ~string](value *T, values []T, names map[T][]string, words []string) []string {
	if len(words) == 0 {
		return words
	}
	for _, v := range values {
		if slices.Contains(names[v], words[0]) {
			*value = v
			return words[1:]
		}
	}
	return words
}
