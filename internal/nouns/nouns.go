// Package nouns finds the nouns of an English caption.
//
// Tokens and the averaged-perceptron model come from jdkato/prose/v2. Its own tagger is not used, for two reasons. It
// loads the model for every document unless told otherwise, at 13 captions a second. And it adds floating-point weights
// in the order of a Go map, and breaks ties in that order, so the same caption may come out differently; the groups'
// bytes depend on nouns. Here the model is loaded once ([Load]) and its weights, which have three decimals, are added
// as integers, ties going to the tag that comes first in the alphabet.
//
// Guarantees:
//
//  1. [Tagger.Nouns] is a function of the caption alone.
//  2. Tags are prose's, ties and emoticons aside (emoticons are words here).
//
// A noun is a word tagged NN, NNS, NNP or NNPS, lower-cased as it stands: no lemmas, as in GPN-S, so "dog" and "dogs" are
// two nouns. It has 2 or more letters, digits, hyphens and apostrophes, the first one a letter, in at most 64 bytes;
// addresses of web pages and the like, which the tagger also calls nouns, are not nouns here, since nouns are joined by
// spaces to make a text. A caption has at most 64 of them, so that one of 8 KB does not fill a group's vocabulary.
//
// A Tagger is safe for concurrent use.
package nouns

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jdkato/prose/v2"
)

const (
	minRunes    = 2
	maxBytes    = 64
	maxNouns    = 64 // of a caption
	maxRunBytes = 256
)

// Nouns returns the distinct nouns of a caption, ascending. Of a longer list, the first 64 of the text count.
func (t *Tagger) Nouns(caption string) []string {
	words := Words(caption)
	tags := t.Tags(words)
	var found []string
	for i, word := range words {
		if !isNounTag(tags[i]) || !isWord(word) || len(found) == maxNouns {
			continue
		}
		if noun := strings.ToLower(word); !slices.Contains(found, noun) {
			found = append(found, noun)
		}
	}
	slices.Sort(found)
	return found
}

// Words splits a text into tokens as prose does, after leaving out runs of more than 256 bytes without a space: prose's
// time grows with the square of a run's length, to a second for a caption of 8 KB.
func Words(text string) []string {
	text = strings.Map(keepLength, strings.ToValidUTF8(text, "\uFFFD"))
	if runs := strings.Fields(text); slices.ContainsFunc(runs, isLongRun) {
		text = strings.Join(slices.DeleteFunc(runs, isLongRun), " ")
	}
	// NewDocument fails on nothing when it only splits; its error is for options that it does not have yet.
	doc, err := prose.NewDocument(text, prose.WithTagging(false), prose.WithExtraction(false), prose.WithSegmentation(false))
	if err != nil {
		panic(fmt.Sprintf("nouns: splitting a text: %v", err))
	}
	tokens := doc.Tokens()
	words := make([]string, len(tokens))
	for i, token := range tokens {
		words[i] = token.Text
	}
	return words
}

func isLongRun(run string) bool { return len(run) > maxRunBytes }

// keepLength lowers the few letters whose lower case has another length in UTF-8: prose looks for the end of a stem in
// the lower-case word and cuts the word there, out of range if the lengths differ.
func keepLength(r rune) rune {
	if lower := unicode.ToLower(r); utf8.RuneLen(lower) != utf8.RuneLen(r) {
		return lower
	}
	return r
}

func isNounTag(tag string) bool { return strings.HasPrefix(tag, "NN") }

func isWord(word string) bool {
	if len(word) > maxBytes || utf8.RuneCountInString(word) < minRunes {
		return false
	}
	for i, r := range word {
		switch {
		case unicode.IsLetter(r):
		case i == 0:
			return false
		case !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '-' && r != '\'':
			return false
		}
	}
	return true
}
