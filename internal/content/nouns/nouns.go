// Package nouns finds the nouns of an English caption.
//
// Tokens and the averaged-perceptron model come from jdkato/prose/v2. Its own tagger is not used, for two reasons. It
// loads the model for every document unless told otherwise, at 13 captions a second. And it adds floating-point weights
// in the order of a Go map, and breaks ties in that order. So the same caption may give different tags, and the groups'
// bytes depend on nouns. Here the model is loaded once ([Load]) and its weights, which have three decimals, are added
// as integers, with ties broken alphabetically.
//
// Guarantees:
//
//  1. [Tagger.Nouns] is a function of the caption alone.
//  2. Tags are prose's, except for ties and emoticons (emoticons are words here).
//
// A noun is a word tagged NN, NNS, NNP or NNPS, lower-cased but not lemmatized, as in GPN-S, so "dog" and "dogs" are
// two nouns. It has 2 or more letters, digits, hyphens and apostrophes, the first one a letter, in at most 64 bytes.
// Web addresses, which the tagger also calls nouns, are excluded, because nouns are joined by spaces to make a text. A
// caption has at most 64 nouns, so that one of 8 KB does not fill a group's vocabulary.
//
// A Tagger is safe for concurrent use.
package nouns

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/jdkato/prose/v2"
	"github.com/mingrammer/commonregex"
)

const (
	minRunes    = 2
	maxBytes    = 64
	maxNouns    = 64 // of a caption
	maxRunBytes = 256
)

// Nouns returns the distinct nouns of a caption, ascending. Of more than 64 nouns, the first 64 in the text count.
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

// Words splits a text into tokens as prose does, after removing runs of more than 256 bytes without a space: prose's
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

// keepLength lowers the few letters whose lower case has another length in UTF-8. prose finds the end of a stem in the
// lower-case word and cuts the original word there, out of range if the lengths differ.
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

// Tagger holds the part-of-speech model.
type Tagger struct {
	classes []string            // tags, ascending
	fixed   map[string]string   // words with only one tag
	weights map[string][]weight // of a feature
}

// weight is a feature's score for a tag, in thousandths.
type weight struct {
	class      int32
	thousandth int32
}

// Load returns the model that comes with prose. The first call reads it, in about half a second. Later calls, by other
// stages of the process, share it.
func Load() (*Tagger, error) { return load() }

var load = sync.OnceValues(read)

func read() (*Tagger, error) {
	var classes []string
	var weights map[string]map[string]float64
	t := &Tagger{}
	for name, into := range map[string]any{"classes": &classes, "tags": &t.fixed, "weights": &weights} {
		raw, err := prose.Asset("model/AveragedPerceptron/" + name + ".gob")
		if err != nil {
			return nil, fmt.Errorf("reading the tagger's %s: %w", name, err)
		}
		if err := gob.NewDecoder(bytes.NewReader(raw)).Decode(into); err != nil {
			return nil, fmt.Errorf("decoding the tagger's %s: %w", name, err)
		}
	}
	slices.Sort(classes)
	t.classes = classes
	t.weights = make(map[string][]weight, len(weights))
	for feature, byClass := range weights {
		list := make([]weight, 0, len(byClass))
		for class, w := range byClass {
			at, ok := slices.BinarySearch(classes, class)
			if !ok {
				return nil, fmt.Errorf("decoding the tagger's weights: feature %q speaks of the unknown tag %q", feature, class)
			}
			list = append(list, weight{int32(at), int32(math.Round(w * 1000))})
		}
		t.weights[feature] = list
	}
	return t, nil
}

// Tags returns the part-of-speech tags of the words of a text.
func (t *Tagger) Tags(words []string) []string {
	const first, second = "-START-", "-START2-"
	context := make([]string, 0, len(words)+4)
	context = append(context, first, second)
	for _, w := range words {
		context = append(context, normalize(w))
	}
	context = append(context, "-END-", "-END2-")
	tags := make([]string, len(words))
	p := predictor{Tagger: t, scores: make([]int64, len(t.classes))}
	before, beforeThat := first, second
	for i, word := range words {
		tag, ok := plainTag(word)
		if !ok {
			tag, ok = t.fixed[word]
		}
		if !ok {
			tag = p.predict(word, context[i:i+5], before, beforeThat)
		}
		tags[i] = tag
		beforeThat, before = before, tag
	}
	return tags
}

// plainTag tags the tokens that prose recognises by their form.
func plainTag(word string) (string, bool) {
	switch {
	case word == "-":
		return "-", true
	case word[0] == '@', isAddress(word):
		return "NN", true
	case word == "0", isTrace(word):
		return "-NONE-", true
	case len(word) == 5 && word[0] == '-' && word[4] == '-' && isUpper(word[1:4]):
		return word, true
	}
	return "", false
}

// isAddress applies the regular expressions, which are slow, only to words that can match them.
func isAddress(word string) bool {
	return (strings.Contains(word, ".") && commonregex.LinkRegex.MatchString(word)) ||
		(strings.Contains(word, "@") && commonregex.EmailRegex.MatchString(word))
}

// isTrace recognises the empty elements of the Penn Treebank: *, *x*, *-1, *PRO*-1.
func isTrace(word string) bool {
	if word[0] != '*' {
		return false
	}
	rest := word[1:]
	if rest == "" || (len(rest) == 2 && rest[1] == '*' && (rest[0] == '?' || rest[0] == '_' || isAlphanumeric(rest[0]))) {
		return true
	}
	name, number, ok := strings.Cut(rest, "-")
	if !ok || len(number) < 1 || len(number) > 3 || strings.Trim(number, "0123456789") != "" {
		return false
	}
	return name == "" || (len(name) > 1 && name[len(name)-1] == '*' && isUpper(name[:len(name)-1]))
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isUpper(s string) bool {
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			return false
		}
	}
	return true
}

// normalize returns a word as the model sees it among its neighbours.
func normalize(word string) string {
	first := string(rune(word[0])) // the first byte, as the model was trained
	if strings.Contains(word, "-") && first != "-" {
		return "!HYPHEN"
	}
	if _, err := strconv.Atoi(word); err == nil && len(word) == 4 {
		return "!YEAR"
	}
	if word[0] >= '0' && word[0] <= '9' {
		return "!DIGITS"
	}
	return strings.ToLower(word)
}

// predictor adds the weights of a word's features.
type predictor struct {
	*Tagger
	scores []int64
	key    []byte
}

func (p *predictor) add(parts ...string) {
	p.key = p.key[:0]
	for i, part := range parts {
		if i > 0 {
			p.key = append(p.key, ' ')
		}
		p.key = append(p.key, part...)
	}
	for _, w := range p.weights[string(p.key)] {
		p.scores[w.class] += int64(w.thousandth)
	}
}

func suffix(s string) string { return s[max(0, len(s)-3):] }

// predict tags word; around are the normalised words from two before to two after it.
func (p *predictor) predict(word string, around []string, before, beforeThat string) string {
	clear(p.scores)
	p.add("bias")
	p.add("i suffix", suffix(word))
	p.add("i pref1", string(rune(word[0])))
	p.add("i-1 tag", before)
	p.add("i-2 tag", beforeThat)
	p.add("i tag+i-2 tag", before, beforeThat)
	p.add("i word", around[2])
	p.add("i-1 tag+i word", before, around[2])
	p.add("i-1 word", around[1])
	p.add("i-1 suffix", suffix(around[1]))
	p.add("i-2 word", around[0])
	p.add("i+1 word", around[3])
	p.add("i+1 suffix", suffix(around[3]))
	p.add("i+2 word", around[4])
	best := 0
	for i, s := range p.scores {
		if s > p.scores[best] {
			best = i
		}
	}
	return p.classes[best]
}
