package token

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// wordScanner cuts a text into the words that WordPiece splits further: BERT's "basic tokenization" with lower-casing.
// Its buffers are reused from word to word.
type wordScanner struct {
	word  []byte // lower-cased runes since the last boundary
	plain []byte // word without accents
}

// scan calls yield with each word of text, in order, until yield returns false; it reports whether text was read to its
// end. The bytes handed to yield are valid during the call only.
func (s *wordScanner) scan(text string, yield func(word []byte) bool) bool {
	s.word = s.word[:0]
	for _, r := range text {
		switch {
		case isBlank(r):
			if !s.flush(yield) {
				return false
			}
		case isDropped(r):
		case isHan(r):
			if !s.flush(yield) {
				return false
			}
			s.word = utf8.AppendRune(s.word, r)
			if !s.flush(yield) {
				return false
			}
		default:
			s.word = utf8.AppendRune(s.word, unicode.ToLower(r))
		}
	}
	return s.flush(yield)
}

// flush removes accents from the pending word and yields it cut at punctuation, each mark a word of its own.
func (s *wordScanner) flush(yield func(word []byte) bool) bool {
	word := s.stripAccents(s.word)
	s.word = s.word[:0]
	start := 0
	for i := 0; i < len(word); {
		r, size := rune(word[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(word[i:])
		}
		if isPunctuation(r) {
			if start < i && !yield(word[start:i]) {
				return false
			}
			if !yield(word[i : i+size]) {
				return false
			}
			start = i + size
		}
		i += size
	}
	return start == len(word) || yield(word[start:])
}

// stripAccents decomposes canonically (NFD) and drops the non-spacing marks.
func (s *wordScanner) stripAccents(word []byte) []byte {
	ascii := true
	for _, b := range word {
		ascii = ascii && b < utf8.RuneSelf
	}
	if ascii {
		return word
	}
	decomposed := norm.NFD.Append(s.plain[:0], word...)
	s.plain = decomposed[:0]
	for i := 0; i < len(decomposed); {
		r, size := utf8.DecodeRune(decomposed[i:])
		if !unicode.Is(unicode.Mn, r) {
			s.plain = append(s.plain, decomposed[i:i+size]...) // after the reading position: rewrites runes already read
		}
		i += size
	}
	return s.plain
}

// isBlank reports whether r separates words: the characters that the reference replaces by a space, and the line and
// paragraph separators, which Python's split takes for spaces.
func isBlank(r rune) bool {
	switch r {
	case ' ', '\t', '\n', '\r', '\u2028', '\u2029':
		return true
	}
	return r >= utf8.RuneSelf && unicode.Is(unicode.Zs, r)
}

// isDropped reports whether r vanishes from a text: controls, formats, private and unassigned code points (category C),
// and the replacement character, which also stands for bytes that are not UTF-8.
func isDropped(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return r == utf8.RuneError || unicode.Is(unicode.C, r)
}

// isPunctuation counts every ASCII mark as punctuation, "$" and "^" included, which Unicode does not.
func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= '!' && r <= '/' || r >= ':' && r <= '@' || r >= '[' && r <= '`' || r >= '{' && r <= '~'
	}
	return unicode.Is(unicode.P, r)
}

// isHan reports whether r is in a block of Chinese characters, each of which is a separate word. Kana and Hangul are
// not.
func isHan(r rune) bool {
	if r < 0x3400 {
		return false
	}
	return r >= 0x4E00 && r <= 0x9FFF || r <= 0x4DBF || r >= 0xF900 && r <= 0xFAFF ||
		r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2CEAF || r >= 0x2F800 && r <= 0x2FA1F
}

// collapseBlanks replaces every run of two or more blanks by one space. A single blank stays unchanged.
func collapseBlanks(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	run := 0     // blanks before the character at hand
	var one rune // the first of them
	flush := func() {
		switch {
		case run == 1:
			out.WriteRune(one)
		case run > 1:
			out.WriteByte(' ')
		}
		run = 0
	}
	for _, r := range text {
		if isPythonSpace(r) {
			if run == 0 {
				one = r
			}
			run++
			continue
		}
		flush()
		out.WriteRune(r)
	}
	flush()
	return out.String()
}

// isPythonSpace reports whether Python's \s matches a character of a str.
func isPythonSpace(r rune) bool {
	switch {
	case r >= '\t' && r <= '\r', r >= 0x1c && r <= 0x20, r == 0x85, r == 0xa0, r == 0x1680:
		return true
	case r >= 0x2000 && r <= 0x200a, r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		return true
	}
	return false
}

// pythonLower returns the text in lower case as Python's str.lower does. Libraries differ in the capital sigma at the
// end of a word: Python skips ignorable characters even if they are letters.
func pythonLower(text string) string {
	fold := cases.Lower(language.Und, cases.HandleFinalSigma(false))
	if !strings.ContainsRune(text, capitalSigma) {
		return fold.String(text)
	}
	characters := []rune(text)
	var out strings.Builder
	out.Grow(len(text))
	from := 0
	for i, r := range characters {
		if r != capitalSigma {
			continue
		}
		out.WriteString(fold.String(string(characters[from:i])))
		if endsWord(characters, i) {
			out.WriteRune('ς')
		} else {
			out.WriteRune('σ')
		}
		from = i + 1
	}
	out.WriteString(fold.String(string(characters[from:])))
	return out.String()
}

const capitalSigma = 'Σ'

// endsWord reports whether a cased letter precedes position i and none follows it, ignoring ignorable characters.
func endsWord(text []rune, i int) bool {
	before, after := i-1, i+1
	for before >= 0 && ignorable(text[before]) {
		before--
	}
	for after < len(text) && ignorable(text[after]) {
		after++
	}
	return before >= 0 && cased(text[before]) && (after == len(text) || !cased(text[after]))
}

// cased reports whether a character has Unicode's property Cased.
func cased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

// ignorable reports whether a character has Unicode's property Case_Ignorable.
func ignorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune(insideWords, r)
}

// insideWords are the marks that break no word: Unicode's Word_Break values MidLetter, MidNumLet and Single_Quote.
const insideWords = "'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a"
