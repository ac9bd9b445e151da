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

	"github.com/jdkato/prose/v2"
	"github.com/mingrammer/commonregex"
)

// Tagger holds the part-of-speech model.
type Tagger struct {
	classes []string            // tags, ascending
	fixed   map[string]string   // words that have one tag wherever they stand
	weights map[string][]weight // of a feature
}

// weight is what a feature says for a tag, in thousandths.
type weight struct {
	class      int32
	thousandth int32
}

// Load returns the model that comes with prose. The first call reads it, in about half a second. Later ones share it: the stages
// of one process ask for it.
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

// plainTag knows the tokens that prose recognises by their form.
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

// isAddress asks the regular expressions, which are slow, only about words that can match them.
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
