package token

import (
	"html"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cleanCLIP unescapes HTML twice, strips white space at both ends and lower-cases. White space inside is left alone: it
// only ever separates words.
func cleanCLIP(text string) string {
	text = unescapeHTML(unescapeHTML(text))
	text = strings.TrimFunc(text, func(r rune) bool { return isSpace(r) || r >= 0x1C && r <= 0x1F })
	return lowerFull(strings.ToValidUTF8(text, "\uFFFD"))
}

// clipWord returns the length of the first word of text under CLIP's pattern
//
//	<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+
//
// or of one rune of white space.
func clipWord(text string) int {
	if text[0] == '<' || text[0] == '\'' {
		for _, whole := range [...]string{clipStart, clipEnd, "'s", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
			if strings.HasPrefix(text, whole) {
				return len(whole)
			}
		}
	}
	first, size := utf8.DecodeRuneInString(text)
	var same func(rune) bool
	switch {
	case isSpace(first), unicode.IsNumber(first):
		return size
	case unicode.IsLetter(first):
		same = unicode.IsLetter
	default:
		same = func(r rune) bool { return !isSpace(r) && !unicode.IsNumber(r) && !unicode.IsLetter(r) }
	}
	for i, r := range text {
		if !same(r) {
			return i
		}
	}
	return len(text)
}

func isSpace(r rune) bool { return unicode.Is(unicode.White_Space, r) }

// lowerFull lower-cases as Unicode's full mapping does: unlike rune by rune, a capital I with dot keeps its dot, and a
// sigma at the end of a word is a final one.
func lowerFull(s string) string {
	if !strings.ContainsAny(s, "Σİ") {
		return strings.ToLower(s)
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == 'İ':
			b.WriteString("i\u0307")
		case r == 'Σ' && isFinalSigma(s[:i], s[i+len("Σ"):]):
			b.WriteRune('ς')
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// isFinalSigma: a cased letter before and none after, whatever is case-ignorable in between.
func isFinalSigma(before, after string) bool {
	cased := false
	for before != "" {
		r, size := utf8.DecodeLastRuneInString(before)
		before = before[:len(before)-size]
		if !isCaseIgnorable(r) {
			cased = isCased(r)
			break
		}
	}
	if !cased {
		return false
	}
	for _, r := range after {
		if !isCaseIgnorable(r) {
			return !isCased(r)
		}
	}
	return true
}

func isCased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

func isCaseIgnorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) ||
		strings.ContainsRune("'.:·\u0387\u055F\u05F4‘’\u2024\u2027\uFE13\uFE52\uFE55＇．：", r)
}

// unescapeHTML replaces character references once, as Python's html.unescape does. Names are left to the standard
// library. Numbers are decoded here, because the library keeps control characters, wraps around above 32 bits and
// accepts "&#x;".
func unescapeHTML(s string) string {
	if strings.IndexByte(s, '&') < 0 {
		return s
	}
	var b strings.Builder
	start := 0
	for at := 0; at < len(s); at++ {
		if text, size := numericReference(s[at:]); size > 0 {
			b.WriteString(html.UnescapeString(s[start:at]))
			b.WriteString(text)
			start = at + size
			at = start - 1
		}
	}
	b.WriteString(html.UnescapeString(s[start:]))
	return b.String()
}

// numericReference decodes the reference at the start of s; size is 0 if s does not start with "&#". If no digit
// follows, those two bytes stand for themselves.
func numericReference(s string) (text string, size int) {
	if !strings.HasPrefix(s, "&#") {
		return "", 0
	}
	i, base := 2, rune(10)
	if i < len(s) && (s[i] == 'x' || s[i] == 'X') {
		i, base = 3, 16
	}
	digits := i
	code := rune(0)
	for ; i < len(s); i++ {
		d, err := strconv.ParseUint(s[i:i+1], int(base), 8)
		if err != nil {
			break
		}
		code = min(code*base+rune(d), unicode.MaxRune+1)
	}
	if i == digits {
		return s[:2], 2
	}
	if i < len(s) && s[i] == ';' {
		i++
	}
	return referenced(code), i
}

// referenced returns the text of a numeric reference: Windows-1252 for the C1 controls, nothing for other code points
// that are not characters, U+FFFD for numbers that are no code points.
func referenced(code rune) string {
	switch {
	case code == 0 || code > unicode.MaxRune || code >= 0xD800 && code <= 0xDFFF:
		return "\uFFFD"
	case code >= 0x80 && code <= 0x9F:
		return html.UnescapeString("&#" + strconv.Itoa(int(code)) + ";")
	case code <= 8, code == 0xB, code >= 0xE && code <= 0x1F, code == 0x7F, code >= 0xFDD0 && code <= 0xFDEF, code&0xFFFE == 0xFFFE:
		return ""
	}
	return string(code)
}
