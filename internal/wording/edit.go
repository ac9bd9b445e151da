package wording

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// Edit returns a caption with one noun replaced, or a colour where no noun can be. The new word stands in one of the other captions, if possible
// behind the same word. It does not stand in the caption itself, nor in the captions that also are of its image. It reports
// false when no word can be replaced.
func Edit(all []Caption, at int, alike []int32, draws *rand.Rand) (string, bool) {
	c := all[at]
	order := draws.Perm(len(c.places))
	slices.SortStableFunc(order, func(a, b int) int { return rank(c.places[a]) - rank(c.places[b]) })
	for _, i := range order {
		p := c.places[i]
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
		if len(near) == 0 {
			near = far
		}
		if len(near) == 0 {
			continue
		}
		words := slices.Clone(c.words)
		words[p.word] = near[draws.IntN(len(near))]
		return join(words), true
	}
	return "", false
}

// rank puts colours behind nouns. Candidates that differ in a colour alone are known to contradict.
func rank(p place) int {
	if p.kind == colour {
		return 1
	}
	return 0
}

// said reports whether a word stands in a caption or in those that are alike.
func said(all []Caption, at int, alike []int32, word string) bool {
	if slices.Contains(all[at].lower, word) {
		return true
	}
	return slices.ContainsFunc(alike, func(i int32) bool { return slices.Contains(all[i].lower, word) })
}

// join writes words as a text, with signs behind the word before them.
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
