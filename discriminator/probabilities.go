package discriminator

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Probabilities are Con-D's answers, in any order. Their JSON is a histogram in thousandths: pairs of the distance from
// the previous thousandth and its count. It takes a few kilobytes for any number of probabilities, and a mark has room
// for 64 kilobytes. Probabilities are rounded up to a thousandth, so the same number lies above a threshold in
// thousandths.
type Probabilities []float32

// with appends further probabilities, rounded.
func (p Probabilities) with(more Probabilities) Probabilities {
	for _, x := range more {
		p = append(p, thousandth(thousandthOf(x)))
	}
	return p
}

// thousandthOf returns the first thousandth that is not below x.
func thousandthOf(x float32) int {
	k := max(int(math.Ceil(float64(x)*steps))-1, 0) // x is a float32, which may lie a little above its thousandth
	for k < steps && thousandth(k) < x {
		k++
	}
	return k
}

func thousandth(k int) float32 { return float32(float64(k) / steps) }

// MarshalJSON implements [json.Marshaler].
func (p Probabilities) MarshalJSON() ([]byte, error) {
	var counts [steps + 1]int
	for _, x := range p {
		counts[thousandthOf(x)]++
	}
	turns, last := []int{}, 0
	for k, n := range counts {
		if n > 0 {
			turns, last = append(turns, k-last, n), k
		}
	}
	return json.Marshal(turns)
}

// mostProbabilities bounds the count in a decoded state.
const mostProbabilities = 1 << 24

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Probabilities) UnmarshalJSON(raw []byte) error {
	var turns []int
	if err := json.Unmarshal(raw, &turns); err != nil {
		return fmt.Errorf("reading counted probabilities: %w", err)
	}
	if len(turns)%2 != 0 {
		return fmt.Errorf("reading counted probabilities: %d numbers, want an even number", len(turns))
	}
	all, k := 0, 0
	*p = nil
	for i := 0; i < len(turns); i += 2 {
		n := turns[i+1]
		if k += turns[i]; turns[i] < min(i, 1) || k > steps || n < 1 || n > mostProbabilities-all {
			return fmt.Errorf("reading counted probabilities: thousandth %d occurs %d times, want 0 to %d, and 1 to %d in all", k, n, steps, mostProbabilities)
		}
		all += n
		*p = append(*p, slices.Repeat([]float32{thousandth(k)}, n)...)
	}
	return nil
}
