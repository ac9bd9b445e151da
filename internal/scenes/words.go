package scenes

import (
	"math/rand/v2"
	"strings"
)

// Words for what the grammar speaks of; the first of several is the plainest. Where one is the beginning of another,
// the parser takes the longest.
var (
	sizeWords     = map[Size][]string{"small": {"small", "little"}, "large": {"large", "big"}}
	countWords    = []string{"", "one", "two", "three", "four"}
	anyShape      = []string{"shape", "object"}
	relationWords = map[Relation][]string{
		LeftOf:  {"to the left of", "left of"},
		RightOf: {"to the right of", "right of"},
		Above:   {"above", "over"},
		Below:   {"below", "under"},
	}
	// The frames of a caption, in which X stands for what it says.
	frames = []string{
		"X", "X", "X", "a picture of X", "an image of X", "a drawing of X", "there VERB X", "you can see X",
		"X on a light background", "a simple picture with X",
	}
)

// plural of a shape's word.
func plural(word string) string {
	if word == "cross" {
		return "crosses"
	}
	return word + "s"
}

// Caption words a statement; the generator chooses among the ways to say it. [Parse] reads every one of them back.
func (st Statement) Caption(rng *rand.Rand) string {
	frame := pick(rng, frames)
	verb := "is"
	if len(st.Things) > 0 && st.Things[0].Count > 1 {
		verb = "are"
	}
	said := st.say(rng, frame == "X")
	return strings.NewReplacer("VERB", verb, "X", said).Replace(frame)
}

// say words the statement without a frame; only there may it be a whole sentence.
func (st Statement) say(rng *rand.Rand, sentence bool) string {
	parts := make([]string, len(st.Things))
	for i, t := range st.Things {
		parts[i] = t.say(rng)
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
	var words []string
	if t.Size != "" {
		words = append(words, pick(rng, sizeWords[t.Size]))
	}
	if t.Colour != "" {
		words = append(words, string(t.Colour))
	}
	noun := string(t.Shape)
	if noun == "" {
		noun = pick(rng, anyShape)
	}
	if t.Count > 1 {
		noun = plural(noun)
	}
	words = append(words, noun)
	count := countWords[t.Count]
	if t.Count == 0 {
		count = "a"
		if strings.ContainsRune("aeiou", rune(words[0][0])) {
			count = "an"
		}
	}
	return count + " " + strings.Join(words, " ")
}
