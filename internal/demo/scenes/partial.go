package scenes

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// Shares of the captions that omit more than others, in thousandths. With eight shapes and three objects 2 to 3 % of
// the pictures of a mini-batch of 48 fit another's caption, as in the random mini-batches of MAFA Table 1.
const (
	hints     = 5   // "three things, one of them green"
	vagueOnes = 50  // describe one object fully, and the others by colour or shape: "a red star, something blue and a cup"
	leftOut   = 250 // describe two objects fully, and omit the others
)

// partial makes a true statement that omits things.
func (s Scene) partial(rng *rand.Rand) Statement {
	order, draw := rng.Perm(len(s.Objects)), rng.IntN(1000)
	if draw < hints {
		t := Thing{Colour: s.Objects[order[0]].Colour}
		_, t.Count = t.matches(s)
		return Statement{Things: []Thing{t}, Total: len(s.Objects)}
	}
	full := 2
	switch draw -= hints; {
	case draw < vagueOnes:
		full = 1
	case draw < vagueOnes+leftOut:
		order = order[:min(len(order), full)]
	}
	var st Statement
	for i, at := range order {
		o := s.Objects[at]
		t := Thing{Colour: o.Colour, Shape: o.Shape}
		if i >= full {
			if rng.IntN(3) == 0 {
				t.Colour = ""
			} else {
				t.Shape = ""
			}
		}
		st.Things = append(st.Things, t)
	}
	rng.Shuffle(len(st.Things), func(i, j int) { st.Things[i], st.Things[j] = st.Things[j], st.Things[i] })
	return st
}

// hint words a thing without a shape as "something blue".
func (t Thing) hint(rng *rand.Rand) string {
	if words := t.adjectives(rng); t.Shape == "" && t.Count == 0 && len(words) > 0 {
		return something + " " + strings.Join(words, " ")
	}
	return t.say(rng)
}

// ofThem words a counted thing as a part of the total: "one of them green", "two of them red stars".
func (t Thing) ofThem(rng *rand.Rand) string {
	words := t.adjectives(rng)
	if t.Shape != "" || len(words) == 0 {
		noun := choose(rng, t.Shape.words())
		if t.Count > 1 {
			noun = plural(noun)
		}
		if words = append(words, noun); t.Count == 1 {
			words = append([]string{article(words[0])}, words...)
		}
	}
	return countWords[t.Count] + " of them " + strings.Join(words, " ")
}

// SameWords reports whether two captions have the same words for colours, shapes and numbers, in any order. It needs no
// picture. It takes captions that omit things for different ones, even if one is true of the other's picture.
func SameWords(a, b string) bool { return slices.Equal(telling(a), telling(b)) }

var unpunctuated = strings.NewReplacer(",", " ", ".", " ")

// telling returns the words of a caption for colours, shapes and numbers, sorted.
func telling(caption string) (words []string) {
	for w := range strings.FieldsSeq(unpunctuated.Replace(strings.ToLower(caption))) {
		if shape, ok := ShapeOf(w); ok {
			w = string(shape)
		} else if !slices.Contains(Colours, Colour(w)) && !IsCount(w) {
			continue
		}
		words = append(words, w)
	}
	slices.Sort(words)
	return words
}
