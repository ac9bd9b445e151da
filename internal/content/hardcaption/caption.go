package hardcaption

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/content/nouns"
)

// Tagger returns the part-of-speech tags of the words of a text, as [nouns.Tagger] does.
type Tagger interface{ Tags(words []string) []string }

var _ Tagger = (*nouns.Tagger)(nil)

// Caption is a text, split and tagged.
type Caption struct {
	words  []string
	lower  []string
	places []editable // of the words that may be replaced
	things []thing
}

// editable is the position of a noun or a colour.
type editable struct {
	word   int
	kind   string // a tag of nouns, or colour
	before string // the word before
}

// thing is a caption's statement about an object.
type thing struct {
	noun   string // singular
	colour string // empty: none given
	number int    // 0: none given
}

const colour = "colour"

var colours = []string{
	"red", "orange", "yellow", "green", "blue", "purple", "pink", "black", "white", "brown", "grey", "gray", "beige", "turquoise", "violet",
}

var numbers = map[string]int{
	"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
}

// frames are nouns for the picture, or for a part of it. Replacing them does not change the content of the picture.
var frames = []string{
	"picture", "photo", "photograph", "image", "drawing", "painting", "illustration", "print", "scene", "view", "shot", "background",
	"foreground", "front", "back", "top", "bottom", "side", "middle", "group", "pair", "couple", "something", "someone",
}

// Read splits and tags a text.
func Read(t Tagger, text string) Caption {
	c := Caption{words: nouns.Words(text)}
	tags := t.Tags(c.words)
	for _, w := range c.words {
		c.lower = append(c.lower, strings.ToLower(w))
	}
	var said thing
	for i, w := range c.lower {
		kind := kindOf(w, tags[i])
		if kind != "" {
			before := ""
			if i > 0 {
				before = c.lower[i-1]
			}
			c.places = append(c.places, editable{i, kind, before})
		}
		switch {
		case kind == colour:
			said.colour = w
			if i > 1 && slices.Contains([]string{"and", ",", "-"}, c.lower[i-1]) && slices.Contains(colours, c.lower[i-2]) {
				said.colour = "" // several colours
			}
		case kind != "":
			said.noun = singular(w, tags[i])
			c.things = append(c.things, said)
			said = thing{}
		case numbers[w] > 0:
			said = thing{number: numbers[w]}
		case !strings.HasPrefix(tags[i], "JJ"):
			said = thing{}
		}
	}
	return c
}

// isLetter reports whether a token is a word and not punctuation.
func isLetter(w string) bool { return w[0] >= 'a' && w[0] <= 'z' }

// kindOf returns the kind of words that may replace a word: colours, or nouns of the same tag. It is empty for other
// words.
func kindOf(word, tag string) string {
	switch {
	case slices.Contains(colours, word):
		return colour
	case strings.HasPrefix(tag, "NN") && len(word) > 1 && isLetter(word) && !slices.Contains(frames, singular(word, tag)):
		return tag
	}
	return ""
}

// singular removes the ending of a plural.
func singular(word, tag string) string {
	if !strings.HasSuffix(tag, "S") {
		return word
	}
	for _, end := range []string{"sses", "shes", "ches", "xes", "zes"} {
		if strings.HasSuffix(word, end) {
			return strings.TrimSuffix(word, "es")
		}
	}
	return strings.TrimSuffix(word, "s")
}

// Contradicts reports whether another caption says something of an object that this one rules out: another colour, or a
// different number of at least two.
func (c Caption) Contradicts(other Caption) bool {
	return slices.ContainsFunc(other.things, c.rulesOut)
}

func (c Caption) rulesOut(said thing) bool {
	same, number, counted := 0, 0, true
	coloured := said.colour != ""
	for _, own := range c.things {
		if own.noun != said.noun {
			continue
		}
		same++
		if own.colour == "" || own.colour == said.colour {
			coloured = false
		}
		if said.colour == "" || own.colour == "" || own.colour == said.colour {
			number += own.number
			counted = counted && own.number > 0
		}
	}
	return same > 0 && (coloured || said.number > 1 && counted && number != said.number)
}

// Edit returns a caption with one noun replaced, or a colour if no noun can be. The new word comes from one of the
// other captions, if possible from after the same word. It does not occur in the caption itself, nor in the other
// captions of its image. It returns false if no word can be replaced.
func Edit(all []Caption, at int, alike []int32, draws *rand.Rand) (string, bool) {
	text, replaced := replace(all, at, alike, 1, draws)
	return text, replaced > 0
}

// Reword returns a caption with as many nouns and colours replaced as possible, each as [Edit] replaces one. It returns
// false if fewer than two can be replaced.
func Reword(all []Caption, at int, alike []int32, draws *rand.Rand) (string, bool) {
	text, replaced := replace(all, at, alike, len(all[at].places), draws)
	return text, replaced > 1
}

// replace replaces up to most words of a caption, nouns first, and returns how many it has replaced.
func replace(all []Caption, at int, alike []int32, most int, draws *rand.Rand) (text string, replaced int) {
	c := all[at]
	order := draws.Perm(len(c.places))
	slices.SortStableFunc(order, func(a, b int) int { return rank(c.places[a]) - rank(c.places[b]) })
	words := slices.Clone(c.words)
	for _, i := range order {
		if replaced == most {
			break
		}
		p := c.places[i]
		if list := replacements(all, at, alike, p); len(list) > 0 {
			words[p.word] = list[draws.IntN(len(list))]
			replaced++
		}
	}
	return join(words), replaced
}

// replacements lists the words for a position: those that occur after the same word, or, without any, all of its kind.
func replacements(all []Caption, at int, alike []int32, p editable) []string {
	var near, far []string
	for _, other := range all {
		for _, q := range other.places {
			w := other.lower[q.word]
			if q.kind != p.kind || said(all, at, alike, w) || slices.Contains(far, w) {
				continue
			}
			far = append(far, w)
			if q.before == p.before {
				near = append(near, w)
			}
		}
	}
	if len(near) > 0 {
		return near
	}
	return far
}

// rank puts colours after nouns. Candidates that differ only in a colour are known to contradict.
func rank(p editable) int {
	if p.kind == colour {
		return 1
	}
	return 0
}

// said reports whether a word occurs in a caption, or in the other captions of its image.
func said(all []Caption, at int, alike []int32, word string) bool {
	if slices.Contains(all[at].lower, word) {
		return true
	}
	return slices.ContainsFunc(alike, func(i int32) bool { return slices.Contains(all[i].lower, word) })
}

// join writes words as a text, without a space before punctuation.
func join(words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 && !slices.Contains([]string{",", ".", ";", ":", "!", "?"}, w) {
			b.WriteByte(' ')
		}
		b.WriteString(w)
	}
	return b.String()
}
