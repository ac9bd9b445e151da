// Package language tells the language of a caption.
//
// It counts three letters at a time, with lingua's models of 75 languages. Models are read from the binary when a text
// first needs them, and then take about 50 MiB. A detector is safe for concurrent use.
//
// lingua adds logarithms in the order of a map, so the last bits of its scores differ from call to call. Two languages whose
// scores are as good as equal are therefore no answer here. The answer is then the same in every process.
package language

import (
	"strings"

	"github.com/pemistahl/lingua-go"
)

// least is how much better than the second the first language must score, of 1.
const least = 1e-6

// Detector tells languages.
type Detector struct{ d lingua.LanguageDetector }

// New makes a detector of all languages. It reads no model yet.
func New() *Detector {
	return &Detector{lingua.NewLanguageDetectorBuilder().FromAllLanguages().WithLowAccuracyMode().Build()}
}

// Of returns the language of a text as ISO 639-1 has it, such as "en" or "zh"; empty if it cannot be told.
func (d *Detector) Of(text string) string {
	best := d.d.ComputeLanguageConfidenceValues(text)
	if len(best) < 2 || best[0].Value()-best[1].Value() < least {
		return ""
	}
	return strings.ToLower(best[0].Language().IsoCode639_1().String())
}
