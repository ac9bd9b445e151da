package discriminator

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// A measurement of the longest kind, with all 95 others of a mini-batch as candidates, fits into a mark, whose headers
// may have 64 KiB. A mark has states in base64.
func TestKnownFitsIntoAMark(t *testing.T) {
	r := rng.New(1, "marks")
	draw := func(n int) Probabilities {
		p := make(Probabilities, n)
		for i := range p {
			p[i] = r.Float32()
		}
		return p
	}
	var k Known
	k.Add(Known{Pairs: most, Positives: draw(most), Edited: draw(edits * most), Reworded: draw(rewordings * most), Others: draw(most), Candidates: draw(2 * 95 * most), Contradicting: draw(95 * most)})
	raw := must.Get(json.Marshal(k))(t)
	if n := base64.StdEncoding.EncodedLen(len(raw)); n > 60<<10 {
		t.Errorf("%d probabilities take %d bytes", len(k.Candidates), n)
	}
}

// What is read from a mark says the same as what was measured, and goes into the next mark with the same bytes.
// Rounding leaves as many above every threshold in thousandths.
func TestKnownOfAMark(t *testing.T) {
	r := rng.New(2, "marks")
	exact := Probabilities{0, 1, 0.5, 0.8, math.Nextafter32(0.8, 1), math.Nextafter32(0.8, 0), math.Nextafter32(0.5, 1), 1e-9, 0.9999}
	for range 500 {
		exact = append(exact, r.Float32())
	}
	for i := range steps + 1 {
		exact = append(exact, thousandth(i), math.Nextafter32(thousandth(i), 0))
	}
	var k, read Known
	k.Add(Known{Positives: exact, Edited: exact[:400], Candidates: exact[100:], Contradicting: exact[200:400]})
	for i := range steps + 1 {
		threshold := float64(i) / steps
		if got, want := above(k.Positives, threshold), above(exact, threshold); got != want {
			t.Fatalf("%d are above %v, want %d", got, threshold, want)
		}
	}
	raw, err := json.Marshal(k)
	if err == nil {
		err = json.Unmarshal(raw, &read)
	}
	must.Do(t, err)
	for _, high := range []float64{0.5, 0.8, 0.935} {
		if a, b := k.Precision(high), read.Precision(high); a != b {
			t.Errorf("above %v: %+v, and %+v from the mark", high, a, b)
		}
	}
	slices.Sort(k.Candidates)
	if k.AUC() != read.AUC() || !slices.Equal(k.Candidates, read.Candidates) {
		t.Errorf("AUC %v, and %v from the mark", k.AUC(), read.AUC())
	}
	read.Add(Known{Positives: exact[:50]})
	k.Add(Known{Positives: exact[:50]})
	a, errA := json.Marshal(k)
	b, errB := json.Marshal(read)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("the next mark has other bytes (%v, %v)", errA, errB)
	}
}

func TestStrangeCounts(t *testing.T) {
	for raw, want := range map[string]string{
		`[1]`: "1 numbers, want an even number", `[1001, 1]`: "thousandth 1001", `[-1, 1]`: "thousandth -1", `[500, 1, 501, 1]`: "thousandth 1001", `[500, 1, 0, 1]`: "thousandth 500", `[1, 0]`: "occurs 0 times",
		`[1, 16777217]`: "occurs 16777217 times", `[1, 16777216, 1, 1]`: "thousandth 2 occurs 1 times", `[0.5, 1]`: "reading counted probabilities", `{}`: "reading",
	} {
		var p Probabilities
		if err := json.Unmarshal([]byte(raw), &p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
}
