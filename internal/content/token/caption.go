package token

import (
	"strings"
)

// captionMarks are the characters that [PreCaption] drops.
const captionMarks = `,.'!?"()*#:;~`

// captionWords replaces hyphens and slashes by blanks.
var captionWords = strings.NewReplacer("-", " ", "/", " ")

// PreCaption returns a caption as ALBEF, TCL, GRIT-VLP and MAFA feed it to their models (pre_caption of
// dataset/utils.py): lower case, without most punctuation, of at most maxWords words between blanks. Lower case and
// white space are as in Python, for all of Unicode.
func PreCaption(caption string, maxWords int) string {
	text := strings.Map(func(r rune) rune {
		if strings.ContainsRune(captionMarks, r) {
			return -1
		}
		return r
	}, pythonLower(caption))
	text = strings.ReplaceAll(captionWords.Replace(text), "<person>", "person")
	text = collapseBlanks(text)
	text = strings.Trim(strings.TrimRight(text, "\n"), " ")
	if words := strings.SplitN(text, " ", maxWords+1); len(words) > maxWords {
		text = strings.Join(words[:maxWords], " ")
	}
	return text
}
