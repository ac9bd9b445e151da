package scenes

import (
	"fmt"
	"slices"
	"strings"
)

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

// unframe drops the words of a frame around what a caption says.
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
	return st, false // nothing, or nothing behind the last comma
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

// parseThing reads "<count> [size] [pattern] [colour] <shape>".
func parseThing(words []string) (Thing, bool) {
	var t Thing
	if len(words) < 2 {
		return t, false
	}
	if words[0] != "a" && words[0] != "an" {
		t.Count = slices.Index(countWords, words[0])
		if t.Count < 1 {
			return t, false
		}
	}
	words = words[1:]
	words = attribute(&t.Size, Sizes, sizeWords, words)
	words = attribute(&t.Pattern, Patterns, patternWords, words)
	if len(words) > 0 && slices.Contains(Colours, Colour(words[0])) {
		t.Colour, words = Colour(words[0]), words[1:]
	}
	if len(words) != 1 {
		return t, false
	}
	noun, known := lookUp(words[0])
	t.Shape = noun.shape
	return t, known && (t.Count > 1 && noun.plural || t.Count <= 1 && noun.singular)
}

// attribute reads a word for one of the values, if the first word is one, and returns the words behind it.
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
