// Package language tells the language of a caption.
//
// It counts three letters at a time, with the models of 75 languages and the rules of lingua-go, in its mode of low
// accuracy. The models are no part of the program, as they would be half of it: [Open] reads their file, of 10 MiB. Those of
// a script are unpacked when a text first needs them, and then take about 50 MiB. A detector is safe for concurrent use.
//
// Invariants:
//
//  1. The models are those whose digest the package knows. So the answer is a function of the text alone.
//  2. Two languages whose scores are as good as equal are no answer, as with lingua-go, whose sums depend on an order.
package language

import (
	"math"
	"slices"
	"sync"
)

// least is how much better than the second the first language must score, of 1.
const least = 1e-6

// Detector tells languages.
type Detector struct {
	models [][3]func() map[string]float64 // of each language, by the letters that they count, less one
}

// Open reads the models: a file that [Pack] wrote, or the folder language-models of lingua-go's module. It unpacks none yet.
func Open(path string) (*Detector, error) {
	files, err := readModels(path)
	if err != nil {
		return nil, err
	}
	d := &Detector{models: make([][3]func() map[string]float64, len(speeches))}
	for i, l := range speeches {
		for n := range d.models[i] {
			packed := files[modelName(l.code, n)]
			d.models[i][n] = sync.OnceValue(func() map[string]float64 { return unpack(packed) })
		}
	}
	return d, nil
}

// Of returns the language of a text as ISO 639-1 has it, such as "en" or "zh"; empty if it cannot be told.
func (d *Detector) Of(text string) string {
	words := wordsOf(text)
	if len(words) == 0 {
		return ""
	}
	if code := byRules(words); code != "" {
		return code
	}
	languages := candidates(words)
	if len(languages) == 1 {
		return speeches[languages[0]].code
	}
	return d.best(words, languages)
}

// best returns the language whose models make the words most likely, if it is clearly ahead of the second.
func (d *Detector) best(words [][]rune, languages []int) string {
	letters := 0
	for _, w := range words {
		letters += len(w)
	}
	if letters < 3 {
		return ""
	}
	grams := trigrams(words)
	var sums []float64
	var scored []int
	for _, l := range languages {
		if sum := d.score(l, grams); sum < 0 {
			sums, scored = append(sums, sum), append(scored, l)
		}
	}
	if len(sums) == 0 {
		return ""
	}
	first := 0
	for i, sum := range sums {
		if sum > sums[first] {
			first = i
		}
	}
	total, second := 0.0, 0.0
	for i, sum := range sums {
		share := math.Exp(sum - sums[first])
		if total += share; i != first {
			second = max(second, share)
		}
	}
	if (1-second)/total < least {
		return ""
	}
	return speeches[scored[first]].code
}

// score adds the logarithms of the trigrams' probabilities in a language. Where it knows three letters not, it takes the
// first two or one of them.
func (d *Detector) score(l int, grams []string) float64 {
	sum := 0.0
	for _, gram := range grams {
		letters := []rune(gram)
		for n := len(letters); n > 0; n-- {
			if p := d.models[l][n-1]()[string(letters[:n])]; p > 0 {
				sum += math.Log(p)
				break
			}
		}
	}
	return sum
}

// trigrams returns the distinct runs of three letters within words, sorted, so that sums have one order.
func trigrams(words [][]rune) []string {
	var out []string
	for _, w := range words {
		for i := 0; i+3 <= len(w); i++ {
			out = append(out, string(w[i:i+3]))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
