package language

import (
	"slices"
	"strings"
	"unicode"
)

// wordsOf returns the words of a text in lower case. In scripts without spaces between words, each letter is a word.
func wordsOf(text string) [][]rune {
	var out [][]rune
	var word []rune
	end := func() {
		if len(word) > 0 {
			out, word = append(out, word), nil
		}
	}
	for _, c := range strings.ToLower(text) {
		switch {
		case unicode.In(c, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana):
			// A run of other letters goes on over such a letter, as lingua's expression takes letters greedily.
			if len(word) > 0 && unicode.IsLetter(c) {
				word = append(word, c)
				continue
			}
			end()
			out = append(out, []rune{c})
		case unicode.IsLetter(c):
			word = append(word, c)
		default:
			end()
		}
	}
	end()
	return out
}

// alone maps a script to the only language that uses it.
var alone = func() map[script]string {
	codes := make(map[script][]string)
	for _, l := range speeches {
		for _, s := range l.scripts {
			codes[s] = append(codes[s], l.code)
		}
	}
	out := make(map[script]string)
	for s, c := range codes {
		if len(c) == 1 {
			out[s] = c[0]
		}
	}
	return out
}()

// scriptOf returns the script of a letter, or -1.
func scriptOf(c rune) script {
	return script(slices.IndexFunc(scripts, func(t *unicode.RangeTable) bool { return unicode.Is(t, c) }))
}

// byRules returns the language that most words have by their letters alone; empty if letters do not decide.
func byRules(words [][]rune) string {
	counts := make(map[string]int)
	for _, w := range words {
		counts[ofWord(w)]++
	}
	if 2*counts[""] < len(words) {
		delete(counts, "")
	}
	if len(counts) == 2 && counts["zh"] > 0 && counts["ja"] > 0 {
		return "ja"
	}
	return mostFrequent(counts)
}

// ofWord returns the language that the letters of a word determine, or "".
func ofWord(word []rune) string {
	counts := make(map[string]int)
	for _, c := range word {
		switch s := scriptOf(c); s {
		case han:
			counts["zh"]++
		case latin, cyrillic, devanagari:
			for _, l := range speeches {
				if strings.ContainsRune(l.own, c) {
					counts[l.code]++
				}
			}
		default:
			if code := alone[s]; code != "" {
				counts[code]++
			}
		}
	}
	if counts["zh"] > 0 && counts["ja"] > 0 {
		return "ja"
	}
	return mostFrequent(counts)
}

// mostFrequent returns the item with the highest count; empty without items, or if two are equal.
func mostFrequent(counts map[string]int) string {
	best, most, tied := "", 0, false
	for code, n := range counts {
		switch {
		case n > most:
			best, most, tied = code, n, false
		case n == most:
			tied = true
		}
	}
	if tied {
		return ""
	}
	return best
}

// candidates returns the languages of the script of most words. Among them it prefers those that share the words'
// special letters.
func candidates(words [][]rune) []int {
	all := make([]int, len(speeches))
	for i := range all {
		all[i] = i
	}
	counts := make([]int, len(scripts))
	for _, w := range words {
		for s, table := range scripts {
			if !slices.ContainsFunc(w, func(c rune) bool { return !unicode.Is(table, c) }) {
				counts[s]++
				break
			}
		}
	}
	most := slices.Max(counts)
	seen, equal := 0, true
	for _, n := range counts {
		if n > 0 {
			seen, equal = seen+1, equal && n == most
		}
	}
	if seen == 0 || seen > 1 && equal {
		return all
	}
	common := script(slices.Index(counts, most))
	languages := slices.DeleteFunc(all, func(l int) bool { return !slices.Contains(speeches[l].scripts, common) })
	if special := sharingLetters(words, languages); len(special) > 0 {
		return special
	}
	return languages
}

// sharingLetters returns the languages whose shared letters are in the words, at least one for two words.
func sharingLetters(words [][]rune, languages []int) []int {
	counts := make(map[string]int)
	for _, s := range sharing {
		for _, w := range words {
			for _, c := range s.characters {
				if slices.Contains(w, c) {
					for code := range strings.FieldsSeq(s.codes) {
						counts[code]++
					}
				}
			}
		}
	}
	var out []int
	for _, l := range languages {
		if n := counts[speeches[l].code]; n > 0 && 2*n >= len(words) {
			out = append(out, l)
		}
	}
	return out
}
