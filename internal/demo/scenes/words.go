package scenes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// Words of the grammar; the first of several is the plainest. If one is the beginning of another, the parser takes the
// longest.
var (
	patternWords  = map[Pattern][]string{"striped": {"striped", "stripy"}, "spotted": {"spotted", "dotted"}}
	sizeWords     = map[Size][]string{"small": {"small", "little"}, "large": {"large", "big"}}
	countWords    = []string{"", "one", "two", "three", "four"}
	anyShape      = []string{"shape", "object"}
	something     = "something" // a thing without a shape
	relationWords = map[Relation][]string{
		LeftOf:  {"to the left of", "left of"},
		RightOf: {"to the right of", "right of"},
		Above:   {"above", "over"},
		Below:   {"below", "under"},
	}
	// The frames of a caption, in which X stands for the statement.
	frames = []string{
		"X", "X", "X", "a picture of X", "an image of X", "a drawing of X", "there VERB X", "you can see X",
		"X on a light background", "a simple picture with X",
	}
)

// shapeWords holds the other words for shapes.
var shapeWords = map[Shape][]string{
	"house": {"cottage"}, "car": {"automobile"}, "boat": {"ship"}, "cup": {"mug"}, "flower": {"blossom"}, "mushroom": {"toadstool"},
	"umbrella": {"parasol"}, "bottle": {"flask"}, "lamp": {"lantern"}, "table": {"desk"}, "hat": {"cap"}, "shoe": {"boot"},
	"rocket": {"spaceship"}, "flag": {"banner"}, "cat": {"kitten"},
}

// plurals holds the plurals that are not formed with an s.
var plurals = map[string]string{
	"cross": "crosses", "fish": "fish", "leaf": "leaves", "snowman": "snowmen", "butterfly": "butterflies",
}

// plural returns the plural of a noun.
func plural(word string) string {
	if p, ok := plurals[word]; ok {
		return p
	}
	return word + "s"
}

// words returns the names of a shape; the empty shape has the names for any.
func (s Shape) words() []string {
	if s == "" {
		return anyShape
	}
	return append([]string{string(s)}, shapeWords[s]...)
}

// noun is the meaning of a noun.
type noun struct {
	shape            Shape // empty: any
	singular, plural bool
}

// nounsByWord returns the shapes of all words, in singular and plural.
var nounsByWord = sync.OnceValue(func() map[string]noun {
	out := map[string]noun{}
	for _, s := range append([]Shape{""}, Shapes...) {
		for _, w := range s.words() {
			one := out[w]
			one.shape, one.singular = s, true
			out[w] = one
			many := out[plural(w)]
			many.shape, many.plural = s, true
			out[plural(w)] = many
		}
	}
	return out
})

func lookUp(word string) (noun, bool) {
	n, ok := nounsByWord()[word]
	return n, ok
}

// ShapeOf returns the shape that a noun means, in singular or plural. It returns false for other words, and for nouns
// that mean any shape.
func ShapeOf(word string) (Shape, bool) {
	n, ok := lookUp(word)
	return n.shape, ok && n.shape != ""
}

// Framing reports whether a word belongs to the frame around a statement, as "picture" does in "a picture of X".
func Framing(word string) bool {
	return slices.ContainsFunc(frames, func(f string) bool { return slices.Contains(strings.Fields(f), word) })
}

// Caption words a statement; the generator chooses among the wordings. [Parse] reads all of them.
func (st Statement) Caption(rng *rand.Rand) string { return st.caption(rng, Thing.say) }

// describe words a thing.
type describe func(t Thing, rng *rand.Rand) string

func (st Statement) caption(rng *rand.Rand, word describe) string {
	frame := pick(rng, frames)
	verb := "is"
	if st.Total > 1 || len(st.Things) > 0 && st.Things[0].Count > 1 {
		verb = "are"
	}
	said := st.say(rng, word, frame == "X")
	return strings.NewReplacer("VERB", verb, "X", said).Replace(frame)
}

// say words the statement without a frame; only a statement without a frame may be a whole sentence.
func (st Statement) say(rng *rand.Rand, word describe, sentence bool) string {
	if st.Total > 0 {
		return fmt.Sprintf("%s things, %s", countWords[st.Total], st.Things[0].ofThem(rng))
	}
	parts := make([]string, len(st.Things))
	for i, t := range st.Things {
		parts[i] = word(t, rng)
	}
	if st.Relation != "" {
		link := pick(rng, relationWords[st.Relation])
		if sentence && rng.IntN(2) == 0 {
			link = "is " + link
		}
		return parts[0] + " " + link + " " + parts[1]
	}
	last := len(parts) - 1
	if last == 0 {
		return parts[0]
	}
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}

func (t Thing) say(rng *rand.Rand) string {
	words := t.adjectives(rng)
	noun := choose(rng, t.Shape.words())
	if t.Count > 1 {
		noun = plural(noun)
	}
	words = append(words, noun)
	count := countWords[t.Count]
	if t.Count == 0 {
		count = article(words[0])
	}
	return count + " " + strings.Join(words, " ")
}

// adjectives words size, pattern and colour.
func (t Thing) adjectives(rng *rand.Rand) (words []string) {
	if t.Size != "" {
		words = append(words, pick(rng, sizeWords[t.Size]))
	}
	if t.Pattern != "" {
		words = append(words, pick(rng, patternWords[t.Pattern]))
	}
	if t.Colour != "" {
		words = append(words, string(t.Colour))
	}
	return words
}

func article(word string) string {
	if strings.ContainsRune("aeiou", rune(word[0])) {
		return "an"
	}
	return "a"
}

// choose picks a word. It draws no number if there is only one.
func choose(rng *rand.Rand, words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return pick(rng, words)
}

// IsCount reports whether a word is a count.
func IsCount(word string) bool { return word != "" && slices.Contains(countWords, word) }
